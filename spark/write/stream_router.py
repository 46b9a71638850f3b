"""Writes the rows of a task to the streams that they name, each exactly once (rule STR-16).

In each stream the rows of a task are numbered by themselves. When rows are sent depends only on
the rows and their order, so a retried task sends the same record sets.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from typing import NamedTuple

import pyarrow as pa

from ...core.protocol.errors import ConfigurationError, DuplicateRecordError
from .row_encoder import (
    PENDING_MAX,
    SET_BYTES,
    SET_RECORDS,
    RowWriter,
    SinkRow,
    encode_numbered_set,
    rows_of,
)

BUFFERED_BYTES = 64 << 20
"""Rows that wait for their record set to fill, over all streams; then all of them are sent."""
WRITERS_MAX = 256
"""Maximum number of streams that a task has open; then the one opened first is closed."""


class OpenedStream(NamedTuple):
    """A stream that is open for writing, and the number of leading rows that it certainly has."""

    writer: RowWriter
    skip: int


Opener = Callable[[str], AbstractAsyncContextManager[OpenedStream]]


async def route_rows(
    open_stream: Opener,
    producer: bytes,
    batches: Iterable[pa.RecordBatch],
    *,
    keeps_txids: bool = False,
) -> None:
    """Write each row to the stream in its column ``stream``; return when all are acknowledged.

    Raises ConfigurationError for a row without a stream, and the errors of writers.
    """
    router = _Router(open_stream, producer, keeps_txids)
    try:
        for batch in batches:
            names = batch.column("stream").to_pylist()
            for name, row in zip(names, rows_of([batch], keeps_txids), strict=True):
                await router.add(name, row)
        await router.close()
    finally:
        await router.abort()


class _Router:
    """The streams of a task: those that are open, in the order of opening, and row numbers."""

    def __init__(self, open_stream: Opener, producer: bytes, keeps_txids: bool) -> None:
        self._open_stream = open_stream
        self._producer = producer
        self._keeps_txids = keeps_txids
        self._open: dict[str, _Target] = {}
        self._numbers: dict[str, int] = {}
        self._buffered = 0

    async def add(self, name: str | None, row: SinkRow) -> None:
        if not name:
            raise ConfigurationError(
                "rhumbline sink: a row has no stream; set option stream, or fill column stream"
            )
        target = self._open.get(name) or await self._opened(name)
        number = self._numbers.get(name, 0)
        self._numbers[name] = number + 1
        if number < target.skip:
            return
        target.rows.append(row)
        target.size += row.size
        self._buffered += row.size
        if target.size >= SET_BYTES or len(target.rows) == SET_RECORDS:
            await self._send(name, target)
        elif self._buffered >= BUFFERED_BYTES:
            for other, waiting in self._open.items():
                await self._send(other, waiting)

    async def _opened(self, name: str) -> "_Target":
        if len(self._open) == WRITERS_MAX:
            await self._close(next(iter(self._open)))
        stack = AsyncExitStack()
        opened = await stack.enter_async_context(self._open_stream(name))
        target = self._open[name] = _Target(opened, stack)
        return target

    async def _send(self, name: str, target: "_Target") -> None:
        if not target.rows:
            return
        rows, target.rows = target.rows, []
        self._buffered -= target.size
        target.size = 0
        first = self._numbers[name] - len(rows)
        await target.send(encode_numbered_set(self._producer, rows, first), self._keeps_txids)

    async def _close(self, name: str) -> None:
        target = self._open[name]
        await self._send(name, target)
        await target.wait(0)
        del self._open[name]
        await target.stack.aclose()

    async def close(self) -> None:
        """Send what is left and wait until all rows are acknowledged."""
        for name, target in self._open.items():
            await self._send(name, target)
        while self._open:
            await self._close(next(iter(self._open)))

    async def abort(self) -> None:
        """Close the writers that an error left open. Safe to repeat."""
        async with AsyncExitStack() as closing:
            for target in self._open.values():
                closing.push_async_callback(target.stack.aclose)
            self._open.clear()


class _Target:
    """An open stream, the rows that wait to be sent, and the appends that are in progress."""

    def __init__(self, opened: OpenedStream, stack: AsyncExitStack) -> None:
        self.skip = opened.skip
        self.stack = stack
        self.rows: list[SinkRow] = []
        self.size = 0
        self._writer = opened.writer
        self._pending: deque[Awaitable[object]] = deque()

    async def send(self, encoded: bytes, keeps_txids: bool) -> None:
        await self._writer.room()
        with suppress(DuplicateRecordError):  # the stream has it
            self._pending.append(self._writer.append_set(encoded, keeps_txids=keeps_txids))
        await self.wait(PENDING_MAX)

    async def wait(self, left: int) -> None:
        """Wait until at most ``left`` appends are in progress."""
        while len(self._pending) > left:
            await self._pending.popleft()
