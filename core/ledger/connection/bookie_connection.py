"""One TCP connection to one bookie: pipelined requests, answers matched, nothing lost silently.

Adds and plain reads travel as v2 packets and are matched by (ledger, entry); two equal requests
have equal answers, so either may take either's. Everything whose answer must not be mistaken for
another's (fencing reads, recovery adds, LAC reads, long polls) is a v3 message with its own number.

Invariants:

1. every request that was taken is answered exactly once: by the bookie, by a time-out, or by the
   loss of the connection (then as unavailable), never from inside the call that made it;
2. unanswered bytes and requests are bounded; above the bound requests are refused;
3. one timer per connection looks for requests that waited too long, and none runs when it is idle.
"""

import asyncio
import struct
from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from ...protocol.bookie_id import is_incarnate
from ...protocol.errors import (
    BookieUnavailableError,
    DeadlineExceededError,
    ProtocolError,
    RhumblineError,
)
from ...wire import bookkeeper_pb2 as pb
from ...wire import handshake, v2, v3
from ...wire.error_codes import error_of_code
from ...wire.frames import FRAME_BYTES_MAX, FrameSplitter
from ..config import LedgerConfig
from .large_frame import LargeFrame

if TYPE_CHECKING:
    from ..write.add_op import AddOp
    from ..write.replica import Replica
    from .bookie_link import BookieLink

_ADD_ANSWER = struct.Struct(">QI16s")  # as v2.RESPONSE, with the ids as one key
_ADD_HEAD = v2.ADD_RESPONSE_WORD.to_bytes(8, "big")
_BATCH_HEAD = bytes((v2.VERSION, v2.OP_BATCH_READ))
_KEY = struct.Struct(">qq")
_LARGE_BYTES_MIN = 128 << 10
"""Of frames that are received in place; smaller ones cost less as part of what they come with."""
_LATE_MAX = 10_000  # adds that one look takes out
_TICKS = 4  # looks per request time-out
_PATIENCE = _TICKS + 1  # looks that a request survives: 4 to 5 ticks, as it comes between two
_CONNECTING, _GREETING, _READY, _LOST = range(4)


OnMessage = Callable[[RhumblineError | None, pb.Response | None], None]
"""(what went wrong on the way, the answer): exactly one of them."""


_SentAdd = tuple["AddOp", "Replica", int, int]  # op, replica, size, expires


class _Waiting:
    """A read or message that waits for its answer."""

    __slots__ = ("expires", "on_answer", "size")

    def __init__(
        self, on_answer: Callable[[RhumblineError | None, Any], None], size: int, expires: int
    ) -> None:
        self.on_answer = on_answer
        self.size = size
        self.expires = expires


