"""``rhumbline region``: ls, disallow, drain, offline, undrain; add and remove are elsewhere."""

from collections.abc import Sequence

import click

from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import InvalidArgumentError
from ...regions.repair.drain_records import region_target
from ...regions.states import PlacementState
from ...server.server_directory import list_servers
from ..options import CommandSession, runs, session_options
from ..output import print_done, print_message, print_rows
from ..output_schema import prints, record, rows
from ..overview.bookies import read_bookies
from ..overview.regions import REGION_ROW, region_rows
from .drains.draining import begin_drain, drain_options, placement_schema
from .drains.progress import watch
from .opened_cluster import Cluster, opened_stores
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
        await _set(clusters, name, PlacementState.DISALLOWED)
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
        place = await _find(clusters[0], name)
        knowing = await _knowing(clusters, place)

        def is_leaving(_: BookieId, its_region: Region | None) -> bool:
            return its_region == place

        for cluster in knowing:
            await begin_drain(cluster, region_target(place), is_leaving, force=force)
        await _set(clusters, name, PlacementState.DRAINED)
        if not no_wait:
            print_message(f"region {place} is {PlacementState.DRAINED.value}: it gets no new data")
            for cluster in knowing:
                await watch(session, cluster, region_target(place), is_leaving)
        _print_state(session, name, PlacementState.DRAINED, is_empty=not no_wait)


@region.command()
@click.argument("name")
@prints(placement_schema("region"))
@session_options
@runs
async def offline(session: CommandSession, name: str) -> None:
    """Declare a long outage of the region: its copies count as lost and are replaced elsewhere."""
    async with opened_stores(session) as clusters:
        await _set(clusters, name, PlacementState.OFFLINE)
        _print_state(session, name, PlacementState.OFFLINE)


@region.command()
@click.argument("name")
@prints(placement_schema("region"))
@session_options
@runs
async def undrain(session: CommandSession, name: str) -> None:
    """Return the region to normal: it gets new data, and repair places copies there again."""
    async with opened_stores(session) as clusters:
        await _set(clusters, name, None)
        _print_state(session, name, None)


async def _find(cluster: Cluster, name: str) -> Region:
    directory = cluster.directory
    known = {await directory.region_of(bookie) for bookie in await directory.all_known()}
    known |= set((await directory.states.read()).regions)
    if name not in known:
        regions = ", ".join(sorted(str(region) for region in known if region)) or "none"
        raise InvalidArgumentError(f"no bookie is in region {name}; the regions are: {regions}")
    return Region(name)


async def _knowing(clusters: Sequence[Cluster], place: Region) -> list[Cluster]:
    """Return the first store, and those of the others that know a bookie of the region."""
    found = list(clusters[:1])
    for cluster in clusters[1:]:
        directory = cluster.directory
        regions = [await directory.region_of(bookie) for bookie in await directory.all_known()]
        if place in regions:
            found.append(cluster)
    return found


async def _set(clusters: Sequence[Cluster], name: str, state: PlacementState | None) -> None:
    place = await _find(clusters[0], name)
    for cluster in await _knowing(clusters, place):
        await cluster.set(lambda states: states.with_region(place, state))
        if state is None:
            await cluster.drains.end(region_target(place))


def _print_state(
    session: CommandSession, name: str, state: PlacementState | None, *, is_empty: bool = False
) -> None:
    message = f"region {name} accepts new data"
    if state is not None:
        message = f"region {name} is {state.value}: it gets no new data"
    print_done(
        {"region": name, "state": state and state.value, "is_empty": is_empty},
        session.output,
        f"region {name} is empty" if is_empty else message,
    )


for _command in COMMANDS:
    region.add_command(_command)
