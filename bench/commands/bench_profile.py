"""``rhumbline bench profile``."""

import tempfile
from pathlib import Path
from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ..harness.bookie_processes import BookieProcesses
from ..harness.workload import WRITE
from ..profile.profiled_workload import profile_workload
from .bench_options import number, output_options
from .bench_output import collect, print_raw, say

_NAMES = [workload.name for workload in WRITE]


@click.command()
@click.option("--work", type=click.Choice(_NAMES), default="W2-1", show_default=True,
              help="Workload of `bench write`.")  # fmt: skip
@click.option("--graphs", type=click.Path(path_type=Path, exists=True, file_okay=False),
              default=Path(), help="Folder of the flame graphs. [default: .]")  # fmt: skip
@number("--seconds", 0.1, 600, 5, "Length of each window.")
@output_options
def profile(
    work: str, graphs: Path, seconds: float, json_file: Path | None, directory: Path | None
) -> None:
    """Draw flame graphs of a workload, and count its system calls and context switches.

    This uses perf, which may need privileges. The graphs show functions of Python code by name only
    in the compiled form.
    """
    (workload, *_) = [each for each in WRITE if each.name == work]
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        with BookieProcesses(Path(root)) as servers:
            found = run(collect(profile_workload(servers, workload, seconds, graphs), json_file))
    say()
    say(format_table([_shown(row) for row in found]))
    say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "work": row["w"],
        "records/s": row["rec_s"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
        "syscalls bookies": row["bookies_syscalls"],
        "syscalls client": row["client_syscalls"],
        "switches bookies": row["bookies_switches"],
        "switches client": row["client_switches"],
        "cpu s/M servers": row["srv_cpu_per_M"],
        "cpu s/M client": row["cli_cpu_per_M"],
    }
