"""Server-sent events: bounded in number and in time, and closed when a browser does not read."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Message, Receive, Scope, Send

from ...core.protocol.errors import RhumblineError, UnavailableError

EVENT_STREAM_S_MAX = 600.0
"""Time after which an event stream ends; the page asks for it again."""
_SEND_S_MAX = 20.0
"""Time in which a browser must take an event; otherwise its connection is closed."""


ABORT = "abort_connection"
"""Key of a request's scope: a function that closes its connection at once."""


class _StalledBrowserError(Exception):
    """A browser does not read what it asked for."""


@dataclass(frozen=True)
class ServerEvent:
    """An event for pages. Pages that get the same event share its encoded form."""

    kind: str
    document: Mapping[str, Any]

    @cached_property
    def encoded(self) -> bytes:
        """The event as it is sent."""
        data = json.dumps(self.document, ensure_ascii=False, separators=(",", ":"))
        return f"event: {self.kind}\ndata: {data}\n\n".encode()


class StreamSlots:
    """The places for event streams of one kind: a stream without a place is refused (CON-9)."""

    def __init__(self, most: int, refusal: str) -> None:
        """``refusal``: the message for a visitor who finds no place."""
        self._most = most
        self._refusal = refusal
        self.taken = 0
        """Number of event streams that are open now."""

    @contextmanager
    def place(self) -> Iterator[None]:
        """Hold a place until the block ends. Raises UnavailableError if there is none."""
        if self.taken >= self._most:
            raise UnavailableError(self._refusal)
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1


class EventStream(StreamingResponse):
    """A response of server-sent events, which holds a place from its first byte to its end.

    ``check`` is called before each event (rule CON-3); if it raises, the stream ends with the event
    `refused`.
    """

    def __init__(
        self,
        slots: StreamSlots,
        events: AsyncGenerator[ServerEvent],
        check: Callable[[], Awaitable[None]],
    ) -> None:
        self._slots = slots
        self._events = events
        self._check = check
        super().__init__(self._encoded(), media_type="text/event-stream")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. Raises UnavailableError before anything is sent if no place is free."""

        async def send_soon(message: Message) -> None:
            try:
                async with asyncio.timeout(_SEND_S_MAX):
                    await send(message)
            except TimeoutError as error:
                raise _StalledBrowserError from error

        with self._slots.place():
            async with aclosing(self._events):
                try:
                    await super().__call__(scope, receive, send_soon)
                except _StalledBrowserError:
                    scope[ABORT]()
                    await _disconnected(receive)

    async def _encoded(self) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + EVENT_STREAM_S_MAX
        async for event in self._events:
            try:
                await self._check()
            except RhumblineError as error:
                refusal = {"code": error.code, "error": str(error)}
                yield ServerEvent("refused", refusal).encoded
                return
            yield event.encoded
            if loop.time() >= ends_at:
                return


async def _disconnected(receive: Receive) -> None:
    async with asyncio.timeout(_SEND_S_MAX):
        while (await receive())["type"] != "http.disconnect":
            continue
