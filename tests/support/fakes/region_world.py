"""Streams in memory with readers in a region that a test cuts off from the metadata store."""

import asyncio
from collections.abc import Awaitable, Callable

from rhumbline.backends.memory import MemoryTree
from rhumbline.core.log.config import ReaderConfig
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.read_only_store import PROBE_MS, WAIT_MS, ReadOnlyStore
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.start import EARLIEST, Start
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.regional_store import RegionalStore

BACK_S = (PROBE_MS + WAIT_MS) / 1000
"""Time after which a handle has noticed that its store is in reach again."""


class RegionWorld(LogWorld):
    """Writers that always reach the store, and readers in a region that a test cuts off."""

    def __init__(self) -> None:
        super().__init__()
        tree = MemoryTree()
        self.store = RegionalStore(tree)
        self.namespace = self.open_namespace()
        self.regional = RegionalStore(tree)
        self.reads = ReadOnlyStore(self.regional)
        self.reader_namespace = Namespace(
            self.runtime,
            self.regional,
            self.ledgers.client(),
            "test",
            reader_config=ReaderConfig(retry_ms=100, poll_ms=500, unavailable_ms_max=20_000),
            reads=self.reads,
        )

    async def write(self, *payloads: bytes) -> None:
        """Write records into a segment of their own."""
        async with await self.writer("s") as writer:
            for payload in payloads:
                await writer.append(payload, txid=int(payload))

    async def read(self, count: int, start: Start | Dlsn = EARLIEST) -> list[bytes]:
        """Read in the region, from ``start`` on."""
        async with await self.reader_namespace.open_reader("s", start) as reader:
            return [(await asyncio.wait_for(anext(reader), 30)).payload for _ in range(count)]


def in_region(test: Callable[[RegionWorld], Awaitable[None]]) -> Callable[[], None]:
    """Run a test in a world whose stream has the records 1 and 2, in two segments."""

    def run() -> None:
        async def body() -> None:
            world = RegionWorld()
            await create_namespace(world.store, world.runtime, "test", StreamPolicy())
            await world.write(b"1")
            await world.write(b"2")
            await test(world)
            await world.reads.aclose()

        run_jumping(body())

    run.__name__ = test.__name__
    return run
