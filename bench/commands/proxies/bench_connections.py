"""``rhumbline bench connections``."""

import tempfile
from pathlib import Path
from typing import Any

import click

from ....cli.output import format_table
from ....client.system_runtime import run
from ...connections.idle_connections import measure_connections
from ...harness.bookie_processes import BookieProcesses
from ..bench_options import number, output_options, whole_number
from ..bench_output import collect, print_raw, say


@click.command()
@whole_number("--count", 1, 25_000, 10_000, "Number of TCP connections.")
@number("--seconds", 0.1, 600, 5, "Time for which each state is measured.")
@output_options
def connections(count: int, seconds: float, json_file: Path | None, directory: Path | None) -> None:
    """Measure what idle connections cost a write proxy: memory, CPU, and latency beside them.

    Three states: no connections, TCP connections without a call, and an append call on each of
    them. Both this process and the proxy need as many open files.
    """
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        with BookieProcesses(Path(root)) as servers:
            found = run(collect(measure_connections(servers, count, seconds), json_file))
    say()
    say(format_table([_shown(row) for row in found]))
    say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "state": row["w"],
        "connections": row["connections"],
        "MiB proxy": row["proxy_rss"],
        "KiB each": row["KiB_each"],
        "cpu ms to open": row["open_cpu_ms_each"],
        "cores idle": row["idle_cores"],
        "p50 ms": row["p50_ms"],
        "p99 ms": row["p99_ms"],
    }
