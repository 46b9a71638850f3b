"""``rhumbline bench scan``: the speed of Spark on an archive."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from statistics import median

from ...cli.output import format_table
from ...client.units import show_bytes
from ...core.protocol.installation import needs_extra
from .bench_output import emit, say

with needs_extra("the Spark benchmark", "spark"):
    from ...spark.session import FAST_PYTHON, open_session
    from ..scan import NATIVE, SOURCE, VERIFIED, measure_filters, measure_scans
    from ..scan_archive import ArchiveShape, write_archive


def run_scan(records: int, size: int, rounds: int, directory: Path | None) -> None:
    """Write an archive, scan it, print the results. Raises AssertionError for a wrong result."""
    with tempfile.TemporaryDirectory(prefix="rhumbline-scan-", dir=directory) as folder:
        root = Path(folder)
        manifests = write_archive(root, ArchiveShape(records, size))
        parts = [part for manifest in manifests for part in manifest.parts]
        stored = sum(part.size_bytes for part in parts)
        say(
            f"{records:,} records of {size} bytes: {show_bytes(records * size)} of payload, "
            f"{len(parts)} files with {show_bytes(stored)}"
        )
        settings = ", ".join(f"{name}={value}" for name, value in FAST_PYTHON.items())
        say(f"local[2], {settings}\n")
        spark = open_session("rhumbline bench scan", master="local[2]")
        try:
            scans = list(measure_scans(spark, root, manifests, rounds))
            touched = list(measure_filters(spark, root, manifests))
        finally:
            spark.stop()
    emit({"w": "scan", **asdict(scan)} for scan in scans)
    emit({"w": "filter", **asdict(scan)} for scan in touched)
    say(
        format_table(
            [
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
        )
    )
    native = [scan for scan in scans if scan.reader == NATIVE]
    for name in (VERIFIED, SOURCE):
        own = [scan for scan in scans if scan.reader == name]
        by_time = median(n.seconds for n in native) / median(o.seconds for o in own)
        by_cpu = sum(n.cpu_seconds for n in native) / max(0.01, sum(o.cpu_seconds for o in own))
        say(
            f"\n{name} reaches {by_time:.0%} of native speed (medians), {by_cpu:.0%} by CPU seconds"
        )
    say("")
    say(
        format_table(
            [
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
        )
    )
