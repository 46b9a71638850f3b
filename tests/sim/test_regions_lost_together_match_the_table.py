"""For each quorum and each set of lost regions, the simulated outcome equals the planner's
prediction.

The runs create the worst case: before the loss the other regions are cut off and the metadata store
is unavailable, so that the lost regions acknowledge whatever they can alone. Then they are
destroyed for good. Data survives, ends are decidable and writes resume exactly as predicted, and an
end that cannot be decided is never decided wrongly.
"""

import asyncio
from dataclasses import replace
from itertools import combinations

import pytest

from rhumbline.chaos.checker.judge import judge
from rhumbline.chaos.simulation.world.sim_world import SimTopology as SimTopology
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.placement.planner import Loss, after_loss
from rhumbline.placement.topology import Topology
from rhumbline.tests.support.simulation.region_run import RegionRun, plan

REGIONS = ("a", "b", "c")
WITH_META = SimTopology(
    regions=(*REGIONS, "meta"),
    delays_ms=tuple((x, y, 10.0) for x, y in combinations((*REGIONS, "meta"), 2)),
    metadata_regions=("meta",),
)
ON_PAPER = Topology(dict.fromkeys(REGIONS, 2), None, metadata_regions=("meta",))

SETTINGS = [
    pytest.param(Quorum(3, 3, 2, 1), marks=pytest.mark.long),
    Quorum(3, 3, 2, 2),
    pytest.param(Quorum(3, 3, 3, 2), marks=pytest.mark.long),
    Quorum(3, 3, 3, 3),
    pytest.param(Quorum(4, 4, 3, 2), marks=pytest.mark.long),
    pytest.param(Quorum(6, 3, 2, 2), marks=pytest.mark.long),
    pytest.param(Quorum(6, 6, 4, 2), marks=pytest.mark.long),
    Quorum(6, 4, 3, 3),
]
LOSSES = [lost for size in (1, 2) for lost in combinations(REGIONS, size)]


async def worst_case(run: RegionRun, lost: tuple[str, ...]) -> tuple[Loss, bool, bool]:
    """Return the prediction, whether ``lost`` acknowledged alone, and whether writes resumed."""
    await run.cluster.bootstrap()
    for host in run.cluster.app_hosts:
        run.apps.start(host, reads=False)
    run.write_in(lost[0])
    await run.acks(20, 20)
    [ledger] = run.ledgers()
    regions = [run.cluster.regions[bookie] for bookie in ledger.last_fragment.bookies]
    view = QuorumView(ledger.quorum_at(0), regions)
    expected = after_loss(ON_PAPER, view, lost)

    run.world.metadata.health.is_down = True
    others = [region for region in REGIONS if region not in lost]
    for region in others:
        run.world.cut_region(region)
    await asyncio.sleep(1)
    before = run.apps.acked
    await asyncio.sleep(4)
    alone = run.apps.acked > before

    for region in lost:
        run.destroy(region)
    for region in others:
        run.world.heal_region(region)
    run.world.metadata.health.is_down = False
    run.write_in(others[0])
    before = run.apps.acked
    await asyncio.sleep(60)
    return expected, alone, run.apps.acked > before


@pytest.mark.parametrize("quorum", SETTINGS, ids=str)
def test_simulated_losses_match_the_planner(quorum: Quorum) -> None:
    for lost in LOSSES:
        setting = plan(f"{quorum} {lost}", topology=WITH_META, quorum=quorum, roll_ms=3_600_000)
        setting = replace(setting, bookies_by_region=(2, 2, 2, 0))
        with SimWorld(setting.seed, setting.topology) as world:
            run = RegionRun(world, setting, repairs=False)
            expected, alone, resumed = world.run(worst_case(run, lost))
            assert alone == (not expected.data_survives), (lost, expected)
            assert expected.end_decidable == expected.data_survives
            assert resumed == expected.writes_resume, (lost, expected)
            first = run.ledgers()[0]
            if not expected.data_survives:
                assert first.state is not LedgerState.CLOSED, "unavailable, and not wrong"
            assert [str(violation) for violation in judge(run.record())] == []
