"""An hour of writes under a TTL, without any archiver: the elected repair process deletes old data.

The hour is virtual. The first elected process is killed after half of it, and another takes over.
"""

import asyncio
from functools import partial

import pytest

from rhumbline.chaos.simulation.cluster import NAMESPACE, STREAM, SimCluster, SimClusterSettings
from rhumbline.chaos.simulation.repair import repair_host, run_repair
from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS, SimHost, SimWorld
from rhumbline.core.bookie.config import KIB
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.task_store import TaskStore

MINUTES = 60
RECORD_BYTES = 1_000
PAUSE_S = 0.5
TTL_MS, GRACE_MS, ROLL_MS = 60_000, 20_000, 10_000

REPAIR = RepairConfig(audit_interval_ms=30_000, retention_interval_ms=5_000, session_ttl_ms=2_000)
SETTINGS = SimClusterSettings(
    policy=StreamPolicy(
        quorum=Quorum(3, 3, 2, 2),
        flush=FlushPolicy(period_ms=0),
        roll_ms=ROLL_MS,
        retention_ms=TTL_MS,
        purge_grace_ms=GRACE_MS,
    ),
    ledger=LedgerConfig(),
    log_file_bytes=64 * KIB,  # each file begins with a snapshot: tombstones, copies of metadata
    maintenance_ms=5_000,
    collect_ms=10_000,
    tombstone_ms=300_000,  # those of a week grow by 25 bytes a ledger in each log file
    sealed_logs_kept=1,
)


class Hour:
    """One hour of one writer, with samples of the bookies' disks and of the metadata."""

    def __init__(self, world: SimWorld, repairs: tuple[str, ...]) -> None:
        self.world = world
        self.cluster = SimCluster(world, SETTINGS, (1, 1, 1))
        self.repairs = [world.host(repair_host(region), region) for region in repairs]
        self.disk_bytes: list[int] = []
        self.nodes: list[int] = []
        self.written = 0
        self.left = 0

    async def play(self) -> None:
        """Write for an hour, sample each minute, then read what is left."""
        await self.cluster.bootstrap()
        writer, observer = self.cluster.app_hosts[:2]
        writer.start(self._write)
        for host in self.repairs:
            host.start(partial(run_repair, self.cluster, config=REPAIR))
        observer.start(self._idle)
        for minute in range(MINUTES):
            await asyncio.sleep(60)
            self.disk_bytes.append(
                sum(host.image.used_bytes() for host in self.cluster.bookie_hosts)
            )
            self.nodes.append(await observer.spawn(self._count_segments(observer), "count"))
            if self.repairs and minute == MINUTES // 2:
                elected = await observer.spawn(self._kill_elected(observer), "kill")
                assert elected
        writer.kill("has written for an hour")
        await observer.spawn(self._read(observer), "read")

    async def _idle(self, host: SimHost) -> None:
        await asyncio.Event().wait()

    async def _write(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            writer = await client.namespace.open_writer(STREAM)
            while True:
                await writer.append(b"%09d" % self.written + bytes(RECORD_BYTES - 9))
                self.written += 1
                await asyncio.sleep(PAUSE_S)

    async def _count_segments(self, host: SimHost) -> int:
        path = f"/rhumbline/namespaces/{NAMESPACE}/streams/{STREAM}/segments"
        metadata = host.metadata()
        try:
            return len(await metadata.children(path))
        finally:
            await metadata.close()

    async def _kill_elected(self, host: SimHost) -> bool:
        """Kill the elected process; the other one takes over."""
        metadata = host.metadata()
        try:
            before = await TaskStore(metadata).auditor()
            for repairer in self.repairs:
                repairer.kill("an operator kills it")
                await asyncio.sleep(10)
                after = await TaskStore(metadata).auditor()
                if after not in (before, None):
                    return True
                repairer.start()
                await asyncio.sleep(10)
            return False
        finally:
            await metadata.close()

    async def _read(self, host: SimHost) -> None:
        async with self.cluster.client(host) as client:
            end = await client.namespace.end(STREAM)
            numbers: list[int] = []
            async with await client.namespace.open_reader(STREAM, EARLIEST) as reader:
                while (batch := await reader.next_batch(until=end)) is not None:
                    numbers += [int(payload[:9]) for payload in batch.payloads()]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[-1] >= self.written - 1
        self.left = len(numbers)


def play(repairs: tuple[str, ...]) -> Hour:
    with SimWorld("an hour under a TTL", THREE_REGIONS) as world:
        hour = Hour(world, repairs)
        world.run(hour.play(), time_limit_s=MINUTES * 60 + 600)
    megabytes = [f"{size / 1e6:.2f}" for size in hour.disk_bytes[::5]]
    print(f"\n{hour.written} records, {3 * hour.written * RECORD_BYTES / 1e6:.1f} MB in 3 copies")
    print(f"MB on disk every 5 minutes: {', '.join(megabytes)}; {hour.left} records left")
    print(f"segments every 5 minutes: {hour.nodes[::5]}")
    return hour


@pytest.mark.timeout(300)
def test_disk_use_is_flat_for_an_hour_without_an_archiver() -> None:
    hour = play(("east", "west"))
    early, late = hour.disk_bytes[20:30], hour.disk_bytes[-10:]
    assert max(late) <= 1.1 * max(early)
    assert max(late) < 3 * hour.written * RECORD_BYTES / 8
    assert max(hour.nodes[-10:]) <= max(hour.nodes[20:30]) + 2
    assert hour.left < hour.written / 10


@pytest.mark.long
@pytest.mark.timeout(300)
def test_disk_use_grows_without_a_repair_process() -> None:
    """The counterpart: nothing else applies the policy."""
    hour = play(())
    assert hour.disk_bytes[-1] > 3 * hour.written * RECORD_BYTES
    assert hour.left == hour.written
