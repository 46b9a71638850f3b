"""A namespace over ledgers and metadata in memory, for one test."""

import asyncio
import functools
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.config import ReaderConfig, WriterConfig
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.positioning import EARLIEST, Start
from rhumbline.core.log.record import Record
from rhumbline.core.log.writer import StreamWriter
from rhumbline.core.protocol.errors import NoSuchStreamError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fake_ledgers import FakeLedgers
from rhumbline.tests.support.unsure_store import UnsureStore


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
        self.namespace = self.opened()
        self.policy = StreamPolicy()
        self.loop_errors: list[dict[str, Any]] = []

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
            writer_config=writer_config or WriterConfig(backoff_ms_min=1, backoff_ms_max=5),
            reader_config=reader_config or ReaderConfig(retry_ms=1, poll_ms=50),
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

    def segments(self, stream: str) -> Awaitable[Any]:
        """What metadata says of the stream."""
        return self.namespace.describe(stream)


def in_world(test: Callable[[LogWorld], Awaitable[None]]) -> Callable[[], None]:
    """Runs an async test in a fresh world; an exception that nobody saw fails it."""

    @functools.wraps(test)
    def run() -> None:
        async def body() -> None:
            world = LogWorld()
            asyncio.get_running_loop().set_exception_handler(
                lambda _, context: world.loop_errors.append(context)
            )
            await create_namespace(world.store, world.runtime, "test", world.policy)
            await asyncio.wait_for(test(world), 20)
            assert not world.loop_errors, world.loop_errors
            left = [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
            assert not left, left

        asyncio.run(body())

    del run.__wrapped__  # or pytest looks for a fixture "world"
    return run
