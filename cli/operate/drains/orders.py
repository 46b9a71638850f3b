"""Orders to drain bookies and regions, and to withdraw that. All are safe to repeat.

The states of a bookie are in each store that knows the bookie (rule RPR-21).
"""

from collections.abc import Sequence

from ....client.system_runtime import SystemClock
from ....core.protocol.bookie_id import BookieId, Region
from ....core.protocol.errors import InvalidArgumentError
from ....regions.repair.drain_records import DrainRecord, region_target
from ....regions.repair.progress import (
    IsLeaving,
    RemainingCopies,
    count_remaining,
    unplaceable_quorums,
)
from ....regions.states import PlacementState
from ...errors import UnsafeError
from ..opened_cluster import Cluster


async def knowing_bookie(clusters: Sequence[Cluster], bookie: BookieId) -> list[Cluster]:
    """Return the stores that know the bookie."""
    return [found for found in clusters if bookie in await found.directory.all_known()]


async def knowing_region(clusters: Sequence[Cluster], region: Region) -> list[Cluster]:
    """Return the first store, and those of the others that know a bookie of the region."""
    found = list(clusters[:1])
    for cluster in clusters[1:]:
        directory = cluster.directory
        regions = [await directory.region_of(bookie) for bookie in await directory.all_known()]
        if region in regions:
            found.append(cluster)
    return found


async def find_region(cluster: Cluster, name: str) -> Region:
    """Return a region that a bookie or a state names. Raises InvalidArgumentError."""
    directory = cluster.directory
    known = {await directory.region_of(bookie) for bookie in await directory.all_known()}
    known |= set((await directory.states.read()).regions)
    if name not in known:
        regions = ", ".join(sorted(str(region) for region in known if region)) or "none"
        raise InvalidArgumentError(f"no bookie is in region {name}; the regions are: {regions}")
    return Region(name)


def leaves_bookie(bookie: BookieId) -> IsLeaving:
    """Return the condition of a drain of one bookie."""

    def is_leaving(candidate: BookieId, _: Region | None) -> bool:
        return candidate == bookie

    return is_leaving


def leaves_region(region: Region) -> IsLeaving:
    """Return the condition of a drain of a region."""

    def is_leaving(_: BookieId, its_region: Region | None) -> bool:
        return its_region == region

    return is_leaving


async def examine_drain(
    cluster: Cluster, is_leaving: IsLeaving
) -> tuple[RemainingCopies, list[str]]:
    """Return what would have to move, and why some of it has no legal place elsewhere."""
    found = await count_remaining(cluster.ledgers, cluster.directory, cluster.tasks, is_leaving)
    return found, await unplaceable_quorums(found, cluster.directory, is_leaving)


async def drain_bookie(
    clusters: Sequence[Cluster], bookie: BookieId, *, force: bool
) -> PlacementState:
    """Order a drain and return the state of the bookie. Raises UnsafeError unless ``force``."""
    knowing = await knowing_bookie(clusters, bookie)
    for cluster in knowing:
        await _begin(cluster, bookie, leaves_bookie(bookie), force=force)
    is_up = bookie in await clusters[0].directory.up()
    state = PlacementState.DRAINED if is_up else PlacementState.OFFLINE
    for cluster in knowing:
        await cluster.set(lambda states: states.with_bookie(bookie, state))
    return state


async def undrain_bookie(clusters: Sequence[Cluster], bookie: BookieId) -> None:
    """Let a bookie accept new data again."""
    for cluster in await knowing_bookie(clusters, bookie):
        await cluster.set(lambda states: states.with_bookie(bookie, None))
        await cluster.drains.end(bookie)


async def drain_region(clusters: Sequence[Cluster], region: Region, *, force: bool) -> None:
    """Order a drain of a region. Raises UnsafeError unless ``force``."""
    for cluster in await knowing_region(clusters, region):
        await _begin(cluster, region_target(region), leaves_region(region), force=force)
    await set_region(clusters, region, PlacementState.DRAINED)


async def set_region(
    clusters: Sequence[Cluster], region: Region, state: PlacementState | None
) -> None:
    """Set the state of a region; None: it is open to new data."""
    for cluster in await knowing_region(clusters, region):
        await cluster.set(lambda states: states.with_region(region, state))
        if state is None:
            await cluster.drains.end(region_target(region))


async def describe_reopened(clusters: Sequence[Cluster], name: str, belongs: IsLeaving) -> str:
    """Say whether new data may be placed now on what is not drained any more.

    It may if each store that knows bookies which belong to it offers one of them.
    """
    offers = []
    for cluster in clusters:
        known, open_to_new = (
            await cluster.directory.configured(),
            await cluster.directory.snapshot(),
        )
        if any(belongs(info.bookie, info.region) for info in known):
            offers.append(any(belongs(info.bookie, info.region) for info in open_to_new))
    if offers and all(offers):
        return f"{name} accepts new data"
    return f"the order for {name} is withdrawn; it accepts no new data yet: see `rhumbline node ls`"


async def _begin(cluster: Cluster, target: str, is_leaving: IsLeaving, *, force: bool) -> None:
    """Record what has to move, before the state is set."""
    found, faults = await examine_drain(cluster, is_leaving)
    if faults and not force:
        raise UnsafeError("; ".join(faults) + "; --force overrides this check")
    await cluster.drains.begin(target, DrainRecord(SystemClock().wall_ms(), found.entries))
