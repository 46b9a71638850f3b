"""``rhumbline region add`` and ``remove``: the regions that the cluster declares."""

import click

from ...core.metadata.declared_regions import add_region, remove_region
from ..options import CommandSession, runs, session_options
from ..output import print_done
from ..output_schema import done, listing, prints, text

_DECLARED = done({"regions": listing(text("Region."), "The declared regions now.")})


@click.command()
@click.argument("name")
@prints(_DECLARED)
@session_options
@runs
async def add(session: CommandSession, name: str) -> None:
    """Declare another region of the cluster. Safe to repeat.

    Bookies and processes can then use it. `cluster init --regions` declares the first ones.
    """
    async with session.client(moves_data=False) as client:
        declared = await add_region(client.store, name)
        print_done(
            {"regions": list(declared)},
            session.output,
            f"the regions of the cluster are {', '.join(declared)}",
        )


@click.command()
@click.argument("name")
@prints(_DECLARED)
@session_options
@runs
async def remove(session: CommandSession, name: str) -> None:
    """Remove a region without bookies from the declared ones. Safe to repeat."""
    async with session.client(moves_data=False) as client:
        left = await remove_region(client.store, client.directory, name)
        print_done(
            {"regions": list(left)},
            session.output,
            f"the regions of the cluster are {', '.join(left) or 'none'}",
        )


COMMANDS = (add, remove)
