"""A namespace over ledgers and metadata in memory, for one test."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.config import ReaderConfig, WriterConfig
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.positioning import EARLIEST, Start
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.log.read.segment_opener import Archives
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import NoSuchStreamError
from rhumbline.core.protocol.segments import Segment
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.fake_ledgers import FakeLedgers
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import UnsureStore


class SteppedClock:
    """Time of day that stands still until a test moves it."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms


class LogWorld:
    """What a test of streams needs, made afresh for each."""

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.runtime = Runtime(self.clock, Random(1))
        self.store = UnsureStore(MemoryStore())
        self.ledgers = FakeLedgers()
        self.archives: Archives | None = None
        self.namespace = self.opened()
        self.policy = StreamPolicy()

    def opened(
        self,
        writer_config: WriterConfig | None = None,
        reader_config: ReaderConfig | None = None,
    ) -> Namespace:
        """The namespace as another process with these settings sees it."""
        return Namespace(
            self.runtime,
            self.store,
            self.ledgers.client(),
            "test",
            writer_config=writer_config or WriterConfig(backoff_ms_min=10, backoff_ms_max=500),
            reader_config=reader_config or ReaderConfig(retry_ms=100, poll_ms=50),
            archives=self.archives,
        )

    async def writer(
        self, stream: str, policy: StreamPolicy | None = None, config: WriterConfig | None = None
    ) -> StreamWriter:
        """A writer of ``stream``, which is created if need be."""
        namespace = self.namespace if config is None else self.opened(config)
        try:
            return await namespace.open_writer(stream)
        except NoSuchStreamError:
            await namespace.create_stream(stream, policy)
            return await namespace.open_writer(stream)

    async def read_all(self, stream: str, count: int, start: Start = EARLIEST) -> list[Record]:
        """The next ``count`` records."""
        async with await self.namespace.open_reader(stream, start) as reader:
            return [await asyncio.wait_for(anext(reader), 5) for _ in range(count)]

    async def segments(self, stream: str) -> tuple[Segment, ...]:
        """What metadata says of the stream's segments."""
        return (await self.namespace.describe(stream)).segments


def in_world(test: Callable[[LogWorld], Awaitable[None]]) -> Callable[[], None]:
    """Runs an async test in a fresh world and virtual time; unseen exceptions fail it."""

    @functools.wraps(test)
    def run() -> None:
        async def body() -> None:
            world = LogWorld()
            await create_namespace(world.store, world.runtime, "test", world.policy)
            await asyncio.wait_for(test(world), 24 * 3600)

        run_jumping(body())

    del run.__wrapped__  # or pytest looks for a fixture "world"
    return run
