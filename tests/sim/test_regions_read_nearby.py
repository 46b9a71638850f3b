"""Reads stay in the region, avoid paused and slow replicas, and cost few extra requests."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from rhumbline.chaos.simulation.workload.workload import NO_WRITER
from rhumbline.chaos.simulation.world.sim_world import SimHost
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import check_region
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.regions.region_reads import ReadSettings, RegionReads
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.regions.traffic import traffic_by_region
from rhumbline.tests.support.simulation.region_run import RegionRun, plan, run_script

READS = 500


@dataclass
class Reading:
    """What one reader measured: sorted latencies in ms, and the counters of its policy."""

    latencies_ms: list[float]
    reads: RegionReads
    traffic: dict[tuple[str, str], int]

    def quantile(self, share: float) -> float:
        return self.latencies_ms[min(int(share * len(self.latencies_ms)), READS - 1)]

    @property
    def extra_share(self) -> float:
        return self.reads.counts.extra / self.reads.counts.reads


async def read_entries(
    run: RegionRun,
    region: str,
    before: Callable[[], Awaitable[None]],
    settings: ReadSettings | None = None,
) -> Reading:
    """Open the first closed ledger in a process in ``region``, call ``before``, then read."""
    found: list[Reading] = []

    async def work(host: SimHost) -> None:
        runtime, store = host.runtime(), host.metadata()
        directory = SteeredDirectory(store)
        reads = RegionReads(
            check_region(region), runtime.random, settings, rack_of=directory.rack_of
        )
        client = LedgerClient(
            runtime,
            LedgerStore(store),
            directory,
            RegionAwarePlacement(),
            LedgerConfig(request_timeout_ms=1000),
            check_region(region),
            reads=reads,
        )
        async with client:
            [ledger, *_] = [each for each in run.ledgers() if each.state is LedgerState.CLOSED]
            reader = await client.open(ledger.ledger_id)
            for entry_id in range(40):  # warm-up: connects and measures
                await reader.read(entry_id % (ledger.last_entry_id + 1), ledger.last_entry_id)
                await reader.read(0, 0)
            await before()
            latencies = []
            loop = asyncio.get_running_loop()
            for number in range(READS):
                entry_id = number % (ledger.last_entry_id + 1)
                start = loop.time()
                [entry] = await reader.read(entry_id, entry_id)
                assert entry.entry_id == entry_id
                latencies.append((loop.time() - start) * 1000)
                await asyncio.sleep(0.02)
            await reader.aclose()
            traffic = await traffic_by_region(client.traffic(), directory, check_region(region))
            found.append(Reading(sorted(latencies), reads, traffic))

    host = run.world.host(f"reader-{region}-{len(run.world.hosts)}", region)
    host.start(_idle)
    await host.spawn(work(host), "read")
    host.kill("has read")
    return found[0]


async def _idle(host: SimHost) -> None:
    await asyncio.Event().wait()


async def nothing() -> None:
    pass


def local_host(run: RegionRun, region: str) -> SimHost:
    """Return the host of the region's replica of the first closed ledger."""
    [ledger, *_] = [each for each in run.ledgers() if each.state is LedgerState.CLOSED]
    [local] = [b for b in ledger.bookies() if run.cluster.regions[b] == region]
    return next(
        host for host in run.cluster.bookie_hosts if run.cluster.bookie_ids[host.name] == local
    )


async def with_a_ledger(run: RegionRun) -> None:
    run.write_in("east")
    await run.acks(100, 15)
    await asyncio.sleep(4)
    run.apps.active_writer = NO_WRITER
    await asyncio.sleep(2)


def test_reads_and_their_traffic_stay_in_the_region() -> None:
    async def script(run: RegionRun) -> None:
        await with_a_ledger(run)
        found = await read_entries(run, "west", nothing)
        assert found.quantile(0.99) < 3, "a local round trip; the writer is 40 ms away"
        assert list(found.reads.counts.responses_by_region) == ["west"]
        assert found.extra_share == 0
        local, remote = found.traffic["west", "west"], 0
        remote = sum(count for (source, _), count in found.traffic.items() if source != "west")
        assert local > 100 * READS
        assert remote < 0.01 * local

    run_script(script, plan("local reads"), repairs=False)


def test_reads_continue_in_a_region_that_is_cut_off() -> None:
    async def script(run: RegionRun) -> None:
        await with_a_ledger(run)

        async def cut() -> None:
            run.world.cut_region("west")

        found = await read_entries(run, "west", cut)
        assert found.quantile(1.0) < 3
        run.world.heal_region("west")

    run_script(script, plan("cut reads"), repairs=False)


@pytest.mark.parametrize("fault", ["stopped", "slow"])
def test_a_bad_local_replica_costs_little_more_than_the_nearest_remote_one(fault: str) -> None:
    readings: dict[int, Reading] = {}

    async def script(run: RegionRun) -> None:
        await with_a_ledger(run)
        local = local_host(run, "north")

        async def begin() -> None:
            if fault == "stopped":
                local.pause()
            else:
                run.world.network.link("north", "north").slowness = 1500.0

        for tries_max in (3, 1):
            settings = ReadSettings(tries_max=tries_max)
            readings[tries_max] = await read_entries(run, "north", begin, settings)
            local.resume()
            run.world.network.link("north", "north").slowness = 1.0
            await asyncio.sleep(2)

    run_script(script, plan(f"bad replica {fault}"), repairs=False)
    with_it, without = readings[3], readings[1]
    print(
        f"{fault}: p50 {with_it.quantile(0.5):.1f} ms, p99 {with_it.quantile(0.99):.1f} ms with "
        f"{with_it.extra_share:.1%} extra requests; without speculation p99 "
        f"{without.quantile(0.99):.1f} ms, worst {without.quantile(1.0):.0f} ms"
    )
    # East is 10 ms away; a speculative request is sent after the minimum of 10 ms.
    assert with_it.quantile(0.5) < 13
    assert with_it.quantile(0.99) < 45, "the far region is tried a few times, to be measured"
    assert with_it.extra_share <= 0.1
    assert without.quantile(1.0) > 5 * with_it.quantile(0.99)
