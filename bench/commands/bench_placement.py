"""``rhumbline bench placement``: racks that write sets share, and the time of a choice."""

import click

from ...cli.output import format_table
from ..placement import measure_choices, measure_shared_racks
from .bench_options import whole_number
from .bench_output import emit, reports, say


@click.command()
@whole_number("--seeds", 1, 100_000, 400, "Ensembles of each small topology.")
@whole_number("--bookies", 100, 10_000, 1000, "Bookies of each large topology.")
@whole_number("--repetitions", 1, 1000, 20, "Choices in each large topology.")
@reports
def placement(seeds: int, bookies: int, repetitions: int) -> None:
    """Count ensembles whose write sets share a rack needlessly, and measure the time of a choice.

    Starts no processes and uses no disk. Times are CPU milliseconds of one choice of placement.
    """
    for name, found in (
        ("shared racks", measure_shared_racks(seeds)),
        ("choices", measure_choices(bookies, repetitions)),
    ):
        measured = list(found)
        emit({"w": name, **row} for row in measured)
        say(format_table(measured) + "\n")
