"""Regions and bookies are disallowed, drained and taken offline by command, under load."""

import asyncio

import pytest

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability.cluster_survey import read_cluster, read_index
from rhumbline.regions.durability.losses import lost_bookies
from rhumbline.regions.durability.report import DurabilityReport, tally
from rhumbline.regions.repair.entry_ranges import settled_ranges
from rhumbline.regions.repair.progress import RemainingCopies, count_remaining
from rhumbline.regions.repair.task_store import TaskStore
from rhumbline.regions.states import PlacementState
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan, run_script

RESUME_S = 15.0
SPREAD_S = 60.0
OBEYED_MS = 1_000
"""Time after a command in which a selection of bookies that began earlier may be stored, in ms."""

REGIONS = THREE_REGIONS.regions


def members_in(run: RegionRun, region: str) -> list[BookieId]:
    """Return the bookies of a region that the current metadata of any ledger names."""
    named = [bookie for ledger in run.ledgers() for bookie in ledger.bookies()]
    return [bookie for bookie in dict.fromkeys(named) if run.cluster.regions[bookie] == region]


async def until_empty(run: RegionRun, region: str, within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while members_in(run, region):  # noqa: ASYNC110 - observed from outside
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("region", REGIONS)
def test_a_disallowed_region_gets_no_new_members_and_keeps_its_copies(region: str) -> None:
    async def script(run: RegionRun) -> None:
        run.write_in(next(r for r in REGIONS if r != region))
        await run.acks(100, RESUME_S)
        await run.set_region(region, PlacementState.DISALLOWED)
        closed_ms = run.world.loop.now * 1000
        before = members_in(run, region)
        await run.acks(150, 60)
        await asyncio.sleep(10)
        for ledger_id, bookie in run.members_since(closed_ms + OBEYED_MS):
            assert run.cluster.regions[bookie] != region, f"{bookie} in ledger {ledger_id}"
        assert members_in(run, region) == before
        await run.set_region(region, None)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_script(script, plan(f"close {region}"))


@pytest.mark.parametrize("region", REGIONS)
def test_a_drained_region_empties_while_streams_are_written_and_fills_again(region: str) -> None:
    async def script(run: RegionRun) -> None:
        run.write_in(region)
        await run.acks(100, RESUME_S)
        await run.set_region(region, PlacementState.DRAINED)
        await until_empty(run, region, SPREAD_S)
        await run.acks(30, RESUME_S)
        assert not members_in(run, region)
        await run.set_region(region, None)
        await run.whole(regions_min=3, within_s=SPREAD_S)
        await run.acks(30, RESUME_S)

    run_script(script, plan(f"drain {region}"))


def test_an_offline_region_is_replaced_at_once() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(100, RESUME_S)
        await asyncio.sleep(4)  # every ledger but the last one is closed
        run.world.cut_region("west")
        await run.set_region("west", PlacementState.OFFLINE)
        start = run.world.loop.now
        await run.whole(regions_min=2, within_s=SPREAD_S)
        assert run.world.loop.now - start < REPAIR.lost_after_ms / 1000
        run.world.heal_region("west")
        await run.set_region("west", None)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_script(script, plan("offline"))


def test_a_drained_bookie_empties_and_progress_is_reported() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(150, RESUME_S)
        await asyncio.sleep(5)
        settled = [span for ledger in run.ledgers() for span in settled_ranges(ledger)]
        victim = settled[0].fragment.bookies[0]
        before = await look(run, victim)
        assert before.copies > 0
        assert before.entries > 0
        await run.command(lambda states: states.with_bookie(victim, PlacementState.DRAINED))
        async with asyncio.timeout(SPREAD_S):
            while not (await look(run, victim)).is_empty:  # noqa: ASYNC110 - an operator polls
                await asyncio.sleep(1)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_script(script, plan("drain a bookie"))


async def look(run: RegionRun, bookie: BookieId) -> RemainingCopies:
    found: list[RemainingCopies] = []

    async def ask(host: object) -> None:
        async with run.cluster.client(run.operator) as client:
            found.append(
                await count_remaining(
                    LedgerStore(client.store),
                    client.directory,
                    TaskStore(client.store),
                    lambda one, _: one == bookie,
                )
            )

    await run.as_operator(ask)
    return found[0]


def test_a_drain_without_a_legal_placement_reports_the_reason_and_loses_nothing() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(100, RESUME_S)
        await asyncio.sleep(4)
        await run.set_region("north", PlacementState.DRAINED)
        await asyncio.sleep(10)
        tasks = run.tasks()
        assert tasks
        assert any("no legal place for the copies of bookie-north" in task for task in tasks)
        assert not run.incomplete(regions_min=3), "copies that cannot be moved stay where they are"
        await run.set_region("north", None)
        await run.acks(30, 60)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_script(script, plan("stuck", quorum=Quorum(3, 3, 3, 3)))


def test_exposure_counts_entries_at_risk_by_region() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(200, 30)
        await asyncio.sleep(5)
        found: list[DurabilityReport] = []

        async def ask(host: object) -> None:
            async with run.cluster.client(run.operator) as client:
                index = await read_index(LedgerStore(client.store))
                cluster = await read_cluster(client.directory, index.bookies())
                for names in ((), ("east",), ("east", "north"), ("east", "north", "west")):
                    lost = [bookie for name in names for bookie in lost_bookies(cluster, name)]
                    found.append(tally(index, cluster.without(lost)))

        await run.as_operator(ask)
        now, one, two, three = found
        entries = sum(now.entries.values())
        assert entries > 0
        assert now.ledgers_at_risk() == now.writes_blocked == 0
        assert one.entries_that_may_be_lost() == one.ledgers_that_may_lose() == 0
        assert two.entries_that_may_be_lost() == entries, "any two regions can acknowledge alone"
        assert two.entries_without_copy() == 0, "the third region also has a copy"
        assert three.entries_without_copy() == entries
        assert two.streams_that_may_lose() == ["sim/stream"]
        audits = [service.statistics() for service in run.repairs.values()]
        [auditor] = [audit for audit in audits if audit["auditor"]]
        assert auditor["entries_at_risk"] == {"east": 0, "north": 0, "west": 0}
        assert auditor["durability"]["known"]
        assert auditor["durability"]["ledgers"]["whole"]["open"] >= 1
        for service in run.repairs.values():
            if not service.is_auditor:
                assert service.statistics()["durability"] == {"known": False}

    run_script(script, plan("exposure"))


def test_another_process_takes_over_from_a_dead_auditor() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(100, RESUME_S)
        names = [name for name, one in run.repairs.items() if one.is_auditor]
        run.world.hosts[names[0]].kill()
        run.destroy("north")
        await run.acks(50, RESUME_S)
        await asyncio.sleep(REPAIR.lost_after_ms / 1000)
        await run.whole(regions_min=2, within_s=SPREAD_S)
        run.world.heal_region("north")

    run_script(script, plan("auditor dies"))
