"""Copies of closed ledgers move to bookies that hold nothing, by order, while writers continue."""

import asyncio
from collections import Counter
from functools import partial

from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS, SimHost
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.regions.rebalance.order_store import (
    OrderStore,
    RebalanceOrder,
    RebalanceProgress,
    RebalanceStatus,
)
from rhumbline.regions.repair.entry_ranges import estimate_bytes, settled_ranges
from rhumbline.regions.states import PlacementState, PlacementStates
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

REGIONS = THREE_REGIONS.regions


def bytes_by_bookie(run: RegionRun) -> Counter[str]:
    """Return the bytes of closed ledgers by the bookies that the metadata names."""
    found: Counter[str] = Counter()
    for metadata in run.ledgers():
        if metadata.state is not LedgerState.CLOSED:
            continue
        for entry_range in settled_ranges(metadata):
            for bookie in entry_range.fragment.bookies:
                found[bookie] += estimate_bytes(metadata, entry_range.count)
    return found


async def set_states(run: RegionRun, names: list[str], state: PlacementState | None) -> None:
    for name in names:
        bookie = BookieId(run.cluster.bookie_ids[name])
        await run.command(partial(_with_state, bookie=bookie, state=state))


def _with_state(
    states: PlacementStates, bookie: BookieId, state: PlacementState | None
) -> PlacementStates:
    return states.with_bookie(bookie, state)


async def give(run: RegionRun, order: RebalanceOrder) -> None:
    async def work(host: SimHost) -> None:
        async with run.cluster.client(host) as client:
            await OrderStore(client.store).order(order)

    await run.as_operator(work)


async def change(run: RegionRun, before: RebalanceStatus, after: RebalanceStatus) -> None:
    async def work(host: SimHost) -> None:
        async with run.cluster.client(host) as client:
            await OrderStore(client.store).change(before, after)

    await run.as_operator(work)


async def look(run: RegionRun) -> tuple[RebalanceOrder | None, RebalanceProgress | None]:
    found: list[tuple[RebalanceOrder | None, RebalanceProgress | None]] = []

    async def work(host: SimHost) -> None:
        async with run.cluster.client(host) as client:
            orders = OrderStore(client.store)
            found.append((await orders.read(), await orders.read_progress()))

    await run.as_operator(work)
    return found[0]


async def until_done(run: RegionRun, within_s: float) -> RebalanceProgress:
    async with asyncio.timeout(within_s):
        while True:
            order, progress = await look(run)
            if order is not None and order.status is RebalanceStatus.DONE:
                assert progress is not None
                return progress
            await asyncio.sleep(1)


async def until_moved(run: RegionRun, within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while True:
            _, progress = await look(run)
            if progress is not None and progress.moved_copies:
                return
            await asyncio.sleep(0.5)


def order(bytes_per_second: int = 10_000_000) -> RebalanceOrder:
    return RebalanceOrder(RebalanceStatus.RUNNING, bytes_per_second, 20, 1)


def test_new_bookies_are_filled_and_every_copy_stays_readable() -> None:
    new = [f"bookie-{region}-2" for region in REGIONS]

    async def script(run: RegionRun) -> None:
        await set_states(run, new, PlacementState.DISALLOWED)
        await run.acks(400, 120)
        ids = [run.cluster.bookie_ids[name] for name in new]
        held = bytes_by_bookie(run)
        assert sum(held[bookie] for bookie in ids) < 0.2 * held.total(), "those from before"
        await set_states(run, new, None)
        await give(run, order())
        progress = await until_done(run, 120)
        assert progress.moved_copies > 0
        assert progress.left_copies == 0
        assert progress.failed_moves == 0
        held = bytes_by_bookie(run)
        for region in REGIONS:
            shares = [held[b] for b, where in run.cluster.regions.items() if where == region]
            assert min(shares) > 0.4 * sum(shares) / len(shares), shares
        await run.acks(50, 30)
        await run.whole(regions_min=3, within_s=60)

    run_script(script, plan("rebalance", each=3, roll_ms=1_000))


def test_an_order_is_paused_resumed_and_survives_its_executor_and_faults() -> None:
    new = [f"bookie-{region}-2" for region in REGIONS]

    async def script(run: RegionRun) -> None:
        await set_states(run, new, PlacementState.DISALLOWED)
        await run.acks(400, 120)
        await set_states(run, new, None)
        await give(run, order(bytes_per_second=300))  # slow, so that it can be interrupted
        await until_moved(run, 60)
        await change(run, RebalanceStatus.RUNNING, RebalanceStatus.PAUSED)
        await asyncio.sleep(5)  # the move that was under way ends
        stopped = bytes_by_bookie(run)
        moved = (await look(run))[1]
        await asyncio.sleep(10)
        found = (await look(run))[1]
        assert moved is not None and found is not None
        assert found.moved_copies == moved.moved_copies
        ids = [run.cluster.bookie_ids[name] for name in new]
        assert any(stopped[bookie] for bookie in ids)
        await give(run, order())
        for host in run.repair_hosts:  # whoever executes it
            host.kill("dies")
            host.start(run._repair)
            await asyncio.sleep(1)
        run.cluster.world.cut_region(REGIONS[2])
        await asyncio.sleep(3)
        run.cluster.world.heal_region(REGIONS[2])
        await until_done(run, 240)
        await run.whole(regions_min=3, within_s=60)

    run_script(script, plan("rebalance and faults", each=3, roll_ms=1_000))
