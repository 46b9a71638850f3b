"""Jobs that need only an archive: it is copied, profiled and converted; and records are split."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from rhumbline.coldstore.archive.relocation import Erasure
from rhumbline.coldstore.compact.compactor import CompactionConfig
from rhumbline.coldstore.erase.proofs import stored_proofs
from rhumbline.coldstore.erase.selection import RecordSelection
from rhumbline.coldstore.stores.local import LocalColdStore
from rhumbline.core.log.metadata.stream_schema import SchemaHistory
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.spark.jobs.archive import ArchiveJob, archive
from rhumbline.spark.jobs.compact import compact
from rhumbline.spark.jobs.convert import ConvertJob, convert
from rhumbline.spark.jobs.copying import copy_archives
from rhumbline.spark.jobs.erase import erase
from rhumbline.spark.jobs.incremental import AppendTarget, ArchivedSource
from rhumbline.spark.jobs.profile import ProfileJob, profile
from rhumbline.spark.jobs.split import SplitJob, split
from rhumbline.spark.jobs.verify import verify
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.processes.background_cluster import STREAM, BackgroundCluster
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore, archive_segments
from rhumbline.typed import JsonCodec

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
MODULE = "rhumbline.tests.integration.spark.test_jobs_on_archives"
COLUMNS = "id BIGINT, name STRING"


@dataclass
class Numbered:
    """The type of the payloads, as a program would declare it."""

    id: int
    name: str


def record(number: int) -> bytes:
    """Return a payload in JSON; each tenth is damaged."""
    if number % 10 == 9:
        return b"{damaged"
    return json.dumps({"id": number, "name": f"n{number}"}).encode()


def decode_number(payload: bytes) -> dict[str, object]:
    """Decode a payload for the job; the name is in upper case to tell the two ways apart."""
    found = json.loads(payload)
    return {"id": found["id"], "name": found["name"].upper()}


def write_archive(root: Path, segments: int, *, stream: str = "orders") -> int:
    """Archive segments of 20 records, one segment each half day, and return their number."""
    put_objects(root, archived(segments, stream)[-1])
    return 20 * segments


def archived(segments: int, stream: str = "orders") -> list[dict[str, bytes]]:
    """Return the objects of the archive after each segment."""
    world = LogWorld.create()
    states: list[dict[str, bytes]] = []

    async def write() -> None:
        cold = DictColdStore()
        for segment in range(segments):
            writer = await world.writer(stream, StreamPolicy(roll_bytes=1 << 40))
            for entry in range(4):
                world.clock.now_ms = DAY_MS + segment * DAY_MS // 2 + entry * HOUR_MS
                for number in range(5):
                    writer.append(record(20 * segment + 5 * entry + number))
                await writer.flush()
            await writer.close()
            await archive_segments(world, cold, stream)
            states.append(dict(cold.objects))

    world.run(write())
    return states


def put_objects(root: Path, objects: dict[str, bytes]) -> None:
    """Store objects as files, in addition to those that exist."""
    for key, data in objects.items():
        path = root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def test_archives_are_copied_and_a_damaged_stream_stops_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    write_archive(source, 2, stream="good")
    write_archive(source, 3, stream="bad")
    part = sorted(source.glob("test/bad/*/*.parquet"))[1]
    sound = part.read_bytes()
    part.write_bytes(sound[:-50] + bytes(50))
    done = copy_archives(spark, source.as_uri(), target.as_uri(), tasks=2)
    assert [(one.stream, one.lssn) for one in done.copied] == [("bad", 1), ("good", 1), ("good", 2)]
    (fault,) = done.faults.values()
    assert "SHA-256" in fault
    assert not any(texts for texts in verify(spark, target.as_uri()).values())
    part.write_bytes(sound)
    done = copy_archives(spark, source.as_uri(), target.as_uri(), "test/bad")
    assert [one.lssn for one in done.copied] == [2, 3]
    assert done.faults == {}
    assert copy_archives(spark, source.as_uri(), target.as_uri()) == ([], {}, 0)
    for path in source.rglob("*"):
        if path.is_file() and ".index" not in path.parts:  # each store has an index of its own
            assert (target / path.relative_to(source)).read_bytes() == path.read_bytes()


def test_small_segments_move_to_large_files_and_a_damaged_stream_stops_no_other(
    spark: SparkSession, tmp_path: Path
) -> None:
    cold = (tmp_path / "cold").as_uri()
    records = write_archive(tmp_path / "cold", 6)
    write_archive(tmp_path / "cold", 2, stream="bad")
    part = min((tmp_path / "cold/test/bad").glob("*/*.parquet"))
    part.write_bytes(part.read_bytes()[:-50] + bytes(50))
    source = {"archive": cold, "namespace": "test", "subscribe": "orders"}
    frame = spark.read.format("rhumbline").options(**source).load()
    before = frame.orderBy("lssn", "entry_id", "slot").collect()
    assert len(before) == records
    config = CompactionConfig(grace_ms=0)
    done = [compact(spark, cold, "test", config, tasks=2) for _ in range(3)]
    assert [(one.segments, one.files, one.merged, one.deleted) for one in done] == [
        (6, 1, 0, 0), (0, 0, 1, 7), (0, 0, 0, 0),
    ]  # fmt: skip
    assert all("SHA-256" in text for one in done for text in one.faults.values())
    assert all([*one.faults] == [f"test/bad/{part.parent.name}"] for one in done)
    folder = next(
        path for path in (tmp_path / "cold/test/orders").iterdir() if "_" not in path.name
    )
    assert len(list((tmp_path / "cold/test/orders").rglob("*.parquet"))) == 1
    assert spark.read.parquet(str(folder)).count() == records
    assert frame.orderBy("lssn", "entry_id", "slot").collect() == before, "planned before"
    assert not any(texts for texts in verify(spark, cold, "test/orders").values())
    target = (tmp_path / "target").as_uri()
    assert len(copy_archives(spark, cold, target, "test/orders").copied) == 6
    assert not any(texts for texts in verify(spark, target).values())


def test_a_copy_gets_later_erasures_with_their_proofs(spark: SparkSession, tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    records = write_archive(source, 2)
    copy_archives(spark, source.as_uri(), target.as_uri(), tasks=1)
    selection = RecordSelection(created_before_ms=DAY_MS + 2 * HOUR_MS)
    why = Erasure("me", "request 17")
    done = erase(spark, source.as_uri(), "test", selection, why, grace_ms=HOUR_MS, tasks=1)
    assert done.records == 10
    copy = copy_archives(spark, source.as_uri(), target.as_uri(), tasks=1)
    assert (copy.copied, copy.faults, copy.relocations) == ([], {}, 1)
    assert copy_archives(spark, source.as_uri(), target.as_uri()) == ([], {}, 0)
    found, copied = (asyncio.run(stored_proofs(LocalColdStore(one))) for one in (source, target))
    assert found == copied, "both stores have the same proofs"
    ((proof,),) = found[0].values()
    assert proof.records == {1: 10}
    assert not any(texts for texts in verify(spark, target.as_uri(), tasks=1).values())
    options = {"archive": target.as_uri(), "namespace": "test", "subscribe": "orders"}
    assert spark.read.format("rhumbline").options(**options).load().count() == records - 10


@pytest.mark.long
def test_records_are_erased_for_queries_and_in_files(spark: SparkSession, tmp_path: Path) -> None:
    cold = (tmp_path / "cold").as_uri()
    records = write_archive(tmp_path / "cold", 3)
    source = {"archive": cold, "namespace": "test", "subscribe": "orders"}
    frame = spark.read.format("rhumbline").options(**source).load()
    selection = RecordSelection(created_before_ms=DAY_MS + 2 * HOUR_MS)
    assert frame.count() == records
    done = [
        erase(spark, cold, "test", selection, Erasure("me", "request 17"), grace_ms=0, tasks=2)
        for _ in range(2)
    ]
    assert [(one.records, one.segments) for one in done] == [(10, 1), (0, 0)]
    assert not any(one.faults for one in done)
    again = spark.read.format("rhumbline").options(**source).load()
    assert again.count() == frame.count() == records - 10
    first_hours = again.where(f"created < timestamp_millis({DAY_MS + 2 * HOUR_MS})")
    assert first_hours.count() == 0
    (folder,) = [one for one in (tmp_path / "cold/test/orders").iterdir() if "_" not in one.name]
    assert spark.read.parquet(str(folder)).count() == records - 10
    assert not any(texts for texts in verify(spark, cold, "test/orders").values())


@pytest.mark.long
def test_an_archive_is_profiled_by_hour(spark: SparkSession, tmp_path: Path) -> None:
    records = write_archive(tmp_path / "cold", 4)
    page = tmp_path / "out" / "page.html"
    job = ProfileJob((tmp_path / "cold").as_uri(), "test", "ord.*", str(tmp_path / "profile"), page)
    hours = profile(spark, job)
    assert len(hours) == 16
    assert {(one.records, one.keyed_records, one.keys) for one in hours} == {(5, 0, 0)}
    table = spark.read.parquet(str(tmp_path / "profile"))
    total = table.selectExpr("sum(records) AS n", "sum(payload_bytes) AS size").first()
    assert total is not None
    assert (total.n, total["size"]) == (records, sum(len(record(n)) for n in range(records)))
    text = page.read_text()
    assert text.count("<rect") == 3 * 16
    assert text.count("<p>None.</p>") == 1, "no record has a key"
    assert "orders" in text


@pytest.mark.parametrize(
    ("columns", "function", "schemas"),
    [
        pytest.param(COLUMNS, None, SchemaHistory(), marks=pytest.mark.long),
        pytest.param(COLUMNS, f"{MODULE}:decode_number", SchemaHistory(), marks=pytest.mark.long),
        (None, None, SchemaHistory(schemas=(JsonCodec(Numbered).schema,))),
    ],
    ids=["json", "function", "stored"],
)
def test_payloads_become_a_typed_table_once(
    columns: str | None, function: str | None, schemas: SchemaHistory, spark: SparkSession,
    tmp_path: Path,
) -> None:  # fmt: skip
    job = ConvertJob(
        (tmp_path / "cold").as_uri(), "test", "orders", str(tmp_path / "table"), columns, function,
        schemas,
    )  # fmt: skip
    _, two, three = archived(3)
    put_objects(tmp_path / "cold", two)
    assert convert(spark, job) == (40, 4)
    put_objects(tmp_path / "cold", three)
    assert convert(spark, job) == (20, 2)
    assert convert(spark, job) == (0, 0)
    table = spark.read.parquet(str(tmp_path / "table"))
    rows = sorted(table.collect(), key=lambda row: Dlsn.parse(row.record.dlsn))
    assert len(rows) == 60
    for number, row in enumerate(rows):
        if number % 10 == 9:
            assert (row.id, row.name) == (None, None)
            assert row.decode_error
        else:
            name = f"n{number}"
            assert (row.id, row.name) == (number, name.upper() if function else name)
            assert row.decode_error is None
    assert {str(row.date) for row in rows} == {"1970-01-02", "1970-01-03"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[BackgroundCluster]:
    with BackgroundCluster(tmp_path) as cluster:
        yield cluster


@pytest.mark.long
def test_records_are_split_by_an_expression_once(
    spark: SparkSession, cluster: BackgroundCluster, tmp_path: Path
) -> None:
    written = cluster.write_segments(2)
    for name in ("even", "odd"):
        cluster.create(name)
    assert (
        archive(spark, ArchiveJob(cluster.metadata_uri, "test", None, cluster.cold_uri)).faults
        == {}
    )
    archived = spark.read.format("rhumbline").options(
        archive=cluster.cold_uri, namespace="test", subscribe=STREAM
    ).load().count()  # fmt: skip
    number = "CAST(substr(CAST(payload AS STRING), 1, 8) AS INT)"
    job = SplitJob(
        ArchivedSource(cluster.cold_uri, "test", STREAM),
        AppendTarget(cluster.metadata_uri, "test", None, str(tmp_path / "checkpoint")),
        f"if({number} % 2 = 0, 'even', 'odd')", f"CAST({number} AS STRING)",
    )  # fmt: skip
    assert [split(spark, job) for _ in range(2)] == [archived, 0]
    for name, rest in (("even", 0), ("odd", 1)):
        found = cluster.records_of(name)
        numbers = [n for n in range(archived) if n % 2 == rest]
        assert [one.payload for one in found] == [written[n] for n in numbers]
        assert [one.key for one in found] == [b"%d" % n for n in numbers]
