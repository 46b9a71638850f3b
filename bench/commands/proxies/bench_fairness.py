"""``rhumbline bench fairness``."""

import tempfile
from pathlib import Path
from typing import Any

import click

from ....cli.output import format_table
from ....client.system_runtime import run
from ...harness.bookie_processes import BookieProcesses
from ...tenants.fairness import measure_fairness
from ..bench_options import number, output_options, whole_number
from ..bench_output import collect, print_raw, say


@click.command()
@number("--seconds", 0.1, 600, 5, "Length of one timed window.")
@whole_number("--repetitions", 1, 100, 3, "Number of windows of each mode.")
@whole_number("--quota", 1, 1 << 40, 1 << 20, "Bytes per second of the flood in the last mode.")
@output_options
def fairness(
    seconds: float, repetitions: int, quota: int, json_file: Path | None, directory: Path | None
) -> None:
    """Measure what a principal that floods a proxy does to the latencies of another one.

    Windows alternate: one principal alone, with a flood of another cluster on this machine, with a
    flood, and with a flood that has a quota. The latencies are those of the first principal, at 400
    records/s. What the flood of another cluster does to them is the effect of the processors and
    the disk, which is all that the clusters share.
    """
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        roots = [Path(root) / name for name in ("cluster", "elsewhere")]
        for below in roots:
            below.mkdir()
        with BookieProcesses(roots[0]) as servers, BookieProcesses(roots[1]) as elsewhere:
            rows = measure_fairness(servers, elsewhere, seconds, repetitions, quota)
            found = run(collect(rows, json_file))
    say()
    say(format_table([_shown(row) for row in found]))
    say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "polite principal": row["mode"],
        "records/s": row["rec_s"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "p99.9 ms": row["p999_ms"],
        "p99 / alone": row["p99_ratio"],
        "flood MB/s": row["flood_MB_s"],
    }
