"""An emulated wide-area link between real sockets, with a delay per direction.

One ``Relay`` represents the path from one region to one server: it forwards connections made to its
port to the server. Bytes are held for the one-way delay and then forwarded in order. A cut link
behaves like a broken path, not like a dead server: nothing arrives, neither end is notified, and
bytes in flight arrive when the link heals, as TCP retransmissions would.
Bandwidth is not limited, but at most ``HELD_BYTES_MAX`` bytes are in flight per direction and
connection; beyond that the relay stops reading from the sender's socket.

A connection needs no task: it has two protocols, two queues and at most one timer per direction.
"""

import asyncio
from collections import deque
from typing import Self, cast

HELD_BYTES_MAX = 32 * 1024 * 1024
"""Bytes in flight per direction and connection; enough for 400 MB/s at a delay of 80 ms."""

_CONNECT_SECONDS_MAX = 10


class Relay:
    """Forwards connections from its own port to ``target`` and delays each direction.

    ``delay_ms`` delays bytes to the server and ``back_ms`` bytes from it (``delay_ms`` by default).
    The delays, ``target`` and the cut may change at any time; ``target`` must be set before the
    first connection.
    """

    def __init__(
        self, target: tuple[str, int] | None, *, delay_ms: float, back_ms: float | None = None
    ) -> None:
        self.target = target
        self.delay_ms = delay_ms
        self.back_ms = delay_ms if back_ms is None else back_ms
        self.is_cut = False
        self.bytes_to_server = 0
        self.bytes_from_server = 0
        self._server: asyncio.Server | None = None
        self.links: dict[_Link, None] = {}

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> int:
        """Start to listen and return the port. Raises OSError if the port is in use."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Link(self).near, host, port, backlog=512)
        return int(self._server.sockets[0].getsockname()[1])

    def cut(self) -> None:
        """Stop delivery in both directions; connections stay open."""
        self.is_cut = True

    def heal(self) -> None:
        """Reconnect the link and forward the bytes that were held."""
        self.is_cut = False
        for link in list(self.links):
            link.heal()

    def reset(self) -> None:
        """Abort all connections, as a rebooting router does."""
        for link in list(self.links):
            link.abort()

    async def aclose(self) -> None:
        """Stop listening and abort all connections. Safe to repeat."""
        if self._server is not None:
            self._server.close()
        self.reset()
        await asyncio.sleep(0)  # transports notify their protocols in the next loop iteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


class _Link:
    """One forwarded connection: the client's socket, the server's socket and two directions."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.near = _End(self)
        self.far = _End(self)
        self.to_server = _Direction(self.near, self.far, is_to_server=True)
        self.from_server = _Direction(self.far, self.near, is_to_server=False)
        self._connecting: asyncio.Task[None] | None = None

    def opened(self) -> None:
        """Connect to the server now that the client has connected, unless the link is cut."""
        self.relay.links[self] = None
        if not self.relay.is_cut:
            self._connect()

    def heal(self) -> None:
        """Connect to the server if still needed, and forward the bytes that were held."""
        if self._connecting is None:
            self._connect()
        self.to_server.pump()
        self.from_server.pump()

    def abort(self) -> None:
        """Abort both sockets."""
        self.relay.links.pop(self, None)
        if self._connecting is not None:
            self._connecting.cancel()
        for end in (self.near, self.far):
            end.is_over = True
            if end.transport is not None:
                end.transport.abort()

    def _connect(self) -> None:
        self._connecting = asyncio.get_running_loop().create_task(self._open_far())

    async def _open_far(self) -> None:
        target = self.relay.target
        try:
            if target is None:
                raise ConnectionRefusedError
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(_CONNECT_SECONDS_MAX):
                await loop.create_connection(lambda: self.far, *target)
        except (OSError, TimeoutError):
            self.abort()
            return
        self.to_server.pump()


class _End(asyncio.Protocol):
    """One socket of a link."""

    def __init__(self, link: _Link) -> None:
        self.link = link
        self.transport: asyncio.Transport | None = None
        self.is_over = False
        self.is_full = False

    @property
    def outgoing(self) -> "_Direction":
        """The direction that starts at this socket."""
        return self.link.to_server if self is self.link.near else self.link.from_server

    @property
    def incoming(self) -> "_Direction":
        """The direction that ends at this socket."""
        return self.link.from_server if self is self.link.near else self.link.to_server

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if self.is_over:
            self.transport.abort()
        elif self is self.link.near:
            self.link.opened()

    def data_received(self, data: bytes) -> None:
        self.outgoing.push(data)

    def eof_received(self) -> bool:
        self.outgoing.push(b"")
        return True  # keep the other direction open

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_over:
            self.is_over = True
            self.outgoing.push(None)

    def pause_writing(self) -> None:
        self.is_full = True

    def resume_writing(self) -> None:
        self.is_full = False
        self.incoming.pump()


class _Direction:
    """A queue of (due time, item): bytes, b"" for end of stream, None for a lost connection."""

    def __init__(self, source: _End, sink: _End, *, is_to_server: bool) -> None:
        self._source = source
        self._sink = sink
        self._is_to_server = is_to_server
        self._held: deque[tuple[float, bytes | None]] = deque()
        self._held_bytes = 0
        self._is_source_paused = False
        self._timer: asyncio.TimerHandle | None = None

    def push(self, data: bytes | None) -> None:
        """Queue an item that arrived at the source; it leaves at the sink after the delay."""
        relay = self._source.link.relay
        loop = asyncio.get_running_loop()
        delay_ms = relay.delay_ms if self._is_to_server else relay.back_ms
        self._held.append((loop.time() + delay_ms / 1000, data))
        self._held_bytes += len(data or b"")
        if self._held_bytes > HELD_BYTES_MAX and not self._is_source_paused:
            self._is_source_paused = True
            if self._source.transport is not None:
                self._source.transport.pause_reading()
        if self._timer is None:
            self.pump()

    def pump(self) -> None:
        """Forward the items that are due while the link is up and the sink accepts data."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        link, sink = self._source.link, self._sink
        if link.relay.is_cut or sink.transport is None or sink.is_over:
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + 0.0005  # the loop's timers have a resolution of 1 ms
        while self._held and not sink.is_full and self._held[0][0] <= due:
            _, data = self._held.popleft()
            if data is None:
                link.abort()
                return
            self._forward(data, sink.transport)
        if self._held and not sink.is_full:
            self._timer = loop.call_at(self._held[0][0], self._timed_pump)
        if self._is_source_paused and self._held_bytes <= HELD_BYTES_MAX // 2:
            self._is_source_paused = False
            if self._source.transport is not None:
                self._source.transport.resume_reading()

    def _timed_pump(self) -> None:
        self._timer = None
        self.pump()

    def _forward(self, data: bytes, sink: asyncio.Transport) -> None:
        if not data:
            sink.write_eof()
            return
        self._held_bytes -= len(data)
        relay = self._source.link.relay
        if self._is_to_server:
            relay.bytes_to_server += len(data)
        else:
            relay.bytes_from_server += len(data)
        sink.write(data)
