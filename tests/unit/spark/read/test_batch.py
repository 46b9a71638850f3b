"""Batch queries return every record once, use half-open ranges, and skip filtered data."""

import json
import operator
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from rhumbline.coldstore.archive import part as part_module
from rhumbline.coldstore.archive import segment_archiver as archive_module
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import ConfigurationError, GapError, NoSuchStreamError
from rhumbline.spark.read.batch import FilteringBatchReader, RhumblineBatchReader
from rhumbline.spark.read.options import parse_options
from rhumbline.tests.unit.spark.spark_world import archive_on_disk, options, read_all


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_module, "PART_PAYLOAD_BYTES", 60)
    monkeypatch.setattr(part_module, "ROW_GROUP_BYTES", 25)


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


FILTERS: list[list[Filter]] = [
    [EqualTo(("txid",), 17)],
    [GreaterThanOrEqual(("txid",), 30), LessThan(("txid",), 34)],
    [GreaterThan(("txid",), 100), LessThanOrEqual(("txid",), 101)],
    [EqualTo(("lssn",), 2), LessThan(("entry_id",), 2)],
    [In(("lssn",), (2, 3)), EqualTo(("entry_id",), 1)],
    [EqualTo(("dlsn",), "3:1:0")],
    [EqualTo(("stream",), "other")],
    [EqualTo(("payload",), b"x")],
]


def passes(row: tuple[str, int, bytes], pushed: Filter) -> bool:
    where = position(row[0])
    name, value = pushed.attribute[0], pushed.value  # type: ignore[attr-defined]
    found: Any = {
        "txid": row[1], "lssn": where.lssn, "entry_id": where.entry_id, "dlsn": row[0],
        "stream": "s", "payload": row[2],
    }[name]  # fmt: skip
    holds: dict[type[Filter], Callable[[Any, Any], bool]] = {
        EqualTo: operator.eq,
        In: lambda a, b: a in b,
        GreaterThan: operator.gt,
        GreaterThanOrEqual: operator.ge,
        LessThan: operator.lt,
        LessThanOrEqual: operator.le,
    }
    return holds[type(pushed)](found, value)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_filters_lose_no_rows_and_skip_data(
    filters: list[Filter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    reader = FilteringBatchReader(options(tmp_path))
    assert read_all(reader) == rows
    all_bytes, bytes_read = bytes_read, 0
    assert list(reader.pushFilters(filters)) == filters, "Spark must apply all filters"
    found = read_all(reader)
    wanted = [row for row in rows if all(passes(row, pushed) for pushed in filters)]
    assert [row for row in found if all(passes(row, pushed) for pushed in filters)] == wanted
    if filters[0].attribute != ("payload",):  # type: ignore[attr-defined]
        assert bytes_read < all_bytes / 4
        assert len(found) < len(rows) / 3


def test_missing_segments_are_an_error_unless_allowed(tmp_path: Path) -> None:
    rows = archive_on_disk(tmp_path)
    (tmp_path / "test/s/lssn=0000000000000000001/manifest.json").unlink()
    start = json.dumps({"s": "1:0:0"})
    with pytest.raises(GapError, match="failOnDataLoss"):
        read_all(RhumblineBatchReader(options(tmp_path, startingOffsets=start)))
    allowed = options(tmp_path, startingOffsets=start, failOnDataLoss="false")
    assert read_all(RhumblineBatchReader(allowed)) == [
        row for row in rows if position(row[0]).lssn > 1
    ]
    assert read_all(RhumblineBatchReader(options(tmp_path))) == read_all(
        RhumblineBatchReader(allowed)
    )


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
for name in ("crc32c", "lmdb", "zstandard", "click", "rich", "uvloop", "google.protobuf"):
    sys.modules[name] = None
import rhumbline.spark
import rhumbline.spark.read.split_reader
import rhumbline.spark.source
from rhumbline.coldstore.stores.open_store import open_cold_store
open_cold_store("file:///tmp/none")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
