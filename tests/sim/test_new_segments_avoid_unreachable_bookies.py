"""While a region is out of a writer's reach, its new segments lie on bookies that it reaches.

The bookies of the region stay registered, because they still reach the metadata store, and the
writer has used only some of them. So nothing but the writer's own failures shows the cut. Each
entry then has all its copies at once, instead of one less until the region returns (rule PLC-30).
"""

import pytest

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

WRITER = "app-east"
CUT_S = 45
LEARNS_S = 4.0
"""Time in which the writer meets the cut: a request times out after 1 s."""


def set_cut(run: RegionRun, region: str, *, is_cut: bool) -> None:
    """Cut or heal the paths between the writer and the bookies of a region."""
    change = run.world.network.cut if is_cut else run.world.network.heal
    for host in run.cluster.bookie_hosts:
        if host.region == region:
            change(WRITER, host.name)
            change(host.name, WRITER)


def created_on(run: RegionRun, since_ms: float) -> dict[int, tuple[BookieId, ...]]:
    """Return the first ensemble of each ledger that was created after a moment."""
    return {
        ledger_id: versions[0].metadata.fragments[0].bookies
        for ledger_id, versions in run._ledger_versions().items()
        if versions[0].at_ms > since_ms and versions[0].metadata is not None
    }


SEEDS = [0, *(pytest.param(number, marks=pytest.mark.long) for number in range(1, 5))]


@pytest.mark.parametrize("number", SEEDS)
def test_segments_avoid_a_region_that_only_this_writer_cannot_reach(number: int) -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 30)
        set_cut(run, "west", is_cut=True)
        began_s = run.world.loop.now
        await run.acks(20, 30)
        while run.world.loop.now < began_s + CUT_S:
            await run.acks(20, 30)
        healed_s = run.world.loop.now
        set_cut(run, "west", is_cut=False)
        found = created_on(run, (began_s + LEARNS_S) * 1000)
        assert len(found) > 8
        regions = run.cluster.regions
        placed = {
            ledger_id: [regions[bookie] for bookie in bookies]
            for ledger_id, bookies in found.items()
        }
        assert not [ledger for ledger, used in placed.items() if "west" in used], placed
        while run.world.loop.now < healed_s + 45:
            await run.acks(20, 30)
        later = created_on(run, (healed_s + 35) * 1000).values()
        assert any("west" in map(regions.get, bookies) for bookies in later), "it is used again"

    run_script(script, plan(f"unreachable {number}", pause_ms=500), repairs=False)


@pytest.mark.parametrize("number", SEEDS)
def test_the_only_legal_layout_is_used_although_it_may_be_unreachable(number: int) -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 30)
        set_cut(run, "west", is_cut=True)
        began_s = run.world.loop.now
        while run.world.loop.now < began_s + 20:
            await run.acks(20, 30)  # R = 2 of three regions holds without the west
        found = created_on(run, (began_s + LEARNS_S) * 1000)
        assert found
        for bookies in found.values():
            assert len({run.cluster.regions[bookie] for bookie in bookies}) == 3
        set_cut(run, "west", is_cut=False)

    legal_in_three = Quorum(5, 5, 3, 2)  # 2 bookies each: five members need every region
    run_script(
        script, plan(f"only legal {number}", quorum=legal_in_three, pause_ms=500), repairs=False
    )
