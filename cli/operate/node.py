"""``rhumbline node``: ls, stat, adopt, drain, undrain, decommission."""

import click

from ...core.protocol.bookie_id import bookie_name
from ...core.protocol.errors import InvalidArgumentError
from ...server.bookie_host import status_address
from ..options import CommandSession, runs, session_options
from ..output import TABLE, ProgressBar, print_record, print_rows
from ..output_schema import anything, maybe, prints, record, rows, text
from ..overview.bookies import BOOKIE_ROW, BookieView, for_people, read_bookies
from ..overview.status_documents import read_statuses
from ..waiting import wait_count_options, wait_until
from .adoption.command import adopt
from .drains.draining import decommission, drain, undrain


@click.group()
def node() -> None:
    """Show, drain and decommission nodes, which are the bookies."""


for _command in (adopt, drain, undrain, decommission):
    node.add_command(_command)


@node.command()
@wait_count_options("bookies that are up")
@prints(rows(record(BOOKIE_ROW)))
@session_options
@runs
async def ls(session: CommandSession, wait_count: int | None, timeout_ms: int) -> None:
    """List all bookies of the cluster with their mode and their current free space.

    Bookies that are down are listed too, and decommissioned ones whose process still runs.
    """
    async with session.client(moves_data=False) as client:

        async def check() -> list[BookieView]:
            return await read_bookies(client.store, client.directory)

        def count_up(views: list[BookieView]) -> int:
            return sum(view.registration is not None for view in views)

        with ProgressBar() as progress:
            progress.show("asking the bookies")
            views = await wait_until(
                check,
                lambda views: count_up(views) >= (wait_count or 0),
                timeout_ms=timeout_ms,
                describe=lambda views: f"{count_up(views)} of {wait_count} bookies are up",
            )
        shown = [view.as_row() for view in views]
        if session.output == TABLE:
            shown = [for_people(row) for row in shown]
        print_rows(shown, session.output, empty="no bookie is formatted for this cluster")


@node.command()
@click.argument("bookie", required=False)
@prints(
    rows(
        record(
            {
                "bookie": text("Id of the bookie."),
                "error": maybe(text("Why there are no statistics.")),
                "statistics": anything("Statistics of the bookie, as at /stat."),
            }
        )
    )
)
@session_options
@runs
async def stat(session: CommandSession, bookie: str | None) -> None:
    """Show the statistics of a bookie (by id or name), or of every bookie."""
    async with session.client(moves_data=False) as client:
        known = await client.directory.all_known()
        wanted = [
            known_id for known_id in known if bookie in (None, known_id, bookie_name(known_id))
        ]
        if bookie is not None and not wanted:
            names = ", ".join(known) or "none"
            raise InvalidArgumentError(f"unknown bookie {bookie}; the bookies are: {names}")
        addresses = {one: await status_address(client.store, one) for one in wanted}
        found = await read_statuses(addresses)
    if session.output != TABLE:
        shown = [
            {"bookie": bookie_id, "error": one.error, "statistics": dict(one.statistics)}
            for bookie_id, one in found.items()
        ]
        print_rows(shown, session.output, empty="")
        return
    for bookie_id, one in found.items():
        status = one.statistics if one.is_known else {"status": one.error}
        print_record({"bookie": bookie_id, **status}, session.output)
