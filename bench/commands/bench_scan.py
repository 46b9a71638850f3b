"""``rhumbline bench scan``: the speed of Spark on an archive."""

import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median

from ...cli.output import format_table
from ...client.system_runtime import run
from ...client.units import show_bytes
from ...core.protocol.installation import needs_extra
from .bench_output import emit, say

with needs_extra("the Spark benchmark", "iceberg,spark"):
    from ...spark.session import FAST_PYTHON, open_session
    from ..archives.pruned import register_table
    from ..archives.selective import SelectiveScan, measure_selective
    from ..scan import (
        NATIVE,
        SOURCE,
        VERIFIED,
        QueryCost,
        ScanResult,
        measure_filters,
        measure_scans,
    )
    from ..scan_archive import ArchiveShape, write_archive


def run_scan(records: int, size: int, rounds: int, directory: Path | None) -> None:
    """Write an archive, scan it, print the results. Raises AssertionError for a wrong result."""
    shape = ArchiveShape(records, size)
    with tempfile.TemporaryDirectory(prefix="rhumbline-scan-", dir=directory) as folder:
        root, catalog_uri = Path(folder) / "cold", f"sqlite://{folder}/catalog.db"
        root.mkdir()
        manifests = write_archive(root, shape)
        parts = [part for manifest in manifests for part in manifest.parts]
        stored = sum(part.size_bytes for part in parts)
        say(
            f"{records:,} records of {size} bytes: {show_bytes(records * size)} of payload, "
            f"{len(parts)} files with {show_bytes(stored)}"
        )
        settings = ", ".join(f"{name}={value}" for name, value in FAST_PYTHON.items())
        say(f"local[2], {settings}\n")
        run(register_table(root, catalog_uri))
        spark = open_session("rhumbline bench scan", master="local[2]")
        try:
            scans = list(measure_scans(spark, root, manifests, rounds))
            touched = list(measure_filters(spark, root, manifests))
            selective = list(measure_selective(spark, root, catalog_uri, shape, rounds))
        finally:
            spark.stop()
    _show_scans(scans, records)
    _show_costs(touched)
    _show_selective(selective)


def _show_scans(scans: Sequence[ScanResult], records: int) -> None:
    emit({"w": "scan", **asdict(scan)} for scan in scans)
    rows = [
        {
            "round": scan.round,
            "reader": scan.reader,
            "rows/s": f"{scan.rows_per_s:,.0f}",
            "s": round(scan.seconds, 2),
            "CPU s": round(scan.cpu_seconds, 2),
            "rows/CPU s": f"{records / max(scan.cpu_seconds, 0.01):,.0f}",
        }
        for scan in scans
    ]
    say(format_table(rows))
    native = [scan for scan in scans if scan.reader == NATIVE]
    for name in (VERIFIED, SOURCE):
        own = [scan for scan in scans if scan.reader == name]
        by_time = median(n.seconds for n in native) / median(o.seconds for o in own)
        by_cpu = sum(n.cpu_seconds for n in native) / max(0.01, sum(o.cpu_seconds for o in own))
        say(
            f"\n{name} reaches {by_time:.0%} of native speed (medians), {by_cpu:.0%} by CPU seconds"
        )


def _show_costs(touched: Sequence[QueryCost]) -> None:
    emit({"w": "filter", **asdict(scan)} for scan in touched)
    rows = [
        {
            "where": scan.query,
            "rows": f"{scan.rows:,}",
            "files": scan.files,
            "row groups": scan.row_groups,
            "read": show_bytes(scan.bytes_read),
            "s": round(scan.seconds, 2),
        }
        for scan in touched
    ]
    say("")
    say(format_table(rows))


def _show_selective(scans: Sequence[SelectiveScan]) -> None:
    emit({"w": "selective", **asdict(scan)} for scan in scans)
    rows = [
        {
            "a hundredth of the times": scan.reader,
            "rows": f"{scan.records:,}",
            "s": round(scan.seconds, 3),
        }
        for scan in scans
    ]
    say("")
    say(format_table(rows))
