"""Active writers leave drained regions and bookies, and report under-replication to repair."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.states import REREAD_MS, PlacementState
from rhumbline.tests.sim.test_regions_obey_commands import look, members_in, until_empty
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan, run_script

HOUR_MS = 3_600_000
LEFT_S = REREAD_MS / 1000 + 3.0
"""The documented bound, plus the time to open a segment over simulated links."""
REPAIRED_S = 30.0


async def until_left(run: RegionRun, region: str) -> None:
    """Wait until no ledger that is being written has a member in a region."""

    def is_left() -> bool:
        return not any(
            run.cluster.regions[bookie] == region
            for ledger in run.ledgers()
            if ledger.state is not LedgerState.CLOSED
            for bookie in ledger.last_fragment.bookies
        )

    async with asyncio.timeout(LEFT_S):
        while not is_left():  # noqa: ASYNC110 - observed from outside
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("state", [PlacementState.DRAINED, PlacementState.OFFLINE])
@pytest.mark.parametrize("region", THREE_REGIONS.regions)
def test_a_writer_with_a_long_segment_leaves_a_drained_region_within_the_bound(
    region: str, state: PlacementState
) -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        assert members_in(run, region)
        await run.set_region(region, state)
        await until_left(run, region)
        await until_empty(run, region, REPAIRED_S)
        await run.acks(30, 15)
        assert not members_in(run, region)

    run_script(script, plan(f"leave {state.value} {region}", roll_ms=HOUR_MS))


def test_an_idle_writer_leaves_a_drained_region() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(20, 15)
        run.apps.appends_max = 0
        await asyncio.sleep(5)
        await run.set_region("west", PlacementState.DRAINED)
        await until_left(run, "west")
        await until_empty(run, "west", REPAIRED_S)

    run_script(script, plan("leave at rest", roll_ms=HOUR_MS))


def test_a_drained_bookie_of_an_open_ledger_empties() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        [ledger] = [each for each in run.ledgers() if each.state is LedgerState.OPEN]
        victim = ledger.last_fragment.bookies[0]
        await run.command(lambda states: states.with_bookie(victim, PlacementState.DRAINED))
        async with asyncio.timeout(LEFT_S + REPAIRED_S):
            while not (await look(run, victim)).is_empty:  # noqa: ASYNC110 - an operator polls
                await asyncio.sleep(1)
        await run.acks(30, 15)

    run_script(script, plan("leave a bookie", roll_ms=HOUR_MS))


def test_a_writer_without_another_legal_placement_continues_where_it_is() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        await run.set_region("north", PlacementState.DRAINED)
        await run.acks(200, 60)
        assert members_in(run, "north")
        await run.set_region("north", None)
        await run.acks(50, 15)

    run_script(script, plan("nowhere to go", quorum=Quorum(3, 3, 3, 3), roll_ms=HOUR_MS))


def test_under_replication_reported_by_a_writer_is_repaired_before_the_next_audit() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        [ledger] = [each for each in run.ledgers() if each.state is LedgerState.OPEN]
        away = run.cluster.regions[ledger.last_fragment.bookies[2]]
        run.world.cut_region(away)
        await asyncio.sleep(1.5)  # exceeds a request's time-out, but is too short for a replacement
        run.world.heal_region(away)
        audits = sum(one.statistics()["audits"] for one in run.repairs.values())
        await asyncio.sleep(8)
        await run.whole(regions_min=3, within_s=REPAIRED_S)
        asked = run.asked_for()
        assert any("its writer knows that" in why for why in asked), asked
        assert audits == sum(one.statistics()["audits"] for one in run.repairs.values())

    seldom = replace(REPAIR, audit_interval_ms=HOUR_MS)
    run_script(script, plan("holes", roll_ms=5_000), repair_config=seldom)
