"""The scan benchmark: Rhumbline's readers for Spark against Spark's native Parquet reader.

All read the same columns of the same files in the same session. The time of ``read_archive``
includes the verification of the files. CPU seconds are the total of the
driver, its JVM and its Python workers; on a shared machine they are more reliable than wall time.
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from ..coldstore.archive.manifest import Manifest
from ..coldstore.archive.part_scan import read_row_groups
from ..coldstore.stores.local import LocalColdStore
from ..spark.read.archive_frame import read_archive
from ..spark.read.batch import RhumblineBatchReader
from ..spark.read.columns import stored_columns
from ..spark.read.options import parse_options
from ..spark.read.splits import ArchiveSplit, PackedSplit
from .scan_archive import NAMESPACE, STREAM

COLUMNS = "txid,payload"
NATIVE, VERIFIED, SOURCE = "native Parquet", "read_archive", "data source"
_WARMUP_ROUNDS = 2
_FEW_RECORDS = 1000


@dataclass(frozen=True, slots=True)
class ScanResult:
    """The result of one complete scan."""

    round: int
    reader: str
    rows_per_s: float
    seconds: float
    cpu_seconds: float


@dataclass(frozen=True, slots=True)
class QueryCost:
    """The amount of data that a query reads from the archive."""

    query: str
    rows: int
    files: int
    row_groups: int
    bytes_read: int
    seconds: float


def measure_scans(
    spark: SparkSession, root: Path, manifests: list[Manifest], rounds: int
) -> Iterator[ScanResult]:
    """Compute the total payload length, largest txid and count with each reader in turn.

    Two warm-up rounds are discarded. Raises AssertionError if a result is wrong.
    """
    expected = (
        sum(manifest.payload_bytes for manifest in manifests),
        manifests[-1].last_txid,
        sum(manifest.record_count for manifest in manifests),
    )
    readers: dict[str, Callable[[], DataFrame]] = {
        NATIVE: lambda: spark.read.parquet(str(root / NAMESPACE / STREAM / "*/*.parquet")),
        VERIFIED: lambda: read_archive(
            spark, archive=root.as_uri(), namespace=NAMESPACE, subscribe=STREAM, columns=COLUMNS
        ),
        SOURCE: lambda: spark.read.format("rhumbline").options(**_options(root)).load(),
    }
    for number in range(-_WARMUP_ROUNDS, rounds):
        for name, frame in readers.items():
            cpu_s, start_s = _tree_cpu_s(), time.monotonic()
            sums = f.sum(f.length("payload")), f.max("txid"), f.count("*")
            found = frame().agg(*sums).first()
            elapsed_s = time.monotonic() - start_s
            assert found is not None
            assert tuple(found) == expected, f"{name}: {found} instead of {expected}"
            if number >= 0:
                cpu_s = _tree_cpu_s() - cpu_s
                yield ScanResult(number + 1, name, expected[2] / elapsed_s, elapsed_s, cpu_s)


def measure_filters(
    spark: SparkSession, root: Path, manifests: list[Manifest]
) -> Iterator[QueryCost]:
    """Measure how much a range of txids, one of positions and a full scan read.

    To count the bytes at the cold store, the planning and reading of each query is repeated in this
    process. Raises AssertionError if Spark and this process differ.
    """
    middle = manifests[len(manifests) // 2]
    first_txid = middle.first_txid + middle.record_count // 2
    end_txid = first_txid + _FEW_RECORDS
    queries = (
        "",
        f"txid >= {first_txid} and txid < {end_txid}",
        f"lssn = {middle.lssn} and entry_id < 4",
    )
    for where in queries:
        options = _options(root, "lssn,entry_id,txid,payload", where)
        start_s = time.monotonic()
        frame = spark.read.format("rhumbline").options(**options).load()
        found = frame.agg(f.count("payload")).first()
        elapsed_s = time.monotonic() - start_s
        assert found is not None
        files, row_groups, rows, size = asyncio.run(_query_cost(root, options))
        assert found[0] <= rows
        yield QueryCost(where or "everything", found[0], files, row_groups, size, elapsed_s)


def _options(root: Path, columns: str = COLUMNS, where: str = "") -> dict[str, str]:
    given = {
        "archive": root.as_uri(),
        "namespace": NAMESPACE,
        "subscribe": STREAM,
        "columns": columns,
    }
    return given | ({"where": where} if where else {})


# --- bytes read -----------------------------------------------------------------------------------


class _CountedColdStore(LocalColdStore):
    bytes_read = 0

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        data = await super().get(key, offset, length)
        self.bytes_read += len(data)
        return data


async def _query_cost(root: Path, given: dict[str, str]) -> tuple[int, int, int, int]:
    """Return the numbers of files, row groups, rows and bytes that a query reads."""
    options = parse_options(given, is_streaming=False)
    reader = RhumblineBatchReader(options)
    planned: list[Any] = await asyncio.to_thread(reader.partitions)
    splits: list[Any] = []
    for one in planned:
        splits.extend(one.splits if isinstance(one, PackedSplit) else (one,))
    cold = _CountedColdStore(root)
    row_groups = rows = 0
    try:
        for split in splits:
            assert isinstance(split, ArchiveSplit)
            names = stored_columns(options.columns)
            async for table in read_row_groups(
                cold, split.key, split.lssn, split.part, split.selection, names
            ):
                row_groups, rows = row_groups + 1, rows + table.num_rows
    finally:
        await cold.close()
    return len({split.key for split in splits}), row_groups, rows, cold.bytes_read


# --- CPU ------------------------------------------------------------------------------------------


def _tree_cpu_s() -> float:
    """Return the CPU seconds of this process and its descendants, none of which may have ended."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue  # the process has ended meanwhile
        number = int(path.parent.name)
        parents[number], ticks[number] = int(fields[1]), int(fields[11]) + int(fields[12])
    return sum(
        count for number, count in ticks.items() if _is_descendant(number, os.getpid(), parents)
    ) / os.sysconf("SC_CLK_TCK")


def _is_descendant(number: int, top: int, parents: dict[int, int]) -> bool:
    while number not in (0, top):
        number = parents.get(number, 0)
    return number == top
