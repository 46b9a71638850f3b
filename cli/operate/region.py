"""``rhumbline region``: ls, disallow, drain, offline, undrain; add and remove are elsewhere."""

from collections import Counter
from collections.abc import Sequence

import click

from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import InvalidArgumentError
from ...regions.repair.drain_records import region_target
from ...regions.states import PlacementState, region_condition
from ..options import CommandSession, runs, session_options
from ..output import print_message, print_rows
from .drain_progress import watch
from .draining import begin_drain, drain_options
from .opened_cluster import Cluster, opened, opened_stores
from .region_declaration import COMMANDS


@click.group()
def region() -> None:
    """Show regions, drain them, take them offline. A region may be lost as a whole."""


@region.command()
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """List the regions with their bookies and the state that operators have set."""
    async with opened(session) as cluster:
        directory = cluster.directory
        states = await directory.states.read()
        declared = await directory.declared_regions() or ()
        known = Counter([await directory.region_of(b) for b in await directory.all_known()])
        writable = Counter(info.region for info in await directory.everything())
        closed = Counter([await directory.region_of(b) for b in states.bookies])
        rows = [
            {
                "region": name or "unknown",
                "state": region_condition(
                    states.regions.get(name) if name is not None else None,
                    bookies=known[name],
                    writable=writable[name],
                ),
                "bookies": known[name],
                "writable": writable[name],
                "closed to new data": closed[name],
            }
            for name in sorted({*known, *writable, *states.regions, *declared}, key=str)
        ]
        print_rows(rows, session.output, empty="no bookie is formatted for this cluster")


@region.command()
@click.argument("name")
@session_options
@runs
async def disallow(session: CommandSession, name: str) -> None:
    """Place no new data in the region; existing data stays readable."""
    async with opened_stores(session) as clusters:
        await _set(clusters, name, PlacementState.DISALLOWED)


@region.command()
@click.argument("name")
@drain_options
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
            for cluster in knowing:
                await watch(session, cluster, region_target(place), is_leaving)
            print_message(f"region {place} is empty")


@region.command()
@click.argument("name")
@session_options
@runs
async def offline(session: CommandSession, name: str) -> None:
    """Declare a long outage of the region: its copies count as lost and are replaced elsewhere."""
    async with opened_stores(session) as clusters:
        await _set(clusters, name, PlacementState.OFFLINE)


@region.command()
@click.argument("name")
@session_options
@runs
async def undrain(session: CommandSession, name: str) -> None:
    """Return the region to normal: it gets new data, and repair places copies there again."""
    async with opened_stores(session) as clusters:
        await _set(clusters, name, None)


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
    print_message(
        f"region {place} accepts new data"
        if state is None
        else f"region {place} is {state.value}: it gets no new data"
    )


for _command in COMMANDS:
    region.add_command(_command)
