"""Archives on a disk, for the data source without a Spark session."""

from pathlib import Path

import pyarrow as pa

from rhumbline.spark.read.batch import RhumblineBatchReader
from rhumbline.spark.read.options import Options, parse_options
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    read_records,
    fill_stream,
)

Row = tuple[str, int, bytes]
"""DLSN, txid, payload."""


def archive_on_disk(root: Path, segments: int = 4) -> list[Row]:
    """Fills a stream "s" in namespace "test", archives it below ``root``, returns its records."""
    rows: list[Row] = []

    @in_world
    async def make(world: LogWorld) -> None:
        await fill_stream(world, segments=segments)
        memory = DictColdStore()
        await archive_segments(world, memory)
        rows.extend((str(r.dlsn), r.txid, r.payload) for r in await read_records(world))
        for key, data in memory.objects.items():
            path = root / key
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)

    make()
    return rows


def options(root: Path, *, is_streaming: bool = False, **given: str) -> Options:
    """Options of a query over the stream of ``archive_on_disk``."""
    fixed = {"archive": root.as_uri(), "namespace": "test", "subscribe": "s"}
    return parse_options({**fixed, **given}, is_streaming=is_streaming)


def rows_of(batches: list["pa.RecordBatch"]) -> list[Row]:
    """What batches with columns dlsn, txid, payload hold."""
    found: list[Row] = []
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in ("dlsn", "txid", "payload")]
        found.extend(zip(*columns, strict=True))
    return found


def read_all(reader: RhumblineBatchReader) -> list[Row]:
    """Plans and reads as Spark does."""
    return rows_of([batch for split in reader.partitions() for batch in reader.read(split)])
