"""Open segments whose writer is gone are taken over, and those of live writers are left to them."""

import asyncio

import pytest

from rhumbline.chaos.simulation.cluster import until
from rhumbline.chaos.simulation.workload.workload import NO_WRITER
from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.states import PlacementState
from rhumbline.tests.sim.test_regions_obey_commands import look, members_in, until_empty
from rhumbline.tests.support.simulation.region_run import REPAIR, RegionRun, plan, run_script

HOUR_MS = 3_600_000
ENDED_S = 30.0
"""Time for an audit, the grace time, a takeover and the copies."""


def writer_host(run: RegionRun) -> SimHost:
    """Return the host of the active writer."""
    return next(host for host in run.cluster.app_hosts if host.name == run.apps.active_writer)


def open_ledger(run: RegionRun) -> LedgerMetadata:
    """Return the only open ledger."""
    [ledger] = [each for each in run.ledgers() if each.state is LedgerState.OPEN]
    return ledger


def ended(run: RegionRun) -> int:
    """Return the number of takeovers by repair."""
    return sum(service.statistics()["ownerless_ended"] for service in run.repairs.values())


async def lose_writer(run: RegionRun) -> None:
    """Kill the writer's process while the stream is idle; nobody writes it any more."""
    host = writer_host(run)
    run.cluster.writers_are_idle = True
    await asyncio.sleep(5)
    run.apps.active_writer = NO_WRITER
    host.kill()
    run.cluster.writers_are_idle = False


@pytest.mark.parametrize("loss", ["drained", "lost"])
def test_an_idle_stream_without_a_writer_is_repaired(loss: str) -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        ledger = open_ledger(run)
        await lose_writer(run)
        victim = ledger.last_fragment.bookies[1]
        if loss == "drained":
            await run.command(lambda states: states.with_bookie(victim, PlacementState.DRAINED))
        else:
            host = next(
                h for h in run.cluster.bookie_hosts if run.cluster.bookie_ids[h.name] == victim
            )
            run.cluster.mark_damaged(host)
            host.wipe()
        async with asyncio.timeout(REPAIR.lost_after_ms / 1000 + ENDED_S):
            while run.tasks() or not (await look(run, victim)).is_empty:  # noqa: ASYNC110
                await asyncio.sleep(1)
        assert ended(run) == 1

    run = run_script(script, plan(f"ownerless {loss}", roll_ms=HOUR_MS))
    lines = [r for r in run.world.log.records if r.__dict__["event"] == "writer presumed dead"]
    fields = [line.__dict__["event_fields"] for line in lines]
    assert [(f["stream"], f["grace_ms"]) for f in fields] == [("stream", REPAIR.ownerless_grace_ms)]


def test_a_region_drains_although_the_writer_of_an_idle_stream_is_gone() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        await lose_writer(run)
        await run.set_region("west", PlacementState.DRAINED)
        await until_empty(run, "west", ENDED_S)
        assert ended(run) == 1

    run_script(script, plan("ownerless region", roll_ms=HOUR_MS))


def test_an_idle_writer_that_is_alive_moves_on_by_itself_when_a_bookie_is_lost() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        victim = open_ledger(run).last_fragment.bookies[1]
        run.cluster.writers_are_idle = True
        await asyncio.sleep(5)
        host = next(h for h in run.cluster.bookie_hosts if run.cluster.bookie_ids[h.name] == victim)
        run.cluster.mark_damaged(host)
        host.wipe()
        sessions = run.history.session_count
        async with asyncio.timeout(REPAIR.lost_after_ms / 1000 + ENDED_S):
            while not (await look(run, victim)).is_empty:  # noqa: ASYNC110 - an operator polls
                await asyncio.sleep(1)
        run.cluster.writers_are_idle = False
        await run.acks(30, 15)
        assert run.history.session_count == sessions, "the writer kept its stream"
        assert ended(run) == 0

    run_script(script, plan("idle and alive", roll_ms=HOUR_MS))


def test_a_live_writer_without_another_legal_placement_keeps_its_stream_and_says_why() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        run.cluster.writers_are_idle = True
        await asyncio.sleep(5)
        sessions = run.history.session_count
        await run.set_region("north", PlacementState.DRAINED)
        await asyncio.sleep(10 * REPAIR.ownerless_grace_ms / 1000)
        assert ended(run) == 0
        assert any("no legal ensemble elsewhere" in task for task in run.tasks()), run.tasks()
        assert members_in(run, "north")
        await run.set_region("north", None)
        run.cluster.writers_are_idle = False
        await run.acks(30, 15)
        assert run.history.session_count == sessions

    run_script(script, plan("alive, nowhere to go", quorum=Quorum(3, 3, 3, 3), roll_ms=HOUR_MS))


def test_a_writer_that_sleeps_through_its_takeover_finds_itself_fenced() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        host = writer_host(run)
        victim = open_ledger(run).last_fragment.bookies[1]
        sessions = run.history.session_count
        host.pause()
        await run.command(lambda states: states.with_bookie(victim, PlacementState.DRAINED))
        async with asyncio.timeout(ENDED_S):
            await until(lambda: ended(run) == 1)
        host.resume()
        await run.acks(50, 60)
        assert run.history.session_count > sessions, "it had to open the stream again"

    run_script(script, plan("asleep", roll_ms=HOUR_MS))


def test_too_few_responding_bookies_say_nothing_about_the_writer() -> None:
    async def script(run: RegionRun) -> None:
        await run.acks(50, 15)
        victims = open_ledger(run).last_fragment.bookies[1:]
        await lose_writer(run)
        hosts = [h for h in run.cluster.bookie_hosts if run.cluster.bookie_ids[h.name] in victims]
        for host in hosts:
            host.kill()
        await asyncio.sleep(REPAIR.lost_after_ms / 1000 + 5 * REPAIR.ownerless_grace_ms / 1000)
        assert ended(run) == 0
        assert any("do not respond" in task for task in run.tasks()), run.tasks()
        for host in hosts:
            host.start_again()
        await run.whole(regions_min=3, within_s=60)

    run_script(script, plan("unanswered", roll_ms=HOUR_MS))
