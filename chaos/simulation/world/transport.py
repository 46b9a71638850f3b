"""One end of a simulated TCP connection.

Each direction is a stream: bytes arrive once and in order, after a delay. Bytes in flight when the
path breaks are held, as TCP retransmission would do, and arrive after the path heals, unless an end
timed out meanwhile. A reset is sent only once: if it is lost, the other end stays half-open until
it sends something.

``WINDOW_BYTES`` models the buffers of both kernels. Bytes beyond it count as the transport's own
write buffer, for which asyncio's rules of pausing the protocol hold.
"""

import asyncio
from collections import deque
from collections.abc import Iterable
from contextvars import Context
from typing import TYPE_CHECKING, Any, cast
from zlib import crc32

from .process import PROCESS, SimProcess

if TYPE_CHECKING:
    from .network import SimNetwork, SimNode

WINDOW_BYTES = 1024 * 1024
_BEAT_END = 11

END_OF_STREAM = b""
"""The piece of a direction that stands for the sender's FIN."""


class SimTransport(asyncio.Transport):
    """One end of a connection, at ``node`` in the ``context`` of its process; see also ``peer``."""

    __slots__ = (
        "_acks_held",
        "_batch",
        "_batch_at",
        "_high",
        "_in_flight",
        "_inbox",
        "_is_eof_sent",
        "_is_reading",
        "_is_write_paused",
        "last_arrival",
        "_low",
        "_names",
        "_network",
        "_protocol",
        "_unacked",
        "blocked_since",
        "context",
        "held",
        "is_blocked",
        "is_closed",
        "is_gone",
        "node",
        "number",
        "peer",
        "port",
        "process",
    )

    peer: "SimTransport"

    def __init__(
        self,
        network: "SimNetwork",
        node: "SimNode",
        context: Context,
        names: tuple[tuple[str, int], tuple[str, int]],
        number: int,
    ) -> None:
        super().__init__()
        self.node = node
        self.context = context
        self.process: SimProcess | None = context.get(PROCESS)
        self.number = number
        self.port = names[0][1]
        self.is_closed = False  # accepts no more writes
        self.is_gone = False  # connection_lost is scheduled or will never be called
        self.is_blocked = False  # nothing is delivered in this direction now
        self.blocked_since = 0.0
        self.held: list[bytes] = []
        self._network = network
        self._protocol: asyncio.Protocol | None = None
        self._names = names
        self._batch: list[bytes] = []
        self._batch_at = -1.0
        self._in_flight: deque[list[bytes]] = deque()
        self.last_arrival = 0.0
        self._unacked = 0
        self._acks_held = 0
        self._high, self._low = 64 * 1024, 16 * 1024
        self._is_write_paused = False
        self._is_eof_sent = False
        self._is_reading = True
        self._inbox: deque[bytes] = deque()

    def __repr__(self) -> str:
        return f"<connection {self.number}: {self.node.name} to {self.peer.node.name}>"

    # --- asyncio's interface --------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:  # noqa: ANN401 - asyncio's
        """Return ``sockname`` or ``peername``; there is no socket."""
        if name == "sockname":
            return self._names[0]
        return self._names[1] if name == "peername" else default

    def is_closing(self) -> bool:
        """Return whether the transport is closed for writing."""
        return self.is_closed

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Set the protocol that receives the callbacks."""
        self._protocol = cast(asyncio.Protocol, protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """Return the protocol that receives the callbacks."""
        assert self._protocol is not None
        return self._protocol

    def is_reading(self) -> bool:
        """Return whether ``data_received`` may be called."""
        return self._is_reading and not self.is_closed

    def pause_reading(self) -> None:
        """Stop calling ``data_received``; the sender's window fills."""
        self._is_reading = False

    def resume_reading(self) -> None:
        """End ``pause_reading``."""
        if not self._is_reading and not self.is_closed:
            self._is_reading = True
            if self._inbox:
                self._network.loop.call_soon(self._drain_inbox, context=self.context)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set the high and low water marks for flow control, in bytes."""
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the water marks (low, high) in bytes."""
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        """Return the number of bytes beyond the simulated kernel buffers."""
        return max(0, self._unacked - WINDOW_BYTES)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send data. Does nothing after the connection was lost or closed, as in asyncio."""
        if self.is_closed or self._is_eof_sent or not data:
            return
        data = data if type(data) is bytes else bytes(data)
        self._unacked = unacked = self._unacked + len(data)
        on_sent = self._network.on_sent
        if on_sent is not None:
            on_sent(self, data)
        self._send(data)
        if unacked > WINDOW_BYTES and self._has_filled_buffer():
            self._is_write_paused = True
            self.get_protocol().pause_writing()

    def _has_filled_buffer(self) -> bool:
        return self._unacked > WINDOW_BYTES + self._high and not self._is_write_paused

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send the pieces in order."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Return True: half-closed connections are supported."""
        return True

    def write_eof(self) -> None:
        """Close this direction after the written data."""
        if not self._is_eof_sent and not self.is_closed:
            self._is_eof_sent = True
            self._send(END_OF_STREAM)

    def close(self) -> None:
        """Send the written data, then close; the protocol gets ``connection_lost(None)``."""
        if self.is_closed:
            return
        self.write_eof()
        self.is_closed = True
        self._inbox.clear()
        if self.get_write_buffer_size() == 0:
            self._lose_soon(None)

    def abort(self) -> None:
        """Close at once: drop unsent data and reset the other end."""
        self._reset(None)

    # --- the direction from here to the peer ----------------------------------------------------

    def _send(self, data: bytes) -> None:
        network = self._network
        if self.is_blocked:
            self.held.append(data)
            network.watch_for_timeout(self)
            return
        loop, peer = network.loop, self.peer
        now = loop.now
        if self._batch_at == now and self._batch:
            self._batch.append(data)
            return
        self._batch_at = now
        self._batch = batch = [data]
        arrival = network.arrival(self.node, peer.node, len(data), now)
        if arrival < self.last_arrival:
            arrival = self.last_arrival
        self.last_arrival = arrival
        if peer.is_gone:
            loop.call_at(arrival, peer.refuse, batch, context=network.context)
            return
        self._in_flight.append(batch)
        loop.call_at(arrival, peer.arrive, batch, context=peer.context)

    def block(self) -> None:
        """Stop delivering in this direction. Safe to repeat."""
        if not self.is_blocked:
            self.is_blocked = True
            self.blocked_since = self._network.loop.now
            for batch in self._in_flight:  # lost in flight; retransmitted after the path heals
                self.held.extend(batch)
                batch.clear()
            self._in_flight.clear()
            if self._unacked:
                self._network.watch_for_timeout(self)

    def unblock(self) -> None:
        """Deliver the held data and everything from now on. Safe to repeat."""
        if not self.is_blocked:
            return
        self.is_blocked = False
        held, self.held = self.held, []
        for data in held:
            self._send(data)
        acks, self._acks_held = self._acks_held, 0
        if acks:  # acknowledgements of the other direction
            self.peer.acknowledged(acks)

    @property
    def unacked_bytes(self) -> int:
        """Number of bytes that the peer's protocol has not received."""
        return self._unacked

    def acknowledged(self, size: int) -> None:
        """Account for ``size`` bytes that the peer's protocol received."""
        self._unacked -= size
        if self._is_write_paused and self._unacked <= WINDOW_BYTES + self._low:
            self._is_write_paused = False
            self._network.loop.call_soon(self._resume_writing, context=self.context)
        if self.is_closed and not self.is_gone and self.get_write_buffer_size() == 0:
            self._lose_soon(None)

    def _resume_writing(self) -> None:
        if not self.is_gone and self._protocol is not None:
            self._protocol.resume_writing()

    # --- the direction from the peer to here ----------------------------------------------------

    def open(self, protocol: asyncio.Protocol) -> None:
        """Attach the protocol and notify it. Call it in this end's context."""
        self._protocol = protocol
        protocol.connection_made(self)
        if self._inbox:
            self._network.loop.call_soon(self._drain_inbox, context=self.context)

    def arrive(self, batch: list[bytes]) -> None:
        """Receive pieces from the peer. Called in this end's process, which is running."""
        if not batch:
            return  # lost in flight
        sender = self.peer
        expected = sender._in_flight.popleft()
        assert expected is batch, "bytes would arrive out of order"
        sender._batch_at = -1.0  # nothing may be appended to this batch any more
        if self.is_closed:
            if any(batch):
                self._network.send_reset(self, sender)
            return
        if self._inbox or not self._is_reading or self._protocol is None:
            self._inbox.extend(batch)
            return
        data = batch[0] if len(batch) == 1 else b"".join(batch)
        is_end = not batch[-1]
        if data:
            cut = self._network.cut_point(len(data))
            if cut:
                self._inbox.append(data[cut:])
                if is_end:
                    self._inbox.append(END_OF_STREAM)
                is_end = False
                data = data[:cut]
                self._network.loop.call_later(0.0005, self._drain_inbox, context=self.context)
            self._take(data)
        if is_end and not self.is_closed:
            self._ended()

    def refuse(self, batch: list[bytes]) -> None:
        """Reset the sender: its data arrived after this end was closed."""
        if self.peer.is_blocked:
            self.peer.held.extend(batch)
            self._network.watch_for_timeout(self.peer)
        else:
            self._network.send_reset(self, self.peer)

    def _drain_inbox(self) -> None:
        inbox = self._inbox
        while inbox and self._is_reading and not self.is_closed and self._protocol is not None:
            data = inbox.popleft()
            if data:
                self._take(data)
            else:
                self._ended()

    def _take(self, data: bytes) -> None:
        network = self._network
        network.delivered(self, data, crc32(data))
        assert self._protocol is not None
        self._protocol.data_received(data)
        if self.is_blocked:  # acknowledgements travel in this direction
            self._acks_held += len(data)
        else:
            self.peer.acknowledged(len(data))

    def _ended(self) -> None:
        assert self._protocol is not None
        self._network.trace.beat(_BEAT_END, self.number, 0)
        if not self._protocol.eof_received():
            self.close()

    # --- the end --------------------------------------------------------------------------------

    def lose(self, error: Exception | None) -> None:
        """Lose the connection because of the path or the peer. Called in this end's process."""
        if not self.is_gone:
            self.is_closed = True
            self.held.clear()
            self._lose_soon(error)

    def _reset(self, error: Exception | None) -> None:
        if self.is_gone:
            return
        self.is_closed = True
        self.held.clear()
        self._network.send_reset(self, self.peer)
        self._lose_soon(error)

    def vanish(self, *, is_silent: bool, is_reset: bool) -> None:
        """Close the connection of a dead process, as its kernel does; ``is_silent``: not at all."""
        self.peer._in_flight.clear()  # they would arrive in this process, which never runs again
        if self.is_gone:
            return
        if is_silent:
            self.held.clear()
        elif is_reset:
            self.held.clear()
            self._network.send_reset(self, self.peer)
        elif not self._is_eof_sent:
            self._send(END_OF_STREAM)
        self.is_closed = self.is_gone = True
        self._inbox.clear()
        self._protocol = None
        self._network.forget(self)

    def _lose_soon(self, error: Exception | None) -> None:
        self.is_gone = True
        self._inbox.clear()
        self._network.loop.call_soon(self._lost, error, context=self.context)

    def _lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None
        self._network.forget(self)
        if protocol is not None:
            protocol.connection_lost(error)