class BookieConnection:
    """Made by a ``BookieLink``, which also decides when to connect again."""

    def __init__(self, link: "BookieLink", config: LedgerConfig) -> None:
        self.link = link
        self.in_flight_bytes = 0
        self._loop = asyncio.get_running_loop()
        self._bytes_max = config.in_flight_bytes_max
        self._requests_max = config.in_flight_requests_max
        self._tick_s = config.request_timeout_ms / 1000 / _TICKS
        self._state = _CONNECTING
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self._splitter = FrameSplitter(FRAME_BYTES_MAX)
        self._out: list[bytes] = []
        self._adds: dict[bytes, _SentAdd] = {}
        self._reads: dict[bytes, list[_Waiting]] = {}
        self._numbered: dict[int, _Waiting] = {}
        self._last_number = 0
        self._epoch = 0
        self._heard_epoch = 0
        self._timer: asyncio.TimerHandle | None = None

    # --- requests -------------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no request waits for an answer."""
        return not (self._adds or self._reads or self._numbered)

    def send_add(self, key: bytes, frame: bytes, op: "AddOp", replica: "Replica") -> bool:
        """Takes an add for ``op.owner``; False (and nothing happened) when there is no room.

        ``key`` is the entry's first 16 bytes; the owner is told ``replica`` again with the answer.
        """
        size = len(frame)
        adds = self._adds
        if self.in_flight_bytes + size > self._bytes_max or len(adds) >= self._requests_max:
            return False
        if key in adds:  # sent again: the newer one waits in its replica
            self.in_flight_bytes -= adds.pop(key)[2]
        adds[key] = (op, replica, size, self._epoch + _PATIENCE)
        self.in_flight_bytes += size
        out = self._out
        out.append(frame)
        if len(out) == 1 and self._state == _READY:
            self._loop.call_soon(self._flush)
        return True

    def send_read(
        self,
        ledger_id: int,
        entry_id: int,
        on_answer: Callable[[RhumblineError | None, bytes], None],
    ) -> bool:
        """Asks for an entry; ``on_answer(None, entry)`` or ``(error, b"")``. False: no room."""
        frame = v2.encode_read(ledger_id, entry_id)
        waiting = self._wait(on_answer, frame, _PATIENCE)
        if waiting is None:
            return False
        self._reads.setdefault(_KEY.pack(ledger_id, entry_id), []).append(waiting)
        return True

    def send_batch_read(
        self,
        ledger_id: int,
        entry_id: int,
        limits: tuple[int, int],
        on_answer: Callable[[RhumblineError | None, list[bytes | memoryview]], None],
    ) -> bool:
        """Asks for consecutive entries from ``entry_id`` on; ``limits``: (entries, bytes)."""
        number = self._next_number()
        count_max, bytes_max = limits
        frame = v2.encode_batch_read(
            ledger_id, entry_id, number, count_max=count_max, bytes_max=bytes_max
        )
        waiting = self._wait(on_answer, frame, _PATIENCE)
        if waiting is None:
            return False
        self._numbered[number] = waiting
        self._flush()  # the bookie reads while the reader works on what came before
        return True

    def send_message(
        self,
        request: pb.Request,
        on_answer: OnMessage,
        *,
        extra_ms: int = 0,
    ) -> bool:
        """Sends a v3 request under the next number; False: no room.

        ``extra_ms``: how much longer than other requests it may wait (a long poll's own time-out).
        The error is the transport's alone: the status in the answer is the caller's to read.
        """
        request.header.txn_id = number = self._next_number()
        ticks = _PATIENCE + -(-extra_ms // max(1, int(self._tick_s * 1000)))
        waiting = self._wait(on_answer, v3.frame(request), ticks)
        if waiting is None:
            return False
        self._numbered[number] = waiting
        return True

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number

    def _wait(
        self, on_answer: Callable[[RhumblineError | None, Any], None], frame: bytes, ticks: int
    ) -> _Waiting | None:
        size = len(frame)
        requests = len(self._reads) + len(self._numbered)
        if self.in_flight_bytes + size > self._bytes_max or requests >= self._requests_max:
            return None
        self.in_flight_bytes += size
        self._out.append(frame)
        if len(self._out) == 1 and self._state == _READY:
            self._loop.call_soon(self._flush)
        return _Waiting(on_answer, size, self._epoch + ticks)

    def _flush(self) -> None:
        if self._is_paused or self._state != _READY or not self._out:
            return
        assert self._transport is not None
        out, self._out = self._out, []
        data = b"".join(out) if len(out) > 1 else out[0]
        self.link.sent_bytes += len(data)
        self._transport.write(data)
        if self._timer is None:
            self._timer = self._loop.call_later(self._tick_s, self._on_tick)

    # --- the transport --------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Returns when requests flow. Raises BookieUnavailableError when the connection ended."""
        await asyncio.shield(self._ready)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected: an incarnate bookie must first say that it is the one we want."""
        transport = cast(asyncio.Transport, transport)  # uvloop's does not say so itself
        if self._state == _LOST:  # the link gave up meanwhile
            transport.abort()
            return
        self._transport = transport
        if is_incarnate(self.link.bookie):
            self._state = _GREETING
            transport.write(
                v2.encode_auth(handshake.PLUGIN, handshake.encode_hello(self.link.bookie))
            )
        else:
            self._on_ready()

    def _on_ready(self) -> None:
        self._state = _READY
        if not self._ready.done():
            self._ready.set_result(None)
        self._flush()

    def pause_writing(self) -> None:
        """The socket's buffer is full: requests gather here, within their bounds."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """The socket takes bytes again."""
        self._is_paused = False
        self._flush()

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The peer went: every request that waits fails as unavailable."""
        self.fail(
            BookieUnavailableError(f"connection to {self.link.bookie} lost: {exc or 'closed'}")
        )

    def fail(self, error: RhumblineError) -> None:
        """Ends the connection; every waiting request hears ``error``. Safe to repeat."""
        if self._state == _LOST:
            return
        self._state = _LOST
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()
        self._out.clear()
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()  # whoever waits gets it; nobody needs to
        self.link.on_lost(self, error)
        adds, self._adds = self._adds, {}
        reads, self._reads = self._reads, {}
        numbered, self._numbered = self._numbered, {}
        self.in_flight_bytes = 0
        for op, replica, _, _ in adds.values():
            op.owner.on_added(op, replica, error)
        for queue in reads.values():
            for waiting in queue:
                waiting.on_answer(error, b"")
        for waiting in numbered.values():
            waiting.on_answer(error, None)

    # --- answers --------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Answers arrived; runs of add answers, the hot case, are matched without being cut up."""
        self._heard_epoch = self._epoch
        self.link.received_bytes += len(data)
        try:
            if not self._splitter.held_bytes and data.startswith(_ADD_HEAD):
                data = self._take_add_answers(data)
                if not data:
                    return
            data, starts, stops = self._splitter.cut(data)
            for start, stop in zip(starts, stops, strict=True):
                if self._state == _LOST:
                    return
                if data.startswith(_BATCH_HEAD, start):  # large, and looked at in place
                    self._on_batch(v2.decode_batch_response(memoryview(data)[start:stop]))
                else:
                    self._on_frame(data[start:stop])
            if self._splitter.held_bytes and self._state != _LOST:
                self._receive_large()
        except (ProtocolError, BookieUnavailableError) as error:
            self.fail(error)

    def _receive_large(self) -> None:
        """Has the rest of a large frame come without being copied together."""
        begun = self._splitter.take_begun(_LARGE_BYTES_MIN)
        if begun is not None and self._transport is not None:
            receiver = LargeFrame(self, *begun)
            self._transport.set_protocol(cast(asyncio.BaseProtocol, receiver))

    def heard(self, size: int) -> None:
        """See FrameOwner."""
        self._heard_epoch = self._epoch
        self.link.received_bytes += size

    def take_large(self, frame: memoryview) -> None:
        """See FrameOwner."""
        if self._state == _LOST or self._transport is None:
            return
        self._transport.set_protocol(cast(asyncio.BaseProtocol, self))
        try:
            if frame[:2] == _BATCH_HEAD:
                self._on_batch(v2.decode_batch_response(frame))
            else:
                self._on_frame(bytes(frame))
        except (ProtocolError, BookieUnavailableError) as error:
            self.fail(error)

    def _take_add_answers(self, data: bytes) -> bytes:
        """Matches the add answers at the start of ``data`` and returns what follows them."""
        adds = self._adds
        whole = len(data) - len(data) % _ADD_ANSWER.size
        taken = 0
        runs = data if whole == len(data) else data[:whole]
        for head, code, key in _ADD_ANSWER.iter_unpack(runs):
            if head != v2.ADD_RESPONSE_WORD:
                break
            taken += _ADD_ANSWER.size
            waiting = adds.pop(key, None)
            if waiting is None:
                continue  # it waited too long, or was sent twice
            op, replica, size, _ = waiting
            self.in_flight_bytes -= size
            op.owner.on_added(op, replica, self._error(code) if code else None)
            if adds is not self._adds:  # failed meanwhile: those that waited have heard
                return b""
        return data[taken:]

    def _on_frame(self, frame: bytes) -> None:
        if not frame or frame[0] != v2.VERSION:
            self._on_message(v3.decode_response(frame))
            return
        answer = v2.decode_response(frame)
        if isinstance(answer, v2.ReadResponse):
            self._on_read(answer)
        elif isinstance(answer, v2.BatchReadResponse):
            self._on_batch(answer)
        elif isinstance(answer, v2.AddResponse):
            self._take_add_answers(v2.encode_add_response(*answer))
        else:
            self._on_greeting(answer)

    def _on_read(self, answer: v2.ReadResponse) -> None:
        key = _KEY.pack(answer.ledger_id, answer.entry_id)
        queue = self._reads.get(key)
        if queue is None:
            return
        waiting = queue.pop(0)
        if not queue:
            del self._reads[key]
        self.in_flight_bytes -= waiting.size
        waiting.on_answer(self._error(answer.code), answer.body)

    def _on_batch(self, answer: v2.BatchReadResponse) -> None:
        self._on_numbered(answer.request_id, self._error(answer.code), answer.entries)

    def _on_message(self, response: pb.Response) -> None:
        self._on_numbered(response.header.txn_id, None, response)

    def _error(self, code: int) -> RhumblineError | None:
        cls = error_of_code(code)
        return cls(f"{self.link.bookie} answered code {code}") if cls is not None else None

    def _on_numbered(self, number: int, error: RhumblineError | None, answer: object) -> None:
        waiting = self._numbered.pop(number, None)
        if waiting is not None:
            self.in_flight_bytes -= waiting.size
            waiting.on_answer(error, answer)

    def _on_greeting(self, answer: v2.AuthResponse) -> None:
        if self._state != _GREETING:
            raise ProtocolError(f"{self.link.bookie} sent an AUTH answer that nobody asked for")
        handshake.check_answer(answer.plugin, answer.payload, self.link.bookie)
        self._on_ready()

    # --- time -----------------------------------------------------------------------------------

    def _on_tick(self) -> None:
        self._timer = None
        self._epoch += 1
        late = self._take_late()
        if late and self._epoch - self._heard_epoch > _TICKS:
            # Nothing at all came for a whole time-out: a dead peer, or a path that drops packets.
            self.fail(BookieUnavailableError(f"{self.link.bookie} is silent"))
        error = DeadlineExceededError(f"{self.link.bookie} did not answer in time")
        for waiting in late:
            waiting.on_answer(error, None)
        if not self.is_idle and self._state == _READY:
            self._timer = self._loop.call_later(self._tick_s, self._on_tick)

    def _take_late(self) -> list[_Waiting]:
        """Removes the requests that waited too long; adds are in order of sending."""
        now = self._epoch
        late: list[_Waiting] = []
        for key, add in list(islice(self._adds.items(), _LATE_MAX)):
            if add[3] > now:
                break
            del self._adds[key]
            late.append(_Waiting(partial(self._add_is_late, add), add[2], now))
        for key in [key for key, queue in self._reads.items() if queue[0].expires <= now]:
            queue = self._reads[key]
            late.extend(waiting for waiting in queue if waiting.expires <= now)
            queue[:] = [waiting for waiting in queue if waiting.expires > now]
            if not queue:
                del self._reads[key]
        for number in [n for n, waiting in self._numbered.items() if waiting.expires <= now]:
            late.append(self._numbered.pop(number))
        self.in_flight_bytes -= sum(waiting.size for waiting in late)
        return late

    def _add_is_late(self, add: "_SentAdd", error: RhumblineError | None, _: object) -> None:
        op, replica, _, _ = add
        op.owner.on_added(op, replica, error)
