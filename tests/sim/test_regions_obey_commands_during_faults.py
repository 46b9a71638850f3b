"""Random commands about regions and bookies, with cuts and kills, while a stream is written."""

import asyncio
from random import Random

import pytest

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.regions.states import PlacementState, PlacementStates
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

STEPS = 14
SPREAD_S = 120.0
STATES = (PlacementState.DISALLOWED, PlacementState.DRAINED, PlacementState.OFFLINE, None, None)
"""The states that an operator may set; None, which restores the normal state, is more frequent."""


async def step(run: RegionRun, random: Random) -> None:
    """Perform one random command or fault."""
    region = random.choice(THREE_REGIONS.regions)
    kind = random.choice(["region", "region", "bookie", "cut", "kill", "writer"])
    if kind == "region":
        await run.set_region(region, random.choice(STATES))
    elif kind == "bookie":
        bookie = BookieId(random.choice(sorted(run.cluster.bookie_ids.values())))
        state = random.choice(STATES)
        await run.command(lambda states: states.with_bookie(bookie, state))
    elif kind == "cut":
        run.world.cut_region(region)
        await asyncio.sleep(random.uniform(0.2, 4))
        run.world.heal_region(region)
    elif kind == "kill":
        host = random.choice(run.cluster.bookie_hosts)
        host.kill()
        await asyncio.sleep(random.uniform(0.1, 3))
        host.start_again()
    else:
        run.write_in(region)
    await asyncio.sleep(random.uniform(0.2, 4))


@pytest.mark.parametrize("number", range(6))
def test_nothing_is_lost_and_copies_are_spread_again_afterwards(number: int) -> None:
    async def script(run: RegionRun) -> None:
        random = Random(number)
        await run.acks(30, 15)
        for _ in range(STEPS):
            await step(run, random)
        await run.command(lambda _: PlacementStates())
        run.write_in("east")
        await run.acks(30, 60)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_script(script, plan(f"amid faults {number}", roll_ms=20_000))
