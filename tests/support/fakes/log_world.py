"""A test world: a namespace over ledgers and metadata in memory."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any, TypeVar

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.config import ReaderConfig, WriterConfig
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.read.record_batch import Record
from rhumbline.core.log.read.segment_opener import Archives
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.errors import NoSuchStreamError
from rhumbline.core.protocol.segments import Segment
from rhumbline.core.protocol.start import EARLIEST, Start
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.fake_ledgers import FakeLedgers
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.lossy_store import LossyStore

T = TypeVar("T")


class ManualClock:
    """A clock that stands still until a test advances ``now_ms``."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def wall_ms(self) -> int:
        return self.now_ms


class LogWorld:
    """The clock, stores, ledgers and namespace of one test, which is run by ``run``.

    ``LogWorld.create`` also stores the namespace. The fixture ``world`` does this for a test.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.runtime = Runtime(self.clock, Random(1))
        self.store = LossyStore(MemoryStore())
        self.ledgers = FakeLedgers()
        self.archives: Archives | None = None
        self.namespace = self.open_namespace()
        self.policy = StreamPolicy()

    @classmethod
    def create(cls) -> "LogWorld":
        """Return a new world whose namespace exists."""
        world = cls()
        world.run(create_namespace(world.store, world.runtime, "test", world.policy))
        return world

    @staticmethod
    def run(work: Coroutine[Any, Any, T]) -> T:
        """Run ``work`` in virtual time, for a day at most.

        Unhandled exceptions and tasks that are left fail it.
        """

        async def bounded() -> T:
            return await asyncio.wait_for(work, 24 * 3600)

        return run_jumping(bounded())

    def open_namespace(
        self,
        writer_config: WriterConfig | None = None,
        reader_config: ReaderConfig | None = None,
    ) -> Namespace:
        """Open the namespace as another process with these settings."""
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
        """Open a writer of ``stream``, which is created if it does not exist."""
        namespace = self.namespace if config is None else self.open_namespace(config)
        try:
            return await namespace.open_writer(stream)
        except NoSuchStreamError:
            await namespace.create_stream(stream, policy)
            return await namespace.open_writer(stream)

    async def read_all(self, stream: str, count: int, start: Start = EARLIEST) -> list[Record]:
        """Read ``count`` records from ``start`` on."""
        async with await self.namespace.open_reader(stream, start) as reader:
            return [await asyncio.wait_for(anext(reader), 5) for _ in range(count)]

    async def segments(self, stream: str) -> tuple[Segment, ...]:
        """Return the segments of a stream from its metadata."""
        return (await self.namespace.describe(stream)).segments
