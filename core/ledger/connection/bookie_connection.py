"""One TCP connection to one bookie: pipelines requests and matches responses to them.

Adds and plain reads are v2 packets and are matched by (ledger, entry). Two equal requests have
equal responses, so a response may complete either of them. A request whose response must not be
confused with another's (fencing read, recovery add, LAC read, long poll) is a v3 message with its
own number.

Invariants:

1. Every accepted request completes exactly once: by the bookie's response, by a timeout, or by the
   loss of the connection (then as unavailable). It never completes inside the call that sent it.
2. Pending bytes and requests are bounded. Requests above the bound are refused.
3. One timer per connection checks for requests that timed out. None runs while it is idle.
"""

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, cast

from ...protocol.bookie_id import BookieId, has_incarnation
from ...protocol.errors import (
    BookieUnavailableError,
    DeadlineExceededError,
    ProtocolError,
    RhumblineError,
)
from ...runtime.state_machine import StateMachine
from ...wire import bookkeeper_pb2 as pb
from ...wire import handshake, v2, v3
from ...wire.error_codes import error_of_code
from ...wire.frames import FRAME_BYTES_MAX, FrameSplitter
from ..add_op import AddOp
from ..config import LedgerConfig
from ..replica import Replica
from .connection_state import CONNECTION, ConnectionEvent, ConnectionState
from .large_frame import LargeFrame
from .link_traffic import LinkTraffic

_ADD_RESPONSE = struct.Struct(">QI16s")  # as v2.RESPONSE, with the ids as one key
_ADD_HEAD = v2.ADD_RESPONSE_WORD.to_bytes(8, "big")
_BATCH_HEAD = bytes((v2.VERSION, v2.OP_BATCH_READ))
_KEY = struct.Struct(">qq")
_LARGE_BYTES_MIN = 128 << 10
"""Frames of at least this size are received in place. For smaller ones a copy costs less."""
_LATE_MAX = 10_000  # adds that one tick times out at most
_TICKS = 4  # timer ticks per request timeout
_LIFETIME = _TICKS + 1  # ticks until a request times out: it is sent between two ticks
_HANDSHAKE, _READY, _LOST = ConnectionState.HANDSHAKE, ConnectionState.READY, ConnectionState.LOST


OnMessage = Callable[[RhumblineError | None, pb.Response | None], None]
"""Callback of a message: the transport's error or the response, exactly one of them."""


_SentAdd = tuple[AddOp, Replica, int, int]  # op, replica, size, expires


class _PendingRequest:
    """A read or message that waits for its response."""

    __slots__ = ("expires", "on_response", "size")

    def __init__(
        self, on_response: Callable[[RhumblineError | None, Any], None], size: int, expires: int
    ) -> None:
        self.on_response = on_response
        self.size = size
        self.expires = expires


