"""``rhumbline bench durability``: the cost of the durability report with many ledgers."""

from typing import Any

import click

from ...cli.output import format_table
from ...client.system_runtime import run
from ..durability import measure_report
from .bench_options import whole_number
from .bench_output import emit, reports, say


@click.command()
@whole_number("--ledgers", 100, 10_000_000, 100_000, "Ledgers in the metadata store.")
@reports
def durability(ledgers: int) -> None:
    """Measure the CPU time and the memory of the durability report with many ledgers.

    No process and no disk takes part. The columns are CPU milliseconds of reading all ledgers, of
    indexing them in a first and a second audit, and of the first report, one without a change and
    one after a bookie went down; the longest time that other tasks waited for a report; and memory.
    """
    measured = run(_rows(ledgers))
    emit({"w": "durability", **row} for row in measured)
    say(format_table(measured))


async def _rows(ledgers: int) -> list[dict[str, Any]]:
    return [row async for row in measure_report(ledgers)]
