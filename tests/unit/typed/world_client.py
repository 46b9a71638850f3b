"""A client of streams in memory, for tests of typed streams."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.read.stream_reader import StreamReader
from rhumbline.core.log.write.stream_writer import StreamWriter
from rhumbline.core.protocol.start import EARLIEST, Start
from rhumbline.tests.support.fakes.log_world import LogWorld


class WorldClient:
    """The part of a client that typed streams use, over the stores of a test world."""

    def __init__(self, world: LogWorld) -> None:
        self._namespace = world.open_namespace()

    def namespace(self) -> Namespace:
        return self._namespace

    @asynccontextmanager
    async def writer(self, stream: str) -> AsyncIterator[StreamWriter]:
        async with await self._namespace.open_writer(stream) as writer:
            yield writer

    @asynccontextmanager
    async def reader(self, stream: str, start: Start = EARLIEST) -> AsyncIterator[StreamReader]:
        async with await self._namespace.open_reader(stream, start) as reader:
            yield reader