class BookieConnection:
    """One connection, from the attempt to connect until it is lost.

    A ``BookieLink`` creates it and decides when to connect again. ``on_lost`` is called once, when
    the connection has ended. It is the transport's protocol, see ``asyncio.Protocol``.
    """

    def __init__(
        self,
        bookie: BookieId,
        config: LedgerConfig,
        traffic: LinkTraffic,
        on_lost: Callable[["BookieConnection", RhumblineError], None],
    ) -> None:
        self.bookie = bookie
        self.traffic = traffic
        self._on_lost = on_lost
        self.is_ended_by_peer = False
        """True if the bookie closed the connection in an orderly way."""
        self.in_flight_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._bytes_max = config.in_flight_bytes_max
        self._requests_max = config.in_flight_requests_max
        self._tick_s = config.request_timeout_ms / 1000 / _TICKS
        self._life = StateMachine(CONNECTION, str(bookie), now=self._loop.time, check=self._check)
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)
        self._out: list[bytes] = []
        self._adds: dict[bytes, _SentAdd] = {}
        self._reads: dict[bytes, list[_PendingRequest]] = {}
        self._numbered: dict[int, _PendingRequest] = {}
        self._last_number = 0
        self._epoch = 0
        self._latency = traffic.latency
        self._greeted_at = 0.0
        self._received_epoch = 0
        self._timer: asyncio.TimerHandle | None = None

    # --- requests -------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """True if no request waits for its response."""
        return not (self._adds or self._reads or self._numbered)

    def send_add(self, key: bytes, frame: bytes, op: AddOp, replica: Replica) -> bool:
        """Sends an add; returns False, without any effect, if there is no room.

        ``key`` holds the entry's first 16 bytes. ``op.on_added`` is called with ``replica`` and the
        outcome.
        """
        size = len(frame)
        adds = self._adds
        if self.in_flight_bytes + size > self._bytes_max or len(adds) >= self._requests_max:
            return False
        if key in adds:  # sent again: the newer one replaces it
            self.in_flight_bytes -= adds.pop(key)[2]
        adds[key] = (op, replica, size, self._epoch + _LIFETIME)
        self.in_flight_bytes += size
        if op.pushed_at >= self._latency.due:
            self._latency.begin(key, self._loop.time())
        out = self._out
        out.append(frame)
        if len(out) == 1 and self._life.state is _READY:
            self._loop.call_soon(self._flush)
        return True

    def send_read(
        self,
        ledger_id: int,
        entry_id: int,
        on_response: Callable[[RhumblineError | None, bytes], None],
    ) -> bool:
        """Reads an entry; returns False if there is no room.

        Calls ``on_response(None, entry)`` or ``on_response(error, b"")``.
        """
        frame = v2.encode_read(ledger_id, entry_id)
        pending = self._enqueue(on_response, frame, _LIFETIME)
        if pending is None:
            return False
        self._reads.setdefault(_KEY.pack(ledger_id, entry_id), []).append(pending)
        return True

    def send_batch_read(
        self,
        ledger_id: int,
        entry_id: int,
        limits: tuple[int, int],
        on_response: Callable[[RhumblineError | None, list[bytes | memoryview]], None],
    ) -> bool:
        """Reads consecutive entries from ``entry_id`` on; returns False if there is no room.

        ``limits``: the most entries and the most bytes of the response.
        """
        number = self._next_number()
        count_max, bytes_max = limits
        frame = v2.encode_batch_read(
            ledger_id, entry_id, number, count_max=count_max, bytes_max=bytes_max
        )
        pending = self._enqueue(on_response, frame, _LIFETIME)
        if pending is None:
            return False
        self._numbered[number] = pending
        self._flush()  # at once: the bookie reads while the reader processes earlier entries
        return True

    def send_message(
        self,
        request: pb.Request,
        on_response: OnMessage,
        *,
        extra_ms: int = 0,
    ) -> bool:
        """Sends a v3 request under the next number; returns False if there is no room.

        ``extra_ms`` is added to the request timeout (the timeout of a long poll). The error
        passed to ``on_response`` comes from the transport only; the caller evaluates the status in
        the response.
        """
        request.header.txn_id = number = self._next_number()
        ticks = _LIFETIME + -(-extra_ms // max(1, int(self._tick_s * 1000)))
        pending = self._enqueue(on_response, v3.frame(request), ticks)
        if pending is None:
            return False
        self._numbered[number] = pending
        return True

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _enqueue(
        self, on_response: Callable[[RhumblineError | None, Any], None], frame: bytes, ticks: int
    ) -> _PendingRequest | None:
        size = len(frame)
        requests = len(self._reads) + len(self._numbered)
        if self.in_flight_bytes + size > self._bytes_max or requests >= self._requests_max:
            return None
        self.in_flight_bytes += size
        self._out.append(frame)
        if len(self._out) == 1 and self._life.state is _READY:
            self._loop.call_soon(self._flush)
        return _PendingRequest(on_response, size, self._epoch + ticks)

    def _flush(self) -> None:
        if self._is_paused or self._life.state is not _READY or not self._out:
            return
        assert self._transport is not None
        out, self._out = self._out, []
        data = b"".join(out) if len(out) > 1 else out[0]
        self.traffic.sent_bytes += len(data)
        self._transport.write(data)
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick_s, self._on_tick)

    # --- the transport --------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Waits until requests can be sent. Raises BookieUnavailableError if it ended before."""
        await asyncio.shield(self._ready)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Starts the handshake, by which a bookie with an incarnation proves its identity."""
        transport = cast(asyncio.Transport, transport)  # uvloop's class is not declared as one
        if self._life.state is _LOST:  # the link timed out meanwhile
            transport.abort()
            return
        self._transport = transport
        if has_incarnation(self.bookie):
            self._life.take(ConnectionEvent.CONNECT)
            self._greeted_at = self._loop.time()
            transport.write(v2.encode_auth(handshake.PLUGIN, handshake.encode_hello(self.bookie)))
        else:
            self._on_ready(ConnectionEvent.CONNECT_UNPROVED)

    def _on_ready(self, event: ConnectionEvent) -> None:
        self._life.take(event)
        if not self._ready.done():
            self._ready.set_result(None)
        self._flush()

    def pause_writing(self) -> None:
        """Holds requests back, within their bounds, while the transport's buffer is full."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Sends the requests that were held back."""
        self._is_paused = False
        self._flush()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Fails every pending request as unavailable."""
        self.is_ended_by_peer = exc is None
        self.fail(BookieUnavailableError(f"connection to {self.bookie} lost: {exc or 'closed'}"))

    def fail(self, error: RhumblineError) -> None:
        """Ends the connection; every pending request fails with ``error``. Safe to repeat."""
        if self._life.state is _LOST:
            return
        self._life.take(ConnectionEvent.LOSE, str(error))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        self._latency.drop()
        self._out.clear()
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # marks it as retrieved: nobody has to wait for it
        self._on_lost(self, error)
        adds, self._adds = self._adds, {}
        reads, self._reads = self._reads, {}
        numbered, self._numbered = self._numbered, {}
        self.in_flight_bytes = 0
        for op, replica, _, _ in adds.values():
            op.on_added(op, replica, error)
        for queue in reads.values():
            for pending in queue:
                pending.on_response(error, b"")
        for pending in numbered.values():
            pending.on_response(error, None)

    def story(self) -> str:
        """Return the changes of the connection's state, one in a line."""
        return self._life.story()

    def __repr__(self) -> str:
        return repr(self._life)

    def _check(self) -> None:
        if self._life.state is _HANDSHAKE or self._life.state is _READY:
            assert self._transport is not None, "requests have no transport"

    # --- responses ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Takes responses. Runs of add responses, the hot case, are not cut into frames."""
        self._received_epoch = self._epoch
        self.traffic.received_bytes += len(data)
        try:
            if not self._splitter.held_bytes and data.startswith(_ADD_HEAD):
                data = self._take_add_responses(data)
                if not data:
                    return
            data, starts, stops = self._splitter.cut(data)
            for start, stop in zip(starts, stops, strict=True):
                if self._life.state is _LOST:
                    return
                if data.startswith(_BATCH_HEAD, start):  # large, and decoded in place
                    self._on_batch(v2.decode_batch_response(memoryview(data)[start:stop]))
                else:
                    self._on_frame(data[start:stop])
            if self._splitter.held_bytes and self._life.state is not _LOST:
                self._receive_large()
        except (ProtocolError, BookieUnavailableError) as error:
            self.fail(error)

    def _receive_large(self) -> None:
        """Receives the rest of a large frame in place, without copying its parts together."""
        begun = self._splitter.take_partial_frame(_LARGE_BYTES_MIN)
        if begun is not None and self._transport is not None:
            receiver = LargeFrame(self, *begun)
            self._transport.set_protocol(cast(asyncio.BaseProtocol, receiver))

    def on_received(self, size: int) -> None:
        """See FrameOwner."""
        self._received_epoch = self._epoch
        self.traffic.received_bytes += size

    def take_large(self, frame: memoryview) -> None:
        """See FrameOwner."""
        if self._life.state is _LOST or self._transport is None:
            return
        self._transport.set_protocol(cast(asyncio.BaseProtocol, self))
        try:
            if frame[:2] == _BATCH_HEAD:
                self._on_batch(v2.decode_batch_response(frame))
            else:
                self._on_frame(bytes(frame))
        except (ProtocolError, BookieUnavailableError) as error:
            self.fail(error)

    def _take_add_responses(self, data: bytes) -> bytes:
        """Takes the add responses at the start of ``data`` and returns the bytes after them."""
        adds = self._adds
        timed = self._latency.key
        expected, response_bytes = v2.ADD_RESPONSE_WORD, _ADD_RESPONSE.size
        whole = len(data) - len(data) % response_bytes
        taken = 0
        runs = data if whole == len(data) else data[:whole]
        for head, code, key in _ADD_RESPONSE.iter_unpack(runs):
            if head != expected:
                break
            taken += response_bytes
            pending = adds.pop(key, None)
            if pending is None:
                continue  # it timed out, or was sent twice
            op, replica, size, _ = pending
            self.in_flight_bytes -= size
            if key == timed:
                self._latency.end(self._loop.time())
            op.on_added(op, replica, self._error(code) if code else None)
            if adds is not self._adds:  # failed meanwhile: all pending adds have completed
                return b""
        return data[taken:]

    def _on_frame(self, frame: bytes) -> None:
        if not frame or frame[0] != v2.VERSION:
            self._on_message(v3.decode_response(frame))
            return
        response = v2.decode_response(frame)
        if isinstance(response, v2.ReadResponse):
            self._on_read(response)
        elif isinstance(response, v2.BatchReadResponse):
            self._on_batch(response)
        elif isinstance(response, v2.AddResponse):
            self._on_add_response(response)
        else:
            self._on_auth_response(response)

    def _on_add_response(self, response: v2.AddResponse) -> None:
        key = _KEY.pack(response.ledger_id, response.entry_id)
        add = self._adds.pop(key, None)
        if add is not None:  # else it timed out, or was sent twice
            op, replica, size, _ = add
            self.in_flight_bytes -= size
            if key == self._latency.key:
                self._latency.end(self._loop.time())
            op.on_added(op, replica, self._error(response.code))

    def _on_read(self, response: v2.ReadResponse) -> None:
        key = _KEY.pack(response.ledger_id, response.entry_id)
        queue = self._reads.get(key)
        if queue is None:
            return
        pending = queue.pop(0)
        if not queue:
            del self._reads[key]
        self.in_flight_bytes -= pending.size
        pending.on_response(self._error(response.code), response.body)

    def _on_batch(self, response: v2.BatchReadResponse) -> None:
        self._on_numbered(response.request_id, self._error(response.code), response.entries)

    def _on_message(self, response: pb.Response) -> None:
        self._on_numbered(response.header.txn_id, None, response)

    def _error(self, code: int) -> RhumblineError | None:
        cls = error_of_code(code)
        return cls(f"{self.bookie} responded with code {code}") if cls is not None else None

    def _on_numbered(self, number: int, error: RhumblineError | None, response: object) -> None:
        pending = self._numbered.pop(number, None)
        if pending is not None:
            self.in_flight_bytes -= pending.size
            pending.on_response(error, response)

    def _on_auth_response(self, response: v2.AuthResponse) -> None:
        if self._life.state is not _HANDSHAKE:
            raise ProtocolError(f"{self.bookie} sent an AUTH response without a request")
        handshake.check_response(response.plugin, response.payload, self.bookie)
        self._latency.on_round_trip((self._loop.time() - self._greeted_at) * 1000)
        self._on_ready(ConnectionEvent.PROVE)

    # --- time -----------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        self._timer = None
        self._epoch += 1
        late = self._take_late()
        if late and self._epoch - self._received_epoch > _TICKS:
            # Nothing was received for a whole timeout: a dead peer, or a path that drops packets.
            self.fail(BookieUnavailableError(f"{self.bookie} is silent"))
        error = DeadlineExceededError(f"{self.bookie} did not respond in time")
        for pending in late:
            pending.on_response(error, None)
        if not self.is_idle and self._life.state is _READY:
            self._timer = self._loop.call_later(self._tick_s, self._on_tick)

    def _take_late(self) -> list[_PendingRequest]:
        """Removes and returns the requests that timed out. Adds are in the order of sending."""
        now = self._epoch
        late: list[_PendingRequest] = []
        for key, add in list(islice(self._adds.items(), _LATE_MAX)):
            if add[3] > now:
                break
            del self._adds[key]
            late.append(_PendingRequest(partial(self._add_is_late, add), add[2], now))
        for key in [key for key, queue in self._reads.items() if queue[0].expires <= now]:
            queue = self._reads[key]
            late.extend(pending for pending in queue if pending.expires <= now)
            queue[:] = [pending for pending in queue if pending.expires > now]
            if not queue:
                del self._reads[key]
        for number in [n for n, pending in self._numbered.items() if pending.expires <= now]:
            late.append(self._numbered.pop(number))
        self.in_flight_bytes -= sum(pending.size for pending in late)
        return late

    def _add_is_late(self, add: _SentAdd, error: RhumblineError | None, _: object) -> None:
        op, replica, _, _ = add
        op.on_added(op, replica, error)
