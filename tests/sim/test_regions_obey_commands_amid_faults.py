"""Commands about regions and bookies at random, among cuts and kills, while streams are written."""

import asyncio
from random import Random

import pytest

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.regions.states import State, States
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_course

STEPS = 14
SPREAD_S = 120.0
STATES = (State.DISALLOWED, State.DRAINED, State.OFFLINE, None, None)
"""What an operator may say; as often as not it is that all is well again."""


async def step(run: RegionRun, random: Random) -> None:
    """One thing happens."""
    region = random.choice(THREE_REGIONS.regions)
    kind = random.choice(["region", "region", "bookie", "cut", "kill", "writer"])
    if kind == "region":
        await run.set_region(region, random.choice(STATES))
    elif kind == "bookie":
        bookie = BookieId(random.choice(sorted(run.cluster.ids.values())))
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
def test_nothing_is_lost_and_afterwards_all_is_spread_again(number: int) -> None:
    async def course(run: RegionRun) -> None:
        random = Random(number)
        await run.acks(30, 15)
        for _ in range(STEPS):
            await step(run, random)
        await run.command(lambda _: States())
        run.write_in("east")
        await run.acks(30, 60)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_course(course, plan(f"amid faults {number}", roll_ms=20_000))
