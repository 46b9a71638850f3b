"""Apache Iceberg's own Java library reads the tables of archives, through their catalogue."""

import asyncio
import hashlib
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from rhumbline.bench.scan_archive import ArchiveShape, write_archive
from rhumbline.coldstore.archive.schema import COLUMNS
from rhumbline.tests.support.servers.iceberg import classpath, read_table
from rhumbline.tests.support.servers.metadata_servers import started
from rhumbline.tests.unit.coldstore.iceberg.table_world import TableWorld
from rhumbline.tests.unit.spark.spark_world import archive_on_disk

pytestmark = [pytest.mark.needs_server("apache-iceberg"), pytest.mark.timeout(600)]

TYPES = (
    "required long", "required long", "required int", "required int", "required long",
    "required timestamptz", "optional fixed[16]", "optional long", "required binary",
    "optional binary", "optional timestamptz", "optional map<string, binary>",
)  # fmt: skip
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """Return the rows of the part files, in order, as pyarrow reads them."""
    found: list[dict[str, Any]] = ds.dataset(folder).to_table().to_pylist()
    return sorted(found, key=lambda row: (row["lssn"], row["entry_id"], row["slot"]))


def digest(rows: list[dict[str, Any]]) -> str:
    """Return the count and SHA-256 of rows, as ReadTable.java computes them."""
    sha = hashlib.sha256()
    for row in rows:
        headers = "".join(f"{name}={value.hex()}," for name, value in sorted(row["headers"] or []))
        sha.update(
            f"{row['lssn']} {row['entry_id']} {row['slot']} {row['txid']} "
            f"{_micros(row['created'])} {_hex(row['payload'])} {_hex(row['key'])} "
            f"{_micros(row['event_time'])} {headers}\n".encode()
        )
    return f"{len(rows)} {sha.hexdigest()}"


def _micros(time: datetime | None) -> str:
    return "-" if time is None else str((time - EPOCH) // timedelta(microseconds=1))


def _hex(value: bytes | None) -> str:
    return "-" if value is None else value.hex()


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield archives of streams test/s and bench/scan, registered in catalog.db beside them."""
    started(classpath)
    root = tmp_path_factory.mktemp("tables") / "cold"
    root.mkdir()
    archive_on_disk(root)
    write_archive(root, ArchiveShape(records=5_000, size=50))

    async def register() -> None:
        world = TableWorld(root)
        try:
            for namespace in ("test", "bench"):
                assert not (await world.registrar(namespace).run_until_even()).faults
        finally:
            await world.close()

    asyncio.run(register())
    yield root


def test_java_reads_every_column_of_every_record(root: Path) -> None:
    rows = rows_in(next(root.glob("test/s/[0-9a-f]*")))
    found = read_table(root.parent / "catalog.db", "test", "s", "1970-01-01T00:00:00Z",
                       "2100-01-01T00:00:00Z")  # fmt: skip
    columns = zip(COLUMNS, TYPES, strict=True)
    assert found == [
        *(f"column {one.field_id} {one.name} {kind}" for one, kind in columns),
        "sorted 3",
        *(f"snapshot append {lssn} {lssn}" for lssn in range(1, 5)),
        f"all {digest(rows)}",
        f"range {digest(rows)}",
        "files 4",
    ]
    assert any(row["headers"] for row in rows)


def test_a_range_of_times_reads_only_the_files_that_hold_it(root: Path) -> None:
    rows = rows_in(next(root.glob("bench/scan/[0-9a-f]*")))
    times = [row["created"] for row in rows if row["lssn"] == 3]
    since, until = min(times), max(times) + timedelta(milliseconds=1)
    found = read_table(
        root.parent / "catalog.db", "bench", "scan", since.isoformat(), until.isoformat()
    )
    assert found[-3:] == [
        f"all {digest(rows)}",
        f"range {digest([row for row in rows if row['lssn'] == 3])}",
        "files 1",
    ]
