"""One connection to a bookie that only measures: v2 frames, many outstanding, nothing retried."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Self, cast

from ...core.protocol.errors import UnavailableError
from ...core.runtime.histogram import Histogram
from ...core.wire import v2
from ...core.wire.frames import FrameSplitter

Key = tuple[int, int]
Question = tuple[Key, bytes]
"""(by what the answer is found, frame)."""


class BenchWire(asyncio.Protocol):
    """Made by ``connect``. ``run`` may be called again and again."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.entry_count = 0
        self.entry_bytes = 0
        self._splitter = FrameSplitter()
        self._sent_at: dict[Key, float] = {}
        self._questions: Iterator[Question] = iter(())
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def connect(cls, host: str, port: int) -> Self:
        """Raises OSError."""
        _, wire = await asyncio.get_running_loop().create_connection(cls, host, port)
        return wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio."""
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio."""
        if not self._done.done():
            self._done.set_exception(UnavailableError(f"the bookie closed the connection: {exc}"))
            self._done.exception()  # seen, if nobody waits

    async def run(self, questions: Iterator[Question], window: int) -> float:
        """Asks all, at most ``window`` at a time; returns the seconds until the last answer.

        Counts begin anew. Raises UnavailableError at the first answer that is not OK.
        """
        self.latencies.clear()
        self.entry_count = self.entry_bytes = 0
        self._questions = questions
        self._done = asyncio.get_running_loop().create_future()
        started = time.perf_counter()
        self._send(window)
        await self._done
        return time.perf_counter() - started

    def close(self) -> None:
        """Hangs up."""
        if self._transport is not None:
            self._transport.close()

    def _send(self, count: int) -> None:
        assert self._transport is not None
        frames: list[bytes] = []
        now = time.perf_counter()
        while len(frames) < count:
            question = next(self._questions, None)
            if question is None:
                break
            if question[0] in self._sent_at:
                continue  # asked now: two answers could not be told apart
            self._sent_at[question[0]] = now
            frames.append(question[1])
        if frames:
            self._transport.write(b"".join(frames))
        elif not self._sent_at and not self._done.done():
            self._done.set_result(None)

    def data_received(self, data: bytes) -> None:
        """See asyncio."""
        frames = self._splitter.feed(data)
        now = time.perf_counter()
        for frame in frames:
            answer = v2.decode_response(frame)
            assert not isinstance(answer, v2.AuthResponse)
            if answer.code != v2.Code.OK:
                if not self._done.done():
                    self._done.set_exception(UnavailableError(f"answer {answer.code}"))
                return
            self.latencies.add(now - self._sent_at.pop(self._key_of(answer)))
        self._send(len(frames))

    def _key_of(self, answer: v2.AddResponse | v2.ReadResponse | v2.BatchReadResponse) -> Key:
        """The question that this answers; counts what came."""
        if isinstance(answer, v2.BatchReadResponse):
            self.entry_count += len(answer.entries)
            self.entry_bytes += sum(map(len, answer.entries))
            return answer.ledger_id, answer.first_entry_id
        if isinstance(answer, v2.ReadResponse):
            self.entry_bytes += len(answer.body)
        self.entry_count += 1
        return answer.ledger_id, answer.entry_id


def until(seconds: float, make: Callable[[int], Question]) -> Iterator[Question]:
    """Questions 0, 1, 2, ... for so long."""
    end = time.perf_counter() + seconds
    number = 0
    while time.perf_counter() < end:
        yield make(number)
        number += 1
