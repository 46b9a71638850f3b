"""``rhumbline bench scan``: how fast Spark reads an archive."""

import tempfile
from pathlib import Path
from statistics import median

import click

from ...core.protocol.errors import ConfigurationError
from ..output import format_table
from ..units import show_bytes

try:
    from ...bench.scan import measure_filters, measure_scans
    from ...bench.scan_archive import write_archive
    from ...spark.session import FAST_PYTHON, open_session
except ModuleNotFoundError as error:
    raise ConfigurationError(f"Spark needs {error.name}: pip install 'rhumbline[spark]'") from error


def run_scan(records: int, size: int, rounds: int, directory: Path | None) -> None:
    """Makes an archive, scans it, prints the figures. Raises AssertionError for a wrong result."""
    with tempfile.TemporaryDirectory(prefix="rhumbline-scan-", dir=directory) as folder:
        root = Path(folder)
        manifests = write_archive(root, records, size)
        parts = [part for one in manifests for part in one.parts]
        stored = sum(part.size_bytes for part in parts)
        click.echo(
            f"{records:,} records of {size} bytes: {show_bytes(records * size)} of payload, "
            f"{len(parts)} files with {show_bytes(stored)}"
        )
        settings = ", ".join(f"{name}={value}" for name, value in FAST_PYTHON.items())
        click.echo(f"local[2], {settings}\n")
        spark = open_session("rhumbline bench scan", master="local[2]")
        try:
            scans = list(measure_scans(spark, root, manifests, rounds))
            touched = list(measure_filters(spark, root, manifests))
        finally:
            spark.stop()
    click.echo(
        format_table(
            [
                {
                    "round": one.round,
                    "reader": one.reader,
                    "rows/s": f"{one.rows_per_s:,.0f}",
                    "s": round(one.seconds, 2),
                    "CPU s": round(one.cpu_seconds, 2),
                    "rows/CPU s": f"{records / max(one.cpu_seconds, 0.01):,.0f}",
                }
                for one in scans
            ]
        )
    )
    native, ours = (
        [one for one in scans if one.reader == name] for name in ("native Parquet", "rhumbline")
    )
    by_time = median(n.seconds for n in native) / median(o.seconds for o in ours)
    by_cpu = sum(n.cpu_seconds for n in native) / max(0.01, sum(o.cpu_seconds for o in ours))
    click.echo(
        f"\nthe data source reaches {by_time:.0%} of native speed (medians), "
        f"{by_cpu:.0%} by CPU seconds\n"
    )
    click.echo(
        format_table(
            [
                {
                    "where": one.query,
                    "rows": f"{one.rows:,}",
                    "files": one.files,
                    "row groups": one.row_groups,
                    "read": show_bytes(one.bytes_read),
                    "s": round(one.seconds, 2),
                }
                for one in touched
            ]
        )
    )
