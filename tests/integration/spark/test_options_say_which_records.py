"""Read options select streams, times and columns, in batch and streaming queries."""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from rhumbline.core.log.policy import StreamPolicy
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.processes.background_cluster import REGION, STREAM, BackgroundCluster
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore, archive_segments

BEGIN_MS = 1_000_000
SEGMENTS = ENTRIES = 3
STEP_MS = 100
"""Time between entries of every stream; segments begin ten steps apart."""
Row = tuple[str, str]
"""Stream and payload."""


def made_ms(segment: int, entry: int) -> int:
    return BEGIN_MS + (10 * segment + entry) * STEP_MS


def payload(segment: int, entry: int, record: int) -> str:
    return f"{made_ms(segment, entry)}/{record}"


def everything(stream: str) -> list[Row]:
    """Return all rows of a stream in ``archive``."""
    return [
        (stream, payload(segment, entry, record))
        for segment in range(SEGMENTS)
        for entry in range(ENTRIES)
        for record in range(2)
    ]


def from_time(rows: list[Row], ms: int) -> list[Row]:
    return [row for row in rows if int(row[1].split("/")[0]) >= ms]


def before_time(rows: list[Row], ms: int) -> list[Row]:
    return [row for row in rows if int(row[1].split("/")[0]) < ms]


def write_archive(root: Path, *streams: str) -> None:
    """Archive streams below ``root`` whose entries were created at known times."""
    world = LogWorld.create()
    world.run(_write_archive(world, root, streams))


async def _write_archive(world: LogWorld, root: Path, streams: Sequence[str]) -> None:
    cold = DictColdStore()
    for stream in streams:
        for segment in range(SEGMENTS):
            writer = await world.writer(stream, StreamPolicy(roll_bytes=1 << 40))
            for entry in range(ENTRIES):
                world.clock.now_ms = made_ms(segment, entry)
                for record in range(2):
                    writer.append(payload(segment, entry, record).encode())
                await writer.flush()
            await writer.close()
        await archive_segments(world, cold, stream)
    for key, data in cold.objects.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cold")
    write_archive(root, "orders-eu", "orders-us", "visits")
    return root


def rows_of(frame: DataFrame) -> list[Row]:
    rows = frame.orderBy("stream", "lssn", "entry_id", "slot").collect()
    return [(row.stream, bytes(row.payload).decode()) for row in rows]


def batch(spark: SparkSession, root: Path, **given: str) -> list[Row]:
    options = {"archive": root.as_uri(), "namespace": "test", **given}
    return rows_of(spark.read.format("rhumbline").options(**options).load())


