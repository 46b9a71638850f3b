"""``rhumbline bench archived``."""

import tempfile
from pathlib import Path
from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ...core.protocol.installation import needs_extra
from ..harness.bookie_processes import BookieProcesses
from .bench_options import output_options, whole_number
from .bench_output import collect, print_raw, say


@click.command()
@whole_number("--records", 1_000, 100_000_000, 500_000, "Records of the stream.")
@whole_number("--size", 16, 65536, 1024, "Bytes of each record.")
@whole_number("--repetitions", 1, 100, 1, "Number of runs.")
@output_options
def archived(
    records: int, size: int, repetitions: int, directory: Path | None, json_file: Path | None
) -> None:
    """Read a stream whose only copy is its archive, beside a scan of the Parquet files.

    The archive is in a local folder. The stream is read by record, by Arrow batch and by the
    command ``stream read``, with a warm page cache and with a dropped one.
    """
    with needs_extra("the benchmark of archived streams", "arrow"):
        from ..archives.archived_reads import measure_archived_reads

    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as folder:
        root, cold = Path(folder), Path(folder).resolve() / "cold"
        cold.mkdir()
        print_raw(root)
        with BookieProcesses(root) as servers:
            measured = measure_archived_reads(
                servers, cold, count=records, size=size, repetitions=repetitions
            )
            found = run(collect(measured, json_file))
    say()
    say(format_table([_shown(row) for row in found]))


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {"reader": row["peer"], "records/s": row["rec_s"], "MB/s": row["MB_s"]}
