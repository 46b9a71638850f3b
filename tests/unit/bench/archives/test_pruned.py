"""Both readers of the pruning benchmark return the same rows, and read only files with them."""

import asyncio
from pathlib import Path

from rhumbline.bench.archives.pruned import (
    ICEBERG,
    SOURCE,
    PrunedScan,
    measure_pruning,
    register_table,
)
from rhumbline.bench.scan_archive import ArchiveShape, write_archive

SHAPE = ArchiveShape(records=6 * 2 * 250, size=64, segments=6, keys=100, interval_ms=36)
FILES = {"time": 1, "txid": 1, "segment": 1, "entry": 1, "key": 6, "everything": 6}
ROWS = {"time": 250, "txid": 30, "segment": 500, "entry": 250, "key": 30, "everything": 3000}


def test_equal_queries_plan_the_same_files_and_return_the_same_rows(tmp_path: Path) -> None:
    root, catalog_uri = tmp_path / "cold", f"sqlite://{tmp_path}/catalog.db"
    root.mkdir()
    manifests = write_archive(root, SHAPE)
    assert asyncio.run(register_table(root, catalog_uri)) == len(manifests) == 6
    found = list(measure_pruning(root, catalog_uri, SHAPE))
    assert [one.reader for one in found] == [SOURCE, ICEBERG] * len(ROWS)
    by_reader: dict[str, dict[str, PrunedScan]] = {
        name: {one.query: one for one in found if one.reader == name} for name in (SOURCE, ICEBERG)
    }
    for scans in by_reader.values():
        assert {query: one.files for query, one in scans.items()} == FILES
        assert {query: one.rows for query, one in scans.items()} == ROWS
        assert len({one.digest for one in scans.values()}) == len(ROWS)
        whole = scans.pop("everything")
        assert all(
            0 < one.plan_bytes < one.bytes_read <= whole.bytes_read for one in scans.values()
        )
