"""A bookie in limbo that cannot fetch entries gets them from repair, and then leaves limbo."""

import asyncio

from rhumbline.chaos.simulation.cluster import Fault, until
from rhumbline.chaos.simulation.faults.faults import begin
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

DOWN_MS = 500


async def restart(run: RegionRun, kind: str, name: str) -> Bookie:
    """Begin a fault that stops a bookie, and return the bookie that serves afterwards."""
    before = run.cluster.bookies[name]
    begin(run.cluster, Fault(kind, name, 0, DOWN_MS))
    async with asyncio.timeout(30):
        await until(lambda: run.cluster.bookies[name] is not before)
    return run.cluster.bookies[name]


def test_repair_writes_the_missing_entries_and_the_limbo_ends() -> None:
    async def script(run: RegionRun) -> None:
        name = run.cluster.bookie_hosts[0].name
        await run.acks(100, 60)
        begin(run.cluster, Fault("back-up", name, 0))
        await run.acks(100, 60)
        bookie = await restart(run, "restore", name)
        bookie.scrubber.fetch = None
        assert bookie.storage.states.limbo.is_active
        run.write_in("west")  # the ledger that names the bookie is closed
        async with asyncio.timeout(120):
            await until(lambda: not bookie.storage.states.limbo.is_active)
        await run.whole(regions_min=2, within_s=60)
        assert bookie.limbo.restored_count == 0
        assert any("lacks entries" in task for task in run.asked_for())

    run_script(script, plan("limbo ends", quorum=Quorum(3, 3, 2, 2)))
