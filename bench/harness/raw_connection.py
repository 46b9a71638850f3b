"""A minimal v2 connection to a bookie for measurements, without retries."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Self, cast

from ...core.protocol.errors import UnavailableError
from ...core.runtime.histogram import Histogram
from ...core.wire import v2
from ...core.wire.frames import FrameSplitter

Key = tuple[int, int]
BenchRequest = tuple[Key, bytes]
"""A pair of the key that identifies the response, and the frame."""


class BenchConnection(asyncio.Protocol):
    """A connection created by ``connect``. ``run`` may be called repeatedly."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.entry_count = 0
        self.entry_bytes = 0
        self._splitter = FrameSplitter()
        self._sent_at: dict[Key, float] = {}
        self._requests: Iterator[BenchRequest] = iter(())
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, host: str, port: int) -> Self:
        """Connect to a bookie. Raises OSError."""
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, port)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if not self._done.done():
            self._done.set_exception(UnavailableError(f"the bookie closed the connection: {exc}"))
            self._done.exception()  # marks it as retrieved if no caller waits

    async def run(self, requests: Iterator[BenchRequest], window: int) -> float:
        """Send all requests, with at most ``window`` outstanding.

        Returns the seconds until the last response. Resets the counters. Raises UnavailableError
        at the first response that is not OK.
        """
        self.latencies.clear()
        self.entry_count = self.entry_bytes = 0
        self._requests = requests
        self._done = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        self._send(window)
        await self._done
        return time.perf_counter() - started

    def close(self) -> None:
        """Close the connection."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, count: int) -> None:
        assert self._transport is not None
        frames: list[bytes] = []
        now = time.perf_counter()
        while len(frames) < count:
            request = next(self._requests, None)
            if request is None:
                break
            if request[0] in self._sent_at:
                continue  # already outstanding; the two responses would be indistinguishable
            self._sent_at[request[0]] = now
            frames.append(request[1])
        if frames:
            self._transport.write(b"".join(frames))
        elif not self._sent_at and not self._done.done():
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        frames = self._splitter.feed(data)
        now = time.perf_counter()
        for frame in frames:
            response = v2.decode_response(frame)
            assert not isinstance(response, v2.AuthResponse)
            if response.code != v2.Code.OK:
                if not self._done.done():
                    self._done.set_exception(UnavailableError(f"response code {response.code}"))
                return
            self.latencies.add(now - self._sent_at.pop(self._key_of(response)))
        self._send(len(frames))

    def _key_of(self, response: v2.AddResponse | v2.ReadResponse | v2.BatchReadResponse) -> Key:
        """Return the key of the request that a response belongs to, and count its entries."""
        if isinstance(response, v2.BatchReadResponse):
            self.entry_count += len(response.entries)
            self.entry_bytes += sum(map(len, response.entries))
            return response.ledger_id, response.first_entry_id
        if isinstance(response, v2.ReadResponse):
            self.entry_bytes += len(response.body)
        self.entry_count += 1
        return response.ledger_id, response.entry_id


def until(seconds: float, make: Callable[[int], BenchRequest]) -> Iterator[BenchRequest]:
    """Yield requests numbered 0, 1, 2, ... for some seconds."""
    end = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < end:
        yield make(number)
        number += 1
