"""``rhumbline bench takeover``."""

import tempfile
from pathlib import Path
from typing import Any

import click

from ....cli.output import format_table
from ....client.system_runtime import run
from ...harness.bookie_processes import BookieProcesses
from ...proxies.proxy_takeover import measure_takeovers
from ..bench_options import number, output_options, whole_number
from ..bench_output import collect, print_raw, say


@click.command()
@whole_number("--kills", 0, 1_000, 50, "Number of owners to kill (SIGKILL).")
@whole_number("--stops", 0, 1_000, 50, "Number of owners to hang (SIGSTOP).")
@number("--starve", 0, 86_400, 0, "Seconds without a fault, short of CPU.")
@whole_number("--spinners", 0, 1_000, 16, "Processes that compete for the CPU meanwhile.")
@output_options
def takeover(
    kills: int, stops: int, starve: float, spinners: int, json_file: Path | None,
    directory: Path | None,
) -> None:  # fmt: skip
    """Measure how long producers pause when the owner of their stream is killed or hangs.

    Three write proxies; settings are the defaults. With --starve also count the owners that are
    replaced needlessly while other processes compete for the CPU.
    """
    with tempfile.TemporaryDirectory(prefix="rhumbline-bench-", dir=directory) as root:
        print_raw(Path(root))
        with BookieProcesses(Path(root)) as servers:
            rows = measure_takeovers(servers, kills, stops, starve, spinners)
            found = run(collect(rows, json_file))
    say()
    for is_starved in (False, True):
        chosen = [row for row in found if (row["w"] == "starved") is is_starved]
        if chosen:
            say(format_table([_shown(row) for row in chosen]))
            say()


def _shown(row: dict[str, Any]) -> dict[str, Any]:
    return {
        name.replace("_ms", " ms").replace("_", " "): value
        for name, value in row.items()
        if name not in ("peer", "pauses_ms")
    }