class Stream:
    """A streaming query; each run reads to the current end."""

    def __init__(self, spark: SparkSession, folder: Path, **given: str) -> None:
        self._spark = spark
        self._folder = folder
        self._given = {"namespace": "test", **given}

    def run(self) -> None:
        query = (
            self._spark.readStream.format("rhumbline")
            .options(**self._given)
            .load()
            .writeStream.format("parquet")
            .option("path", str(self._folder / "rows"))
            .option("checkpointLocation", str(self._folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(90)
        assert query.exception() is None

    def rows(self) -> list[Row]:
        """Return all rows that the query has written."""
        return rows_of(self._spark.read.parquet(str(self._folder / "rows")))


# --- streams ------------------------------------------------------------------------------------


def test_streams_are_selected_by_name_or_pattern(spark: SparkSession, archive: Path) -> None:
    orders = everything("orders-eu") + everything("orders-us")
    assert batch(spark, archive, subscribe="orders-us, orders-eu") == orders
    assert batch(spark, archive, subscribePattern="orders-.*") == orders
    assert batch(spark, archive, subscribePattern="visit.") == everything("visits")
    with pytest.raises(Exception, match="no stream of namespace test matches 'orders'"):
        batch(spark, archive, subscribePattern="orders")
    with pytest.raises(Exception, match="set exactly one of them"):
        batch(spark, archive, subscribe="visits", subscribePattern="visits")


def test_a_later_stream_that_matches_is_read_from_its_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    cold = tmp_path / "cold"
    write_archive(cold, "orders-eu")
    query = Stream(
        spark, tmp_path, archive=cold.as_uri(), subscribePattern="orders-.*",
        startingOffsets="latest",
    )  # fmt: skip
    query.run()
    assert query.rows() == []
    write_archive(cold, "orders-us", "visits")
    query.run()
    assert query.rows() == everything("orders-us")


@pytest.mark.long
def test_patterns_are_matched_with_the_streams_of_the_cluster(
    spark: SparkSession, tmp_path: Path
) -> None:
    with BackgroundCluster(tmp_path) as cluster:
        written = cluster.write_segments(2)
        cluster.create("empty")
        query = Stream(
            spark, tmp_path, metadata=cluster.metadata_uri, region=REGION,
            subscribePattern=f"{STREAM}|empty", startingOffsets="earliest",
        )  # fmt: skip
        query.run()
        assert query.rows() == [(STREAM, one.decode()) for one in written]


# --- times --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "at_ms",
    [0, made_ms(0, 0), made_ms(0, 1), made_ms(0, 1) + 1, made_ms(1, 0) - 1, made_ms(2, 2)],
)
def test_ranges_of_time_are_half_open(spark: SparkSession, archive: Path, at_ms: int) -> None:
    rows = everything("visits")
    late = batch(spark, archive, subscribe="visits", startingTimestamp=str(at_ms))
    early = batch(spark, archive, subscribe="visits", endingTimestamp=str(at_ms))
    assert late == from_time(rows, at_ms)
    assert early == before_time(rows, at_ms)


def test_each_stream_can_have_its_own_time(spark: SparkSession, archive: Path) -> None:
    start = {"visits": made_ms(1, 1), "orders-eu": made_ms(0, 2)}
    end = {"visits": made_ms(2, 0), "orders-eu": made_ms(9, 0)}
    found = batch(
        spark, archive, subscribe="visits,orders-eu",
        startingOffsetsByTimestamp=json.dumps(start), endingOffsetsByTimestamp=json.dumps(end),
    )  # fmt: skip
    assert found == from_time(everything("orders-eu"), start["orders-eu"]) + before_time(
        from_time(everything("visits"), start["visits"]), end["visits"]
    )
    with pytest.raises(Exception, match="no value for stream orders-us"):
        batch(
            spark, archive, subscribe="visits,orders-us",
            startingOffsetsByTimestamp=json.dumps(start),
        )  # fmt: skip


@pytest.mark.long
def test_a_start_after_the_last_record_is_an_error_or_the_end(
    spark: SparkSession, archive: Path, tmp_path: Path
) -> None:
    late = str(made_ms(2, 2) + 1)
    with pytest.raises(Exception, match="startingOffsetsByTimestampStrategy"):
        batch(spark, archive, subscribe="visits", startingTimestamp=late)
    allowed = {"startingTimestamp": late, "startingOffsetsByTimestampStrategy": "latest"}
    assert batch(spark, archive, subscribe="visits", **allowed) == []
    assert batch(spark, archive, subscribe="visits", endingTimestamp=late) == everything("visits")
    cold = tmp_path / "cold"
    write_archive(cold, "visits")
    query = Stream(spark, tmp_path, archive=cold.as_uri(), subscribe="visits", **allowed)
    query.run()
    assert query.rows() == []


def test_a_streaming_query_starts_at_a_time(
    spark: SparkSession, archive: Path, tmp_path: Path
) -> None:
    at_ms = made_ms(1, 1)
    query = Stream(
        spark, tmp_path, archive=archive.as_uri(), subscribe="visits",
        startingTimestamp=str(at_ms), maxOffsetsPerTrigger="3",
    )  # fmt: skip
    query.run()
    assert query.rows() == from_time(everything("visits"), at_ms)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    with BackgroundCluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.long
def test_times_are_also_found_in_ledgers(spark: SparkSession, cluster: BackgroundCluster) -> None:
    """Uses times of records as bounds, because the cluster has a real clock."""
    cluster.write_segments(3)
    records = cluster.records_of()
    source = {"metadata": cluster.metadata_uri, "namespace": "test", "subscribe": STREAM}
    times = sorted({one.created_ms for one in records})
    for at_ms in (times[0], times[len(times) // 2], times[-1]):
        first = next(n for n, one in enumerate(records) if one.created_ms >= at_ms)
        late = source | {"startingTimestamp": str(at_ms)}
        early = source | {"endingTimestamp": str(at_ms)}
        for options, expected in ((late, records[first:]), (early, records[:first])):
            found = rows_of(spark.read.format("rhumbline").options(**options).load())
            assert [text.encode() for _, text in found] == [one.payload for one in expected]


def test_conditions_on_times_select_records(spark: SparkSession, archive: Path) -> None:
    rows = everything("visits")
    given = {"archive": archive.as_uri(), "namespace": "test", "subscribe": "visits"}
    for at_ms in (made_ms(0, 1), made_ms(1, 2), made_ms(2, 2) + 1):
        time = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()
        frame = spark.read.format("rhumbline").options(**given)
        late = frame.option("where", f"created >= '{time}'").load()
        filtered = frame.load().where(f"created >= timestamp_millis({at_ms})")
        assert rows_of(late) == rows_of(filtered) == from_time(rows, at_ms)


# --- columns and names --------------------------------------------------------------------------


def test_columns_have_the_requested_order(spark: SparkSession, archive: Path) -> None:
    frame = (
        spark.read.format("rhumbline")
        .options(archive=archive.as_uri(), namespace="test", subscribe="visits")
        .option("COLUMNS", "created,payload")
        .load()
    )
    assert frame.columns == ["created", "payload"]
    first = frame.orderBy("created").first()
    assert first is not None
    assert first.created.timestamp() == made_ms(0, 0) / 1000


def test_unknown_options_are_named(spark: SparkSession, archive: Path) -> None:
    for name in ("assign", "includeHeaders", "maxOffsetPerTrigger"):
        with pytest.raises(Exception, match=f"(?i){name}: unknown option"):
            batch(spark, archive, subscribe="visits", **{name: "1"})
