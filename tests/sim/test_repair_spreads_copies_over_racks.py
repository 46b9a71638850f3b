"""When a rack returns, repair moves copies to it that shared another rack meanwhile (RPR-8)."""

import asyncio

from rhumbline.chaos.simulation.cluster import Fault, until
from rhumbline.chaos.simulation.faults.faults import begin
from rhumbline.chaos.simulation.world.sim_world import SimWorld
from rhumbline.core.protocol.placement import shared_copies
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.regions.repair.entry_ranges import settled_ranges
from rhumbline.tests.support.simulation.region_run import RegionRun, plan
from rhumbline.tests.support.simulation.scripted_run import play_and_check


def crowded(run: RegionRun) -> list[int]:
    """Return the ledgers with a settled fragment of which two copies are in one rack."""
    paths = {
        bookie.bookie_id: (host.region, None, host.rack, host.name)
        for host in run.cluster.bookie_hosts
        if (bookie := run.cluster.bookies.get(host.name)) is not None
    }
    return [
        metadata.ledger_id
        for metadata in run.ledgers()
        for found in settled_ranges(metadata)
        if any(shared_copies(found.quorum, [paths[b] for b in found.fragment.bookies])[1:])
    ]


def test_copies_leave_a_shared_rack_when_another_one_is_back() -> None:
    async def script(run: RegionRun) -> None:
        returning = [host.name for host in run.cluster.bookie_hosts if host.rack == "r2"]
        for name in returning:
            begin(run.cluster, Fault("kill", name, 0, 40_000))
        await run.acks(100, 60)
        async with asyncio.timeout(120):
            await until(lambda: len(crowded(run)) >= 3, every_s=0.5)
            await until(lambda: all(run.cluster.bookies[name] for name in returning), every_s=0.5)
            await until(lambda: run.world.loop.now > 45, every_s=0.5)
            await until(lambda: not crowded(run), every_s=0.5)
        await run.whole(regions_min=3, within_s=60)
        assert any("can be spread better" in task for task in run.asked_for())

    settings = plan("racks", quorum=Quorum(4, 4, 3, 2), each=3)
    with SimWorld(settings.seed, settings.topology) as world:
        run = RegionRun(world, settings)
        for host in run.cluster.bookie_hosts:
            host.rack = "r2" if host.name.endswith("-2") else "r0"
        play_and_check(world, run, script, time_limit_s=600)
