"""``rhumbline bench pruned``: what selective queries read of an archive, beside Iceberg's scan."""

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ...client.units import show_bytes
from ...core.protocol.installation import needs_extra
from .bench_options import whole_number
from .bench_output import emit, reports, say

if TYPE_CHECKING:
    from ..archives.pruned import PrunedScan

_KEYS = 100
_INTERVAL_MS = 36
"""Creation times of a million records then span ten hours."""


@click.command()
@whole_number("--segments", 2, 10_000, 200, "Archived segments of the stream.")
@whole_number("--entries", 2, 100_000, 20, "Entries of each segment, with 250 records each.")
@whole_number("--size", 16, 65536, 128, "Bytes of each record.")
@click.option(
    "--directory",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Directory for the archive. [default: the temporary directory]",
)
@reports
def pruned(segments: int, entries: int, size: int, directory: Path | None) -> None:
    """Measure selective queries on an archive, beside the same ones on its Iceberg table.

    The data source plans and reads in this process, without Spark or Java; pyiceberg scans the
    table that the archive's registrar wrote. Both must return the same rows. Needs Linux, and no
    cluster.
    """
    with needs_extra("the benchmark of selective queries", "iceberg,spark"):
        from ..archives.pruned import measure_pruning, register_table
    from ..scan_archive import SET_RECORDS, ArchiveShape, write_archive

    records = segments * entries * SET_RECORDS
    shape = ArchiveShape(records, size, segments, keys=_KEYS, interval_ms=_INTERVAL_MS)
    with tempfile.TemporaryDirectory(prefix="rhumbline-pruned-", dir=directory) as folder:
        root, catalog_uri = Path(folder) / "cold", f"sqlite://{folder}/catalog.db"
        root.mkdir()
        parts = [part for one in write_archive(root, shape) for part in one.parts]
        stored = sum(part.size_bytes for part in parts)
        say(
            f"{records:,} records of {size} bytes in {segments} segments: {len(parts)} files with "
            f"{show_bytes(stored)}\n"
        )
        run(register_table(root, catalog_uri))
        found = list(measure_pruning(root, catalog_uri, shape))
    emit({"w": "pruned", **asdict(one)} for one in found)
    say(format_table([_shown(one) for one in found]))


def _shown(scan: "PrunedScan") -> dict[str, object]:
    return {
        "query": scan.query,
        "reader": scan.reader,
        "files": scan.files,
        "read to plan": show_bytes(scan.plan_bytes),
        "read": show_bytes(scan.bytes_read),
        "s to plan": round(scan.plan_seconds, 3),
        "s": round(scan.seconds, 3),
        "rows": f"{scan.rows:,}",
        "digest": scan.digest[:12],
    }
