"""``rhumbline region``: ls, disallow, drain, offline, undrain."""

from collections import Counter

import click

from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import InvalidArgumentError
from ...regions.states import State
from ..options import CommandSession, runs, session_options
from ..output import print_rows, say
from .draining import Cluster, check_there_is_room, opened, waiting_options, watch


@click.group()
def region() -> None:
    """A region is a place that may be lost as a whole."""


@region.command()
@session_options
@runs
async def ls(session: CommandSession) -> None:
    """Lists the regions, their bookies, and what operators have said of them."""
    async with opened(session) as cluster:
        directory = cluster.directory
        states = await directory.states.read()
        known = Counter([await directory.region_of(b) for b in await directory.all_known()])
        writable = Counter(info.region for info in await directory.everything())
        closed = Counter([await directory.region_of(b) for b in states.bookies])
        rows = [
            {
                "region": name or "unknown",
                "state": _shown(states.regions.get(name) if name is not None else None),
                "bookies": known[name],
                "writable": writable[name],
                "closed to new data": closed[name],
            }
            for name in sorted({*known, *writable, *states.regions}, key=str)
        ]
        print_rows(rows, session.output, empty="no bookie was ever formatted for this cluster")


@region.command()
@click.argument("name")
@session_options
@runs
async def disallow(session: CommandSession, name: str) -> None:
    """No new data in the region; what is there stays and is read."""
    async with opened(session) as cluster:
        await _set(cluster, name, State.DISALLOWED)


@region.command()
@click.argument("name")
@waiting_options
@session_options
@runs
async def drain(session: CommandSession, name: str, force: bool, no_wait: bool) -> None:
    """Moves everything out of the region. Safe to repeat."""
    async with opened(session) as cluster:
        place = await _find(cluster, name)

        def is_leaving(_: BookieId, its_region: Region | None) -> bool:
            return its_region == place

        await check_there_is_room(cluster, is_leaving, force=force)
        await _set(cluster, name, State.DRAINED)
        if not no_wait:
            await watch(session, cluster, is_leaving)
            say(f"region {place} is empty")


@region.command()
@click.argument("name")
@session_options
@runs
async def offline(session: CommandSession, name: str) -> None:
    """The region is away for long: its copies count as lost, and are made again elsewhere."""
    async with opened(session) as cluster:
        await _set(cluster, name, State.OFFLINE)


@region.command()
@click.argument("name")
@session_options
@runs
async def undrain(session: CommandSession, name: str) -> None:
    """Back to normal: new data goes there, and repair spreads copies there again."""
    async with opened(session) as cluster:
        await _set(cluster, name, None)


def _shown(state: State | None) -> str:
    return "open" if state is None else state.value


async def _find(cluster: Cluster, name: str) -> Region:
    directory = cluster.directory
    known = {await directory.region_of(bookie) for bookie in await directory.all_known()}
    known |= set((await directory.states.read()).regions)
    if name not in known:
        among = ", ".join(sorted(str(one) for one in known if one)) or "none"
        raise InvalidArgumentError(f"no bookie is in region {name}; there are: {among}")
    return Region(name)


async def _set(cluster: Cluster, name: str, state: State | None) -> None:
    place = await _find(cluster, name)
    await cluster.set(lambda states: states.with_region(place, state))
    say(
        f"region {place} takes new data"
        if state is None
        else f"region {place} is {state.value}: it gets no new data"
    )
