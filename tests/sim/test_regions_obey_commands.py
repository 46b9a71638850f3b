"""Regions and bookies drained, closed, given up and taken back by command, under load."""

import asyncio

import pytest

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.durability import Exposure, exposures
from rhumbline.regions.repair.entry_ranges import settled_spans
from rhumbline.regions.repair.progress import Remaining, remaining
from rhumbline.regions.repair.task_store import TaskStore
from rhumbline.regions.states import State
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan, run_course

RESUME_S = 15.0
SPREAD_S = 60.0
OBEYED_MS = 1_000
"""A choice of bookies that had begun before a command may be recorded so much later."""

REGIONS = THREE_REGIONS.regions


def members_in(run: RegionRun, region: str) -> list[BookieId]:
    """Members of settled and open fragments that lie in a region, as metadata stands now."""
    named = [bookie for ledger in run.ledgers() for bookie in ledger.bookies()]
    return [bookie for bookie in dict.fromkeys(named) if run.cluster.regions[bookie] == region]


async def until_empty(run: RegionRun, region: str, within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while members_in(run, region):  # noqa: ASYNC110 - seen from outside
            await asyncio.sleep(0.5)


@pytest.mark.parametrize("region", REGIONS)
def test_a_closed_region_gets_no_new_member_and_what_is_there_stays(region: str) -> None:
    async def course(run: RegionRun) -> None:
        run.write_in(next(r for r in REGIONS if r != region))
        await run.acks(100, RESUME_S)
        await run.set_region(region, State.DISALLOWED)
        closed_ms = run.world.loop.now * 1000
        before = members_in(run, region)
        await run.acks(150, 60)
        await asyncio.sleep(10)
        for ledger_id, bookie in run.members_since(closed_ms + OBEYED_MS):
            assert run.cluster.regions[bookie] != region, f"{bookie} in ledger {ledger_id}"
        assert members_in(run, region) == before
        await run.set_region(region, None)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_course(course, plan(f"close {region}"))


@pytest.mark.parametrize("region", REGIONS)
def test_a_drained_region_empties_while_streams_are_written_and_fills_again(region: str) -> None:
    async def course(run: RegionRun) -> None:
        run.write_in(region)
        await run.acks(100, RESUME_S)
        await run.set_region(region, State.DRAINED)
        await until_empty(run, region, SPREAD_S)
        await run.acks(30, RESUME_S)
        assert not members_in(run, region)
        await run.set_region(region, None)
        await run.whole(regions_min=3, within_s=SPREAD_S)
        await run.acks(30, RESUME_S)

    run_course(course, plan(f"drain {region}"))


def test_a_region_given_up_by_command_is_repaired_around_at_once() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(100, RESUME_S)
        await asyncio.sleep(4)  # every ledger but the last one is closed
        run.world.cut_region("west")
        await run.set_region("west", State.OFFLINE)
        start = run.world.loop.now
        await run.whole(regions_min=2, within_s=SPREAD_S)
        assert run.world.loop.now - start < REPAIR.lost_after_ms / 1000
        run.world.heal_region("west")
        await run.set_region("west", None)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_course(course, plan("offline"))


def test_a_drained_bookie_empties_and_the_progress_is_told() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(150, RESUME_S)
        await asyncio.sleep(5)
        settled = [span for ledger in run.ledgers() for span in settled_spans(ledger)]
        victim = settled[0].fragment.bookies[0]
        before = await look(run, victim)
        assert before.copies > 0
        assert before.entries > 0
        await run.command(lambda states: states.with_bookie(victim, State.DRAINED))
        async with asyncio.timeout(SPREAD_S):
            while not (await look(run, victim)).is_empty:  # noqa: ASYNC110 - an operator looks
                await asyncio.sleep(1)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_course(course, plan("drain a bookie"))


async def look(run: RegionRun, bookie: BookieId) -> Remaining:
    found: list[Remaining] = []

    async def ask(host: object) -> None:
        async with run.cluster.client(run.operator) as client:
            found.append(
                await remaining(
                    LedgerStore(client.store),
                    client.directory,
                    TaskStore(client.store),
                    lambda one, _: one == bookie,
                )
            )

    await run.as_operator(ask)
    return found[0]


def test_a_drain_without_a_legal_place_is_stuck_with_the_reason_and_loses_nothing() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(100, RESUME_S)
        await asyncio.sleep(4)
        await run.set_region("north", State.DRAINED)
        await asyncio.sleep(10)
        tasks = run.tasks()
        assert tasks
        assert any("no legal place for the copies of bookie-north" in task for task in tasks)
        assert not run.incomplete(regions_min=3), "what cannot go stays where it is"
        await run.set_region("north", None)
        await run.acks(30, 60)
        await run.whole(regions_min=3, within_s=SPREAD_S)

    run_course(course, plan("stuck", quorum=Quorum(3, 3, 3, 3)))


def test_exposure_counts_what_hangs_on_regions() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(200, 30)
        await asyncio.sleep(5)
        found: list[Exposure] = []

        async def ask(host: object) -> None:
            async with run.cluster.client(run.operator) as client:
                losses = [["east"], ["east", "north"], ["east", "north", "west"]]
                ledgers = LedgerStore(client.store)
                found.extend(await exposures(ledgers, client.directory, losses))

        await run.as_operator(ask)
        one, two, three = found
        assert one.entries > 0
        assert one.entries_at_risk == one.entries_lost == one.ledgers_at_risk == 0
        assert two.entries_at_risk == two.entries, "any two regions may have acknowledged alone"
        assert two.entries_lost == 0, "the third one has a copy, too"
        assert three.entries_lost == three.entries
        assert list(two.streams_at_risk) == ["sim/stream"]
        audits = [service.statistics() for service in run.repairs.values()]
        [auditor] = [audit for audit in audits if audit["auditor"]]
        assert auditor["entries_at_risk"] == {"east": 0, "north": 0, "west": 0}

    run_course(course, plan("exposure"))


def test_the_auditors_work_goes_on_in_another_process_when_it_dies() -> None:
    async def course(run: RegionRun) -> None:
        await run.acks(100, RESUME_S)
        names = [name for name, one in run.repairs.items() if one.is_auditor]
        run.world.hosts[names[0]].kill()
        run.destroy("north")
        await run.acks(50, RESUME_S)
        await asyncio.sleep(REPAIR.lost_after_ms / 1000)
        await run.whole(regions_min=2, within_s=SPREAD_S)
        run.world.heal_region("north")

    run_course(course, plan("auditor dies"))
