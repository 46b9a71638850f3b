"""An operator closes a ledger at its provable end; the bookies that were missing come back."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.chaos.simulation.cluster import STREAM
from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS, SimHost
from rhumbline.core.protocol.errors import RecoveryIncompleteError
from rhumbline.core.protocol.recovery import ProvableEnd, provable_end_of
from rhumbline.tests.support.simulation.region_run import RegionRun, has_copy, plan, run_script

HOME, SECOND, THIRD = THREE_REGIONS.regions


@pytest.mark.parametrize("number", range(3))
def test_entries_of_returned_bookies_beyond_the_end_are_never_served(number: int) -> None:
    """Only the lost region ever held the newest entries, which were not acknowledged. The checker
    verifies that all readers agree and that nothing beyond the end is read."""
    found: list[ProvableEnd] = []

    async def script(run: RegionRun) -> None:
        run.write_in(HOME)
        await run.acks(30, 15)
        at_home = [host for host in run.cluster.bookie_hosts if host.region == HOME]
        run.world.cut_region(THIRD)
        for host in at_home:
            host.kill("its region loses power")
        await asyncio.sleep(1.5)  # the writer reaches one region, so nothing is acknowledged
        app = next(host for host in run.cluster.app_hosts if host.region == HOME)
        app.kill("its region loses power")
        run.world.cut_region(SECOND)
        for host in at_home:
            host.start_again()
        await asyncio.sleep(5)
        await run.as_operator(decide)
        app.start_again()
        await run.acks(30, 60)
        run.world.heal_everything()
        await asyncio.sleep(5)
        await run.acks(30, 60)
        closed = [m for m in run.ledgers() if provable_end_of(m.custom) is not None]
        assert len(closed) == 1
        beyond = closed[0].last_entry_id + 1
        storages = [bookie.storage for bookie in run.cluster.bookies.values()]
        assert any(has_copy(storage, closed[0].ledger_id, beyond) for storage in storages)

    async def decide(host: SimHost) -> None:
        cluster = runs[0].cluster
        await cluster.set_min_regions(host, "stream", 1)
        async with cluster.client(host) as client:
            with pytest.raises(RecoveryIncompleteError):
                await client.namespace.take_over(STREAM)

            async def confirm(end: ProvableEnd) -> ProvableEnd:
                found.append(end)
                return replace(end, reason="two regions are lost")

            await client.namespace.take_over(STREAM, confirm)
            known = await client.namespace.describe(STREAM)
        assert "two regions are lost" in known.segments[-1].doubt
        assert known.segments[-1].is_completed

    runs: list[RegionRun] = []

    async def remembered(run: RegionRun) -> None:
        runs.append(run)
        await script(run)

    topology = replace(THREE_REGIONS, metadata_regions=(HOME,))
    chosen = plan(f"provable end {number}", topology=topology, each=3)
    run_script(remembered, chosen, repairs=False)
    assert found
