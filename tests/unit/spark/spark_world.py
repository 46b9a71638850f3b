"""Archives on disk for tests of the data source that need no Spark session."""

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa

from rhumbline.coldstore.archive.manifest import CHAIN_START, Manifest
from rhumbline.coldstore.proof.chain_tip import empty_tip
from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.options import Options, parse_options
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    fill_stream,
    read_records,
)

Row = tuple[str, int, bytes]
"""DLSN, txid, payload."""


def archive_on_disk(root: Path, segments: int = 4) -> list[Row]:
    """Archive stream "s" of namespace "test" below ``root`` and return its records."""
    rows: list[Row] = []

    async def make(world: LogWorld) -> None:
        await fill_stream(world, segments=segments)
        memory = DictColdStore()
        await archive_segments(world, memory)
        rows.extend(
            (str(r.dlsn.in_stream("")), r.txid, r.payload) for r in await read_records(world)
        )
        for key, data in memory.objects.items():
            path = root / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    world = LogWorld.create()
    world.run(make(world))
    return rows


def manifest_path(root: Path, lssn: int) -> Path:
    """Return the manifest of a segment of stream "s"."""
    return next(root.glob(f"test/s/_chain/*/manifest-{lssn:019d}.json"))


def options(root: Path, *, is_streaming: bool = False, **given: str) -> Options:
    """Return options of a query on the stream of ``archive_on_disk``."""
    fixed = {"archive": root.as_uri(), "namespace": "test", "subscribe": "s"}
    return parse_options({**fixed, **given}, is_streaming=is_streaming)


def rows_of(batches: list["pa.RecordBatch"]) -> list[Row]:
    """Return the rows of batches with columns dlsn, txid and payload."""
    found: list[Row] = []
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("dlsn", "txid", "payload")]
        found.extend(zip(*columns, strict=True))
    return found


def read_all(reader: RhumblineBatchReader) -> list[Row]:
    """Plan and read all splits, as Spark does."""
    return rows_of([batch for split in reader.partitions() for batch in reader.read(split)])


def read_chain(root: Path) -> list[Manifest]:
    """Return the manifests of stream "s"."""
    paths = sorted(root.glob("test/s/_chain/*/manifest-*.json"))
    return [Manifest.decode(path.read_bytes()) for path in paths]


def write_chain(root: Path, manifests: list[Manifest]) -> None:
    """Replace the manifests and the tip of stream "s", and link them again."""
    shutil.rmtree(manifest_path(root, 1).parent)
    previous_link = CHAIN_START
    for manifest in manifests:
        linked = replace(manifest, previous_link=previous_link)
        previous_link = linked.link
        path = root / linked.key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(linked.encode())
    tip = empty_tip(manifests[0]).with_last(linked)
    path = root / tip.folder.tip(tip.name)
    path.parent.mkdir()
    path.write_bytes(replace(tip, first_lssn=manifests[0].lssn).encode())
