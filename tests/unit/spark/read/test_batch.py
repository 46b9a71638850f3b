"""Batch queries return every record once, use half-open ranges, and skip filtered data."""

import json
import operator
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.dlsn import FIRST_DLSN, Dlsn
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    GapError,
    InvalidArgumentError,
    NoSuchStreamError,
)
from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.options import Options, parse_options
from rhumbline.spark.read.splits import ArchiveSplit, HotSplit
from rhumbline.spark.read.streaming import RhumblineStreamReader
from rhumbline.tests.unit.spark.spark_world import (
    Row,
    archive_on_disk,
    manifest_path,
    options,
    read_all,
    read_chain,
    rows_of,
    write_chain,
)
from rhumbline.tests.unit.spark.streaming_world import StreamingWorld


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ArchiveConfig(part_bytes=1000, row_group_bytes=25)
    monkeypatch.setattr(archive_module, "DEFAULTS", small)


def position(dlsn: str) -> Dlsn:
    return Dlsn.parse(dlsn)


def test_every_record_is_read_once_in_order(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    assert read_all(RhumblineBatchReader(options(tmp_path))) == rows
    assert len(rows) == 120


def test_columns_have_the_requested_order(tmp_path: Path) -> None:
    archive_on_disk(tmp_path, segments=1)
    reader = RhumblineBatchReader(options(tmp_path, columns="payload,stream,created,lssn"))
    batch = next(reader.read(reader.partitions()[0]))
    assert batch.schema.names == ["payload", "stream", "created", "lssn"]
    assert batch.column("stream")[0].as_py() == "s"
    assert batch.column("created")[0].as_py().timestamp() == 1000.0


def test_adjacent_ranges_return_every_record_once(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    for cut in [*range(0, 120, 11), 119]:
        at = rows[cut][0]
        boundary = position(at)._replace(slot=0)
        before = read_all(
            RhumblineBatchReader(options(tmp_path, endingOffsets=json.dumps({"s": str(boundary)})))
        )
        after = read_all(
            RhumblineBatchReader(
                options(tmp_path, startingOffsets=json.dumps({"s": str(boundary)}))
            )
        )
        assert before + after == rows
        assert (
            read_all(RhumblineBatchReader(options(tmp_path, startingOffsets=json.dumps({"s": at}))))
            == (rows[cut:])
        )


CONDITIONS: dict[str, Callable[[Dlsn, int], bool]] = {
    "txid = 17": lambda at, txid: txid == 17,
    "txid >= 30 and txid < 34": lambda at, txid: 30 <= txid < 34,
    "txid > 100 AND txid<=101": lambda at, txid: txid == 101,
    "lssn = 2 and entry_id < 2": lambda at, txid: at.lssn == 2 and at.entry_id < 2,
    "lssn in (2, 3) and entry_id = 1": lambda at, txid: at.lssn in (2, 3) and at.entry_id == 1,
    "lssn in (3, 4) and slot = 0": lambda at, txid: at.lssn in (3, 4) and at.slot == 0,
    "txid in (7, 110)": lambda at, txid: txid in (7, 110),
    "dlsn = '3:1:0'": lambda at, txid: at == Dlsn(3, 1, 0),
    "stream = 'other'": lambda at, txid: False,
    "stream in ('s', 't') and lssn = 4": lambda at, txid: at.lssn == 4,
    "created > '1970-01-02'": lambda at, txid: False,
    "created = '1970-01-01T01:16:40+01:00' and txid = 3": lambda at, txid: txid == 3,
}


@pytest.mark.parametrize("where", CONDITIONS)
def test_conditions_select_rows_and_skip_data(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = archive_on_disk(tmp_path)
    bytes_read = 0
    get = LocalColdStore.get

    async def counted(
        self: LocalColdStore, key: str, offset: int = 0, length: int | None = None
    ) -> bytes:
        nonlocal bytes_read
        data = await get(self, key, offset, length)
        bytes_read += len(data) if key.endswith(".parquet") else 0
        return data

    monkeypatch.setattr(LocalColdStore, "get", counted)
    assert read_all(RhumblineBatchReader(options(tmp_path))) == rows
    all_bytes, bytes_read = bytes_read, 0
    found = read_all(RhumblineBatchReader(options(tmp_path, where=where)))
    assert found == [row for row in rows if CONDITIONS[where](position(row[0]), row[1])]
    assert bytes_read < all_bytes / 2


def test_segments_between_the_values_of_a_list_are_not_planned(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    reader = RhumblineBatchReader(options(tmp_path, where="lssn in (1, 4)"))
    tasks: list[Any] = reader.partitions()
    splits = [split for task in tasks for split in getattr(task, "splits", (task,))]
    assert {split.lssn for split in splits} == {1, 4}
    assert read_all(reader) == [row for row in rows if position(row[0]).lssn in (1, 4)]


def test_conditions_on_event_times_select_no_records_without_one(tmp_path: Path) -> None:
    archive_on_disk(tmp_path)

    def event_times(where: str) -> list[datetime | None]:
        reader = RhumblineBatchReader(options(tmp_path, columns="event_time", where=where))
        batches = [batch for task in reader.partitions() for batch in reader.read(task)]
        return [time for batch in batches for time in batch.column(0).to_pylist()]

    known = [time for time in event_times("lssn > 0") if time is not None]
    middle = sorted(known)[len(known) // 2]
    for sign, holds in (("<", operator.lt), ("<=", operator.le), (">", operator.gt)):
        found = event_times(f"event_time {sign} '{middle.isoformat()}'")
        assert found == [time for time in known if holds(time, middle)]
    assert 0 < len(known) < 120


def test_conditions_can_be_on_columns_that_are_not_read(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    reader = RhumblineBatchReader(options(tmp_path, columns="payload", where="txid in (7, 8)"))
    batches = [batch for task in reader.partitions() for batch in reader.read(task)]
    assert {tuple(batch.schema.names) for batch in batches} == {("payload",)}
    payloads = [value for batch in batches for value in batch.column(0).to_pylist()]
    assert payloads == [row[2] for row in rows if row[1] in (7, 8)]


@pytest.mark.parametrize("archived", [4, 6])
def test_a_range_of_times_is_planned_from_the_segments_that_hold_it(archived: int) -> None:
    """Every archived segment was planned, and its footer read to find out its times."""
    with StreamingWorld() as world:
        created: list[int] = []
        for _ in range(6):
            for records in (3, 2):
                world.pass_time(500)
                world.write("s", [records])
                created += [world.world.clock.now_ms] * records
            world.roll("s")
        world.archive("s", archived)
        given = {"archive": "file:///cold", "namespace": "test", "subscribe": "s"}
        if archived < 6:
            given["metadata"] = "sqlite:///here"
        for low, end in combinations(range(created[0], created[-1] + 501, 500), 2):
            times = [datetime.fromtimestamp(ms / 1000, UTC).isoformat() for ms in (low, end)]
            where = f"created >= '{times[0]}' and created < '{times[1]}'"
            reader = RhumblineBatchReader(
                parse_options({**given, "where": where}, is_streaming=False)
            )
            tasks: list[Any] = reader.partitions()
            batches = [batch for task in tasks for batch in reader.read(task)]
            found = {position(row[0])[:] for row in rows_of(batches)}
            truth = [dlsn for dlsn, _ in world.truth["s"]]
            wanted = {dlsn[:] for dlsn, ms in zip(truth, created, strict=True) if low <= ms < end}
            assert found == wanted
            # the end of a range is not searched in ledgers
            from_ledgers = {5, 6} if archived < 6 and end > created[5 * archived - 1] else set()
            late = {lssn for lssn in from_ledgers if created[5 * lssn - 1] >= low}
            splits = [one for task in tasks for one in getattr(task, "splits", (task,))]
            assert {one.lssn for one in splits if isinstance(one, ArchiveSplit)} | {
                one.start.lssn for one in splits if isinstance(one, HotSplit)
            } == {dlsn[0] for dlsn in wanted} | late


def test_a_missing_file_fails_the_read_and_not_the_plan_of_a_range_of_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    archive_on_disk(tmp_path)
    for path in tmp_path.glob("test/s/[0-9a-f]*/segment-*"):
        path.unlink()
    early = "created < '1970-01-01T00:00:00Z'"
    strict = RhumblineBatchReader(options(tmp_path, where=early))
    lenient = RhumblineBatchReader(options(tmp_path, where=early, failOnDataLoss="false"))
    with pytest.raises(GapError, match="no longer exist"):
        read_all(strict)
    assert not caplog.messages
    assert read_all(lenient) == []
    assert "without the records from" in caplog.messages[0]


def test_missing_segments_are_an_error_unless_allowed(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    manifest_path(tmp_path, 1).unlink()
    start = json.dumps({"s": "1:0:0"})
    with pytest.raises(GapError, match="failOnDataLoss"):
        read_all(RhumblineBatchReader(options(tmp_path, startingOffsets=start)))
    allowed = options(tmp_path, startingOffsets=start, failOnDataLoss="false")
    assert read_all(RhumblineBatchReader(allowed)) == [
        row for row in rows if position(row[0]).lssn > 1
    ]
    with pytest.raises(GapError, match="from 1:0:0 up to 2:0:0"):
        read_all(RhumblineBatchReader(options(tmp_path)))


@pytest.mark.parametrize("hidden", [(2,), (2, 3), (3,)], ids=str)
def test_a_missing_segment_in_the_middle_is_an_error_unless_allowed(
    hidden: tuple[int, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The archive ended silently before the first missing manifest."""
    rows = archive_on_disk(tmp_path)
    for lssn in hidden:
        manifest_path(tmp_path, lssn).unlink()
    gap = f"from {hidden[0]}:0:0 up to {hidden[0] + 1}:0:0 no longer exist"
    with pytest.raises(GapError, match=gap):
        RhumblineBatchReader(options(tmp_path)).partitions()
    strict = RhumblineStreamReader(options(tmp_path, is_streaming=True))
    end = strict.latestOffset({"s": "1:0:0"}, ReadAllAvailable())
    with pytest.raises(GapError, match=gap):
        strict.partitions({"s": "1:0:0"}, end)
    strict.stop()
    left = [row for row in rows if position(row[0]).lssn not in hidden]
    assert not caplog.messages
    assert read_all(RhumblineBatchReader(options(tmp_path, failOnDataLoss="false"))) == left
    assert len(caplog.messages) == len(hidden)
    assert f"without the records from {hidden[0]}:0:0 up to" in caplog.messages[0]
    behind = json.dumps({"s": f"{hidden[-1] + 1}:0:0"})
    assert read_all(RhumblineBatchReader(options(tmp_path, startingOffsets=behind))) == [
        row for row in rows if position(row[0]).lssn > hidden[-1]
    ], "a range without the missing segments is read"


@pytest.mark.parametrize("hidden", [(2,), (2, 3)], ids=str)
def test_limited_batches_continue_after_missing_segments(
    hidden: tuple[int, ...], tmp_path: Path
) -> None:
    rows = archive_on_disk(tmp_path)
    for lssn in hidden:
        manifest_path(tmp_path, lssn).unlink()
    reader = RhumblineStreamReader(
        options(tmp_path, is_streaming=True, startingOffsets="earliest", failOnDataLoss="false")
    )
    at = reader.initialOffset()
    seen: list[Row] = []
    while (end := reader.latestOffset(at, ReadMaxRows(17))) != at:
        found = rows_of([b for split in reader.partitions(at, end) for b in reader.read(split)])
        assert len(found) <= 17
        seen, at = seen + found, end
    reader.stop()
    assert seen == [row for row in rows if position(row[0]).lssn not in hidden]


def test_a_time_in_a_missing_segment_is_data_loss(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    manifests = read_chain(tmp_path)
    for number in (1, 3):
        ms = number * 100_000
        manifests[number - 1] = replace(manifests[number - 1], created_ms=ms, completed_ms=ms)
    write_chain(tmp_path, manifests)
    manifest_path(tmp_path, 2).unlink()
    late = "100001"
    with pytest.raises(GapError, match="from 2:0:0"):
        RhumblineBatchReader(options(tmp_path, startingTimestamp=late)).partitions()
    allowed = options(tmp_path, startingTimestamp=late, failOnDataLoss="false")
    assert read_all(RhumblineBatchReader(allowed)) == [
        row for row in rows if position(row[0]).lssn > 2
    ]


def test_an_end_inside_of_an_entry_is_exact(tmp_path: Path) -> None:
    """The slot of endingOffsets was ignored."""
    rows = archive_on_disk(tmp_path, segments=2)
    for first in (0, 9, 31):
        for last in (first, first + 1, 12, 30, 33, 59):
            given = options(
                tmp_path,
                startingOffsets=json.dumps({"s": rows[first][0]}),
                endingOffsets=json.dumps({"s": rows[last][0]}),
            )
            assert read_all(RhumblineBatchReader(given)) == rows[first:last]


def test_an_end_inside_of_an_entry_of_a_ledger_is_exact() -> None:
    with StreamingWorld() as world:
        world.write("s", [3, 20])
        world.roll("s")
        world.write("s", [5])
        rows = world.truth["s"]
        for first, last in ((0, 2), (4, 14), (5, 23), (24, 25), (3, 3), (14, 27)):
            reader = RhumblineBatchReader(ledger_options(rows[first][0], rows[last][0]))
            found = [row[0] for row in read_all(reader)]
            assert found == [str(at.in_stream("")) for at, _ in rows[first:last]]


def ledger_options(start: Dlsn, end: Dlsn, **given: str) -> Options:
    """Return options of a batch query on the ledgers of stream "s"."""
    fixed = {
        "metadata": "sqlite:///here",
        "namespace": "test",
        "subscribe": "s",
        "startingOffsets": json.dumps({"s": str(start)}),
        "endingOffsets": json.dumps({"s": str(end)}),
    }
    return parse_options({**fixed, **given}, is_streaming=False)


@pytest.mark.parametrize("beyond", ["5:0:1", "9:0:0", "9223372036854775807:0:0"])
def test_an_end_after_the_archive_is_refused_or_moved(beyond: str, tmp_path: Path) -> None:
    """With failOnDataLoss=false, planning counted up to the given segment number."""
    rows = archive_on_disk(tmp_path)
    bound = json.dumps({"s": beyond})
    with pytest.raises(InvalidArgumentError, match=f"{beyond} is after the end .*, which is 5:0:0"):
        RhumblineBatchReader(options(tmp_path, endingOffsets=bound)).partitions()
    allowed = options(tmp_path, endingOffsets=bound, failOnDataLoss="false")
    assert read_all(RhumblineBatchReader(allowed)) == rows
    exact = json.dumps({"s": "5:0:0"})
    assert read_all(RhumblineBatchReader(options(tmp_path, endingOffsets=exact))) == rows


@pytest.mark.parametrize("is_rolled", [True, False])
def test_an_end_after_the_newest_record_of_a_ledger_is_refused_or_moved(is_rolled: bool) -> None:
    """The reader waited for records that nobody was writing."""
    with StreamingWorld() as world:
        world.write("s", [3, 2])
        if is_rolled:
            world.roll("s")
        beyond = Dlsn(9, 0, 0) if is_rolled else Dlsn(1, 1 << 40, 0)
        with pytest.raises(InvalidArgumentError, match=f"{beyond} is after the end of stream s"):
            RhumblineBatchReader(ledger_options(FIRST_DLSN, beyond)).partitions()
        for end in (beyond, Dlsn(1, 1 << 40, 0)):
            reader = RhumblineBatchReader(ledger_options(FIRST_DLSN, end, failOnDataLoss="false"))
            assert len(read_all(reader)) == 5


def test_a_stream_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    """Every row was doubled."""
    rows = archive_on_disk(tmp_path, segments=1)
    assert read_all(RhumblineBatchReader(options(tmp_path, subscribe="s, s,s"))) == rows


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("endingOffsets", "latest"),
        ("endingOffsets", '{"s": "1:0:0"}'),
        ("endingTimestamp", "1"),
        ("endingOffsetsByTimestamp", '{"s": 1}'),
    ],
)
def test_a_streaming_query_has_no_end(name: str, value: str) -> None:
    """The options were accepted and ignored."""
    with pytest.raises(ConfigurationError, match=f"{name}: a streaming query has no end"):
        parse_options({"subscribe": "s", "archive": "file:///x", name: value}, is_streaming=True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("startingTimestamp", "2026-01-01", "'2026-01-01' is not a whole number of milliseconds"),
        ("endingTimestamp", "-5", "'-5' is not a whole number of milliseconds since 1970"),
        ("startingOffsets", "earlyest", "'earlyest' is neither earliest, latest nor of the form"),
        ("endingOffsets", "1:0:0", "'1:0:0' is neither earliest, latest nor of the form"),
        ("startingOffsetsByTimestamp", '{"s": "x"}', "'x' is not a whole number of milliseconds"),
    ],
)
def test_wrong_times_and_offsets_are_explained_without_json(
    name: str, value: str, message: str
) -> None:
    """The messages were those of the JSON parser: "Extra data", "Expecting value"."""
    with pytest.raises(ConfigurationError, match=message) as failure:
        parse_options({"subscribe": "s", "archive": "file:///x", name: value}, is_streaming=False)
    assert "JSON" not in str(failure.value)


def test_offsets_by_stream_can_be_earliest_and_latest(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path, segments=1)
    cut = json.dumps({"s": rows[7][0]})
    for start, end, expected in (
        ('{"s": "earliest"}', cut, rows[:7]),
        (cut, '{"s": "Latest"}', rows[7:]),
    ):
        given = options(tmp_path, startingOffsets=start, endingOffsets=end)
        assert read_all(RhumblineBatchReader(given)) == expected
    with pytest.raises(ConfigurationError, match="startingOffsets: a batch query cannot"):
        options(tmp_path, startingOffsets='{"s": "latest"}')
    with pytest.raises(ConfigurationError, match="endingOffsets: a batch query cannot"):
        options(tmp_path, endingOffsets='{"s": "earliest"}')


def test_tasks_are_divided_as_the_options_say(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    for given, least, most in (
        (options(tmp_path), 1, 10),
        (options(tmp_path, minPartitions="20"), 20, 24),
        (options(tmp_path, maxRecordsPerPartition="7"), 20, 24),
    ):
        reader = RhumblineBatchReader(given)
        assert least <= len(reader.partitions()) <= most
        assert read_all(reader) == rows
    with pytest.raises(ConfigurationError, match="minPartitions: '0' is not a whole number above"):
        options(tmp_path, minPartitions="0")
    with pytest.raises(ConfigurationError, match=r"maxTriggerDelay: .*not a duration"):
        options(tmp_path, maxTriggerDelay="soon")
    with pytest.raises(ConfigurationError, match="5 is above maxOffsetsPerTrigger, which is 3"):
        options(tmp_path, minOffsetsPerTrigger="5", maxOffsetsPerTrigger="3")


def test_a_part_that_is_deleted_during_the_query_is_an_error(tmp_path: Path) -> None:
    archive_on_disk(tmp_path)
    reader = RhumblineBatchReader(options(tmp_path))
    splits = reader.partitions()
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    with pytest.raises(GapError):
        list(reader.read(splits[0]))
    assert (
        list(RhumblineBatchReader(options(tmp_path, failOnDataLoss="false")).read(splits[0])) == []
    )


def test_a_stream_without_an_archive_is_reported(tmp_path: Path) -> None:
    archive_on_disk(tmp_path, segments=1)
    with pytest.raises(NoSuchStreamError, match="test/other"):
        RhumblineBatchReader(options(tmp_path, subscribe="other")).partitions()


def test_every_fault_of_the_options_is_reported_at_once() -> None:
    given = {
        "columns": "payload,nothing",
        "maxOffsetsPerTrigger": "0",
        "failOnDataLoss": "maybe",
        "startingOffsets": '{"s": 3}',
        "endingOffsets": "earliest",
        "wrong": "1",
    }
    with pytest.raises(ConfigurationError) as failure:
        parse_options(given, is_streaming=False)
    for word in ("subscribe", "archive", "nothing", "maxOffsets", "maybe", "startingOffsets",
                 "endingOffsets", "wrong"):  # fmt: skip
        assert word in str(failure.value)
    with pytest.raises(ConfigurationError, match="latest"):
        parse_options(
            {"subscribe": "s", "archive": "file:///x", "startingOffsets": "latest"},
            is_streaming=False,
        )


def test_executors_need_only_pyspark_and_pyarrow() -> None:
    """Import the modules that read archives in a process without the other dependencies."""
    program = """
import sys
from dataclasses import replace
for name in ("crc32c", "zstandard", "click", "rich", "uvloop", "google.protobuf"):
    sys.modules[name] = None
import rhumbline.spark
import rhumbline.spark.read.split_reader
import rhumbline.spark.source
from rhumbline.coldstore.stores.open_store import open_cold_store
open_cold_store("file:///tmp/none")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
