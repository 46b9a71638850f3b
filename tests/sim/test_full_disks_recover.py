"""Bookies whose disks are full serve reads, and accept entries again after a stream was deleted.

The disks are as small as a few log files. While they are full and while they free space, bookies
are killed, so that each step of the maintenance is interrupted at some moment with no space left.
"""

import asyncio
from collections.abc import Callable
from random import Random

import pytest

from rhumbline.chaos.simulation.cluster import SimCluster, SimClusterSettings, until
from rhumbline.chaos.simulation.world.sim_world import THREE_REGIONS, SimHost, SimWorld
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import KIB
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import NotEnoughBookiesError, RhumblineError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.start import EARLIEST

DISK_BYTES = 640 * KIB
RECORD_BYTES = 2_000
SETTINGS = SimClusterSettings(
    policy=StreamPolicy(quorum=Quorum(3, 3, 2, 2), flush=FlushPolicy(period_ms=0), roll_ms=2_000),
    ledger=LedgerConfig(request_timeout_ms=1_000, replacement_wait_ms_max=2_000),
    log_file_bytes=32 * KIB,
    maintenance_ms=1_000,
    collect_ms=20_000,
    sealed_logs_kept=4,
)


class FullDisks:
    """One run: fill the disks, kill bookies, delete, and write again."""

    def __init__(self, world: SimWorld, seed: int) -> None:
        self.world = world
        self.random = Random(seed)
        self.cluster = SimCluster(world, SETTINGS, (1, 1, 1))
        for host in self.cluster.bookie_hosts:
            host.image.capacity_bytes = DISK_BYTES
        self.kept = 0
        self.seen: set[str] = set()

    async def play(self) -> None:
        await self.cluster.bootstrap()
        host = self.cluster.app_hosts[0]
        host.start(_idle)
        self.kept = await host.spawn(self._write(host, "kept", 40), "write")
        filled = await host.spawn(self._write(host, "garbage", 10_000), "fill")
        assert filled < 10_000
        await self._kill_some()
        await host.spawn(self._read(host, "kept"), "read while full")
        await host.spawn(self._delete(host, "garbage"), "delete")
        await asyncio.sleep(self.random.uniform(0, 5))
        await self._kill_some()
        await self._reaches("writable", lambda bookie: not bookie.is_read_only)
        await self._reaches(
            "whole", lambda bookie: not bookie.statistics()["maintenance_reserve_missing_bytes"]
        )
        await host.spawn(self._read(host, "kept"), "read")
        assert await host.spawn(self._write(host, "later", 40), "write later") == 40
        assert all(not bookie.storage.damages for bookie in self.cluster.bookies.values())

    async def _kill_some(self) -> None:
        """Kill a bookie at a time, so that P holds, at moments in which maintenance works."""
        for host in self.cluster.bookie_hosts:
            for _ in range(self.random.randrange(3)):
                await asyncio.sleep(self.random.uniform(0, 1.5))
                host.kill("crashes on a full disk")
                host.start()
                await until(lambda host=host: host.name in self.cluster.bookies)  # type: ignore[misc]

    async def _reaches(self, what: str, is_reached: Callable[[Bookie], bool]) -> None:
        try:
            async with asyncio.timeout(300):
                await until(
                    lambda: (
                        len(self.cluster.bookies) == 3
                        and all(map(is_reached, self.cluster.bookies.values()))
                    )
                )
        except TimeoutError:
            found = [bookie.statistics() for bookie in self.cluster.bookies.values()]
            raise AssertionError(f"not {what}: {found}") from None

    async def _write(self, host: SimHost, stream: str, count: int) -> int:
        """Append up to ``count`` records, and return how many were acknowledged."""
        async with self.cluster.client(host) as client:
            await client.namespace.create_stream(stream)
            writer = await self._open_writer(client.namespace, stream)
            for number in range(count):
                record = b"%09d" % number + self.random.randbytes(RECORD_BYTES - 9)
                try:
                    async with asyncio.timeout(10):
                        await writer.append(record)
                except (RhumblineError, TimeoutError):
                    await writer.abort()
                    return number
            await writer.close()
            return count

    async def _open_writer(self, namespace: Namespace, stream: str) -> StreamWriter:
        """Open a writer as soon as enough bookies are registered as writable."""
        async with asyncio.timeout(60):
            while True:
                try:
                    return await namespace.open_writer(stream)
                except NotEnoughBookiesError:
                    await asyncio.sleep(1)

    async def _read(self, host: SimHost, stream: str) -> None:
        async with self.cluster.client(host) as client:
            numbers: list[int] = []
            end = await client.namespace.end(stream)
            async with await client.namespace.open_reader(stream, EARLIEST) as reader:
                while (batch := await reader.next_batch(until=end)) is not None:
                    numbers += [int(payload[:9]) for payload in batch.payloads()]
            assert numbers == list(range(self.kept))

    async def _delete(self, host: SimHost, stream: str) -> None:
        async with self.cluster.client(host) as client:
            await client.namespace.delete_stream(stream)


async def _idle(_: SimHost) -> None:
    await asyncio.Event().wait()


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 20))]


@pytest.mark.parametrize("number", SEEDS)
@pytest.mark.timeout(120)
def test_full_bookies_recover_though_they_crash_meanwhile(number: int) -> None:
    with SimWorld(f"full disks {number}", THREE_REGIONS) as world:
        world.run(FullDisks(world, number).play(), time_limit_s=3_600)
