"""Writers leave what is drained by themselves, and what they know to be missing reaches repair."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.states import REREAD_MS, State
from rhumbline.tests.sim.test_regions_obey_commands import look, members_in, until_empty
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan, run_course

HOUR_MS = 3_600_000
LEFT_S = REREAD_MS / 1000 + 3.0
"""The stated bound, and what the next segment takes over simulated links."""
MENDED_S = 30.0


async def until_left(run: RegionRun, region: str) -> None:
    """Until no ledger that is being written has a member in a region."""

    def is_left() -> bool:
        return not any(
            run.cluster.regions[bookie] == region
            for ledger in run.ledgers()
            if ledger.state is not LedgerState.CLOSED
            for bookie in ledger.last_fragment.bookies
        )

    async with asyncio.timeout(LEFT_S):
        while not is_left():  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("state", [State.DRAINED, State.OFFLINE])
@pytest.mark.parametrize("region", THREE_REGIONS.regions)
def test_a_writer_that_would_roll_in_an_hour_leaves_within_the_bound(
    region: str, state: State
) -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(50, 15)
        assert members_in(run, region)
        await run.set_region(region, state)
        await until_left(run, region)
        await until_empty(run, region, MENDED_S)
        await run.acks(30, 15)
        assert not members_in(run, region)

    run_course(course, plan(f"leave {state.value} {region}", roll_ms=HOUR_MS))


def test_a_writer_at_rest_leaves_too() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(20, 15)
        run.apps.wanted = 0
        await asyncio.sleep(5)
        await run.set_region("west", State.DRAINED)
        await until_left(run, "west")
        await until_empty(run, "west", MENDED_S)

    run_course(course, plan("leave at rest", roll_ms=HOUR_MS))


def test_a_drained_bookie_of_a_live_ensemble_empties() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(50, 15)
        [ledger] = [one for one in run.ledgers() if one.state is LedgerState.OPEN]
        victim = ledger.last_fragment.bookies[0]
        await run.command(lambda states: states.with_bookie(victim, State.DRAINED))
        async with asyncio.timeout(LEFT_S + MENDED_S):
            while not (await look(run, victim)).is_empty:  # noqa: ASYNC110 - an operator looks
                await asyncio.sleep(1)
        await run.acks(30, 15)

    run_course(course, plan("leave a bookie", roll_ms=HOUR_MS))


def test_a_writer_without_a_legal_place_elsewhere_goes_on_where_it_is() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(50, 15)
        await run.set_region("north", State.DRAINED)
        await run.acks(200, 60)
        assert members_in(run, "north")
        await run.set_region("north", None)
        await run.acks(50, 15)

    run_course(course, plan("nowhere to go", quorum=Quorum(3, 3, 3, 3), roll_ms=HOUR_MS))


def test_what_a_writer_knows_to_be_missing_is_mended_though_no_audit_is_due() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(50, 15)
        [ledger] = [one for one in run.ledgers() if one.state is LedgerState.OPEN]
        away = run.cluster.regions[ledger.last_fragment.bookies[2]]
        run.world.cut_region(away)
        await asyncio.sleep(1.5)  # longer than a request may take, too short to be replaced
        run.world.heal_region(away)
        looks = sum(one.statistics()["looks"] for one in run.repairs.values())
        await asyncio.sleep(8)
        await run.whole(regions_min=3, within_s=MENDED_S)
        asked = run.asked_for()
        assert any("its writer knows that" in why for why in asked), asked
        assert looks == sum(one.statistics()["looks"] for one in run.repairs.values())

    seldom = replace(REPAIR, audit_interval_ms=HOUR_MS)
    run_course(course, plan("holes", roll_ms=5_000), repair_config=seldom)
