"""``rhumbline region``: ls, disallow, drain, offline, undrain; add and remove are elsewhere."""

import click

from ...regions.repair.drain_records import region_target
from ...regions.states import PlacementState
from ...server.server_directory import list_servers
from ..options import CommandSession, runs, session_options
from ..output import print_done, print_message, print_rows
from ..output_schema import prints, record, rows
from ..overview.bookies import read_bookies
from ..overview.regions import REGION_ROW, region_rows
from .drains.draining import check_all_are_read, drain_options, placement_schema
from .drains.orders import (
    describe_reopened,
    drain_region,
    find_region,
    knowing_region,
    leaves_region,
    set_region,
)
from .drains.progress import watch
from .opened_cluster import opened_stores
from .region_declaration import COMMANDS


@click.group()
def region() -> None:
    """Show regions, drain them, take them offline. A region may be lost as a whole."""


@region.command()
@prints(rows(record(REGION_ROW)))
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """List the regions with their state, their bookies and servers.

    A region is open if it has a writable bookie and no operator has closed it.
    """
    async with session.client(moves_data=False) as client:
        bookies = await read_bookies(client.store, client.directory)
        ordered = (await client.directory.states.read()).regions
        declared = await client.directory.declared_regions() or ()
        shown = region_rows(bookies, ordered, await list_servers(client.store), declared)
        print_rows(shown, session.output, empty="no bookie is formatted for this cluster")


@region.command()
@click.argument("name")
@prints(placement_schema("region"))
@session_options
@runs
async def disallow(session: CommandSession, name: str) -> None:
    """Place no new data in the region; existing data stays readable."""
    async with opened_stores(session) as clusters:
        await set_region(clusters, await find_region(clusters[0], name), PlacementState.DISALLOWED)
        _print_state(session, name, PlacementState.DISALLOWED)


@region.command()
@click.argument("name")
@drain_options
@prints(placement_schema("region"))
@session_options
@runs
async def drain(session: CommandSession, name: str, force: bool, no_wait: bool) -> None:
    """Move all data out of the region. Safe to repeat."""
    async with opened_stores(session) as clusters:
        place = await find_region(clusters[0], name)
        are_read = await check_all_are_read(session, clusters[0], force=force)
        await drain_region(clusters, place, force=force)
        if not no_wait:
            print_message(f"region {place} is {PlacementState.DRAINED.value}: it gets no new data")
            for cluster in await knowing_region(clusters, place):
                await watch(session, cluster, region_target(place), leaves_region(place))
        is_empty = not no_wait and are_read
        _print_state(session, name, PlacementState.DRAINED, is_empty=is_empty)


@region.command()
@click.argument("name")
@prints(placement_schema("region"))
@session_options
@runs
async def offline(session: CommandSession, name: str) -> None:
    """Declare a long outage of the region: its copies count as lost and are replaced elsewhere."""
    async with opened_stores(session) as clusters:
        await set_region(clusters, await find_region(clusters[0], name), PlacementState.OFFLINE)
        _print_state(session, name, PlacementState.OFFLINE)


@region.command()
@click.argument("name")
@prints(placement_schema("region"))
@session_options
@runs
async def undrain(session: CommandSession, name: str) -> None:
    """Return the region to normal: it gets new data, and repair places copies there again."""
    async with opened_stores(session) as clusters:
        place = await find_region(clusters[0], name)
        await set_region(clusters, place, None)
        print_done(
            {"region": name, "state": None, "is_empty": False},
            session.output,
            await describe_reopened(clusters, f"region {name}", leaves_region(place)),
        )


def _print_state(
    session: CommandSession, name: str, state: PlacementState, *, is_empty: bool = False
) -> None:
    message = f"region {name} is {state.value}: it gets no new data"
    print_done(
        {"region": name, "state": state.value, "is_empty": is_empty},
        session.output,
        f"region {name} is empty" if is_empty else message,
    )


for _command in COMMANDS:
    region.add_command(_command)
