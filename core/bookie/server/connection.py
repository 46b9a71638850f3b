"""A client connection of the bookie: splits frames, serves them, sends responses, limits memory.

All complete frames of a received chunk are served in one loop, and immediate responses leave with
one write. A plain v2 add to a ledger that accepts adds is handled here, in place (rules BKE-8,
BKE-9). Every other request is decoded by its wire form (requests_v2, requests_v3) and served by
``EntryService``. Both forms may be mixed on one connection: the first byte of a frame shows which.

Each connection has limits: bytes of adds in flight, bytes of unsent responses, queued file reads
and parked polls. Above one of the first three, the socket is not read; further polls are refused.
Partial frames, unsent responses and running file reads are limited over all connections too
(limits, read_queue.py). While too many responses of a connection are unsent, its reads wait in its
queue. A peer that does not read them does not keep a connection that the bookie closes.

The frames of a client that may use only some ledgers pass a guard (frame_guard.py).
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Sequence
from typing import cast

from ...protocol.errors import DiskFullError, ProtocolError, RhumblineError
from ...runtime.tasks import Tasks
from ...wire.error_codes import code_for
from ...wire.frames import FrameSplitter
from ...wire.v2 import ADD_KEY_BYTES, Code, add_response_head
from ..log.commit_group import Outbox
from ..permissions.frame_guard import CLOSED_BY_CHANGE, FrameGuard
from . import requests_v2, requests_v3
from .entry_service import EntryService
from .limits.open_connections import OpenConnections
from .limits.partial_frames import PartialFrames
from .limits.unsent_responses import COUNTED_BYTES_MIN, UnsentResponses
from .long_poll import ParkedPoll
from .operation_meter import ADD
from .read_queue import ReadQueue
from .requests import FileRead

_PLAIN_ADD = b"\x02\x01\x00\x00"
_ADD_HEAD = struct.Struct(">4s20sqqq8x")
_ADD_HEAD_BYTES = _ADD_HEAD.size
_ENTRY_OFFSET = 24
_V2_BYTE = 0x02
_PART_BYTES_MIN = 2048  # on average; smaller parts are joined, as each part costs in a writev
_V3_BYTE = 0x0A
_UNSENT_S_MAX = 10.0
"""Time for which a connection that is closed still sends responses."""


class ClientConnection:
    """The server side of a connection."""

    def __init__(
        self,
        service: EntryService,
        tasks: Tasks,
        open_connections: OpenConnections,
        closed_reasons: Counter[str],
        partial_frames: PartialFrames,
        unsent: UnsentResponses,
    ) -> None:
        self.service = service
        self.polls: dict[ParkedPoll, None] = {}
        self._tasks = tasks
        self._open_connections = open_connections
        self._closed_reasons = closed_reasons
        self._splitter = FrameSplitter()
        self._partial_frames = partial_frames
        self._has_partial_frame = False
        self._unsent = unsent
        self._transport: asyncio.Transport | None = None
        self._closing: asyncio.Transport | None = None  # it still sends responses
        self._out: list[bytes] = []
        self._out_bytes = 0
        self.written_bytes = 0
        self._is_serving = False
        self._is_flush_planned = False
        self._inflight_bytes = 0
        self.host = ""
        self.idle_rounds = 0
        self.is_paused = False
        self._is_write_blocked = False
        self._reads = ReadQueue(tasks, service.read_slots, self._on_read)
        self._guard: FrameGuard | None = None

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        peer = self.extra_info("peername")
        self.host = str(peer[0]) if isinstance(peer, tuple) else ""
        if not self._open_connections.add(self):
            self.service.on_refused(self, "connect", None, "too-many-connections")
            self.close("too-many-connections")
            return
        self.limit_unsent(self.service.config.connection_write_bytes_max)
        self._guard = self.service.clients.guard_of(self)

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = self._closing = None
        self._unsent.release(self)
        self._release()
        self._out.clear()

    def pause_writing(self) -> None:
        """Stops reading requests and files, because the peer does not read its responses."""
        self._is_write_blocked = True
        self._reads.hold()
        self._throttle()

    def resume_writing(self) -> None:
        """Reads requests and files again."""
        self._is_write_blocked = False
        self.idle_rounds = 0
        self._unsent.release(self)
        self.limit_unsent(self.service.config.connection_write_bytes_max)
        self._reads.resume()
        self._throttle()

    def data_received(self, data: bytes) -> None:
        """Serves every complete frame."""
        if self._transport is None:
            return
        self.idle_rounds = 0
        if self._guard is not None:
            self._guard.begin()
        self._is_serving = True
        try:
            data, starts, stops = self._splitter.cut(data)
            self._serve(data, starts, stops)
            held_bytes = self._splitter.held_bytes
            if held_bytes:
                self._has_partial_frame = True
                self._partial_frames.hold(self, held_bytes, is_new=bool(starts))
            elif self._has_partial_frame:
                self._has_partial_frame = False
                self._partial_frames.release(self)
        except ProtocolError as error:
            self.close("malformed", error)
        finally:
            self._is_serving = False
        if self._out:
            self._flush()
        self._throttle()

    # --- serving --------------------------------------------------------------------------------

    def _serve(self, data: bytes, starts: list[int], stops: list[int]) -> None:
        service = self.service
        ledgers = service.ledgers
        log = service.storage.log
        config = service.config
        bytes_max, count_max = log.group_bytes_max, config.group_count_max
        accepts_adds = service.accepts_adds
        permitted = None if self._guard is None else self._guard.adds
        unpack = _ADD_HEAD.unpack_from
        group = log.group
        outbox = group.outboxes.get(self)
        request_bytes = 0
        # Nothing in this loop awaits, so no other connection can fence a ledger or close the group
        # between the checks of an add and its append.
        for start, stop in zip(starts, stops, strict=True):
            if stop - start >= _ADD_HEAD_BYTES and accepts_adds:
                kind, key, ledger_id, entry_id, lac = unpack(data, start)
                ledger = ledgers.get(ledger_id)
                # The checks of EntryService, for an add that no check refuses. Any other frame
                # falls through to the dispatch, which also finds the right error.
                if (
                    kind == _PLAIN_ADD
                    and ledger is not None
                    and ledger.accepts_adds
                    and ledger.master_key == key
                    and -1 <= lac < entry_id
                    and (permitted is None or ledger_id in permitted)
                ):
                    if group.body_bytes >= bytes_max or group.count >= count_max:
                        group = log.next_group()
                        outbox = None
                    if outbox is None:
                        outbox = group.outbox_of(self)
                    start += _ENTRY_OFFSET
                    entry = data[start:stop]
                    group.append_entry(ledger, entry_id, lac, entry, outbox)
                    outbox.adds.append(entry[:ADD_KEY_BYTES])
                    request_bytes += stop - start
                    if ledger.polls:
                        service.storage.raise_lac(ledger, lac)
                    continue
            self._dispatch(data[start:stop])
            # The dispatch may have appended to the group, or filled it and opened another.
            group = log.group
            outbox = group.outboxes.get(self)
        if request_bytes:
            self._inflight_bytes += request_bytes
            log.kick()  # once for all adds of the chunk

    def _dispatch(self, frame: bytes) -> None:
        form = frame[0]
        if form not in (_V2_BYTE, _V3_BYTE):
            raise ProtocolError(f"a frame begins with the unknown byte {form:#04x}")
        if self._guard is None or self._guard.admits(frame):
            self._serve_frame(frame)

    def _serve_frame(self, frame: bytes) -> None:
        if frame[0] == _V2_BYTE:
            requests_v2.serve(self, self.service, frame)
        else:
            requests_v3.serve(self, self.service, frame)

    def serve_checked(self, frame: bytes) -> None:
        """See GuardedConnection."""
        if self._transport is None:
            return
        try:
            self._serve_frame(frame)
        except ProtocolError as error:
            self.close("malformed", error)

    def refused(self, use: str, ledger_id: int, error: RhumblineError) -> None:
        """See GuardedConnection."""
        self.service.on_refused(self, use, ledger_id, error.code)

    # --- responses ------------------------------------------------------------------------------

    def extra_info(self, name: str) -> object:
        """See RequestConnection."""
        return None if self._transport is None else self._transport.get_extra_info(name)

    def send(self, frame: bytes) -> None:
        """Queues a response; responses of one event-loop iteration leave with one write."""
        if self._transport is None:
            return
        self._out.append(frame)
        self._out_bytes += len(frame)
        if not self._is_serving and not self._is_flush_planned:
            self._is_flush_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Sends a large response now; joins its parts only if they are small."""
        if self._transport is None:
            return
        size = sum(map(len, parts))
        if size < _PART_BYTES_MIN * len(parts):
            self._write(b"".join(parts))
        else:
            self._transport.writelines(parts)
            self._count_written(size)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if self._transport is not None and self._out:
            frames, self._out = self._out, []
            self._out_bytes = 0
            self._write(b"".join(frames))

    def _write(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)
        self._count_written(len(data))

    def _count_written(self, size: int) -> None:
        assert self._transport is not None
        self.written_bytes += size
        unsent_bytes = self._transport.get_write_buffer_size()
        if unsent_bytes >= COUNTED_BYTES_MIN:
            self._unsent.hold(self, unsent_bytes)

    @property
    def is_full(self) -> bool:
        """See RequestConnection."""
        return (
            self._is_write_blocked
            or self._out_bytes > self.service.config.connection_write_bytes_max
        )

    @property
    def unsent_bytes(self) -> int:
        """See UnsentHolder."""
        transport = self._transport or self._closing
        return 0 if transport is None else transport.get_write_buffer_size()

    def limit_unsent(self, bytes_max: int) -> None:
        """See UnsentHolder."""
        if self._transport is not None:
            self._transport.set_write_buffer_limits(bytes_max)

    def add_inflight(self, request_bytes: int) -> None:
        """Counts the bytes of an accepted add until its response is sent."""
        self._inflight_bytes += request_bytes

    def release_inflight(self, request_bytes: int) -> None:
        """Stops counting the bytes of adds whose responses were sent."""
        self._inflight_bytes -= request_bytes
        assert self._inflight_bytes >= 0
        if self.is_paused:
            self._throttle()

    def deliver(self, outbox: Outbox) -> None:
        """See commit_group.AddSink."""
        self._respond(outbox, None)

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """See commit_group.AddSink.

        Adds that found no space get an error response. The outcome of others is unknown, so the
        connection is closed.
        """
        if isinstance(error, DiskFullError):
            self._respond(outbox, error)
        else:
            self.service.meter.done(ADD, outbox.began, error, len(outbox.adds))
            self.release_inflight(outbox.request_bytes)
            self.close("write-refused", error)

    def _respond(self, outbox: Outbox, error: RhumblineError | None) -> None:
        self.service.meter.done(ADD, outbox.began, error, len(outbox.adds))
        if self._guard is not None and not self._guard.is_current:
            self.close(CLOSED_BY_CHANGE)  # the adds are not acknowledged
        if self._transport is not None:
            head = add_response_head(Code.OK if error is None else code_for(error))
            if outbox.has_requests:
                frames = [
                    head + add if isinstance(add, bytes) else add.response(error)
                    for add in outbox.adds
                ]
                self._write(b"".join(frames))
            else:
                self._write(head + head.join(cast("list[bytes]", outbox.adds)))
        self.release_inflight(outbox.request_bytes)

    def close(self, reason: str, error: RhumblineError | None = None) -> None:
        """Closes this connection and counts the reason."""
        if self._transport is None:
            return
        self._closed_reasons[reason] += 1
        if reason == "malformed":
            self.service.on_refused(self, "request", None, reason)
            self.service.log_malformed(self.extra_info("peername"), error)
        self._flush()
        transport, self._transport = self._transport, None
        if transport is None:
            return  # the flush has exceeded the limit on unsent responses
        if transport.get_write_buffer_size():  # the peer may never read it
            self._closing = transport
            asyncio.get_running_loop().call_later(_UNSENT_S_MAX, transport.abort)
        transport.close()
        self._release()

    def drop(self, reason: str) -> None:
        """See UnsentHolder."""
        transport = self._transport or self._closing
        if transport is not None:
            self._closed_reasons[reason] += 1
            self._transport = self._closing = None
            self._out.clear()
            transport.abort()
            self._release()

    def _release(self) -> None:
        self._open_connections.remove(self)
        if self._guard is not None:
            self._guard.close()
        self._partial_frames.release(self)
        self.service.polls.drop(self.polls)
        self._reads.clear()

    @property
    def has_work(self) -> bool:
        """True while a request waits for its response."""
        return self._inflight_bytes > 0 or bool(self.polls) or self._reads.is_active

    def abort(self) -> None:
        """Closes the connection immediately and drops unsent responses (shutdown)."""
        if self._transport is not None:
            self._transport.abort()

    def _throttle(self) -> None:
        """Pauses or resumes reading the socket according to the limits."""
        if self._transport is None:
            return
        config = self.service.config
        inflight = self._inflight_bytes
        is_full = (
            inflight > config.connection_inflight_bytes_max
            or (inflight > 0 and self.service.storage.log.pending_bytes > config.pending_bytes_max)
            or self._is_write_blocked
            or len(self._reads) > config.connection_reads_max
        )
        if is_full and not self.is_paused:
            self.is_paused = True
            self._transport.pause_reading()
        elif self.is_paused and not is_full:
            self.is_paused = False
            self._transport.resume_reading()

    # --- reads from files -----------------------------------------------------------------------

    def enqueue_read(self, read: FileRead) -> None:
        """Queues a read that needs a file; at most ``READERS_MAX`` run concurrently."""
        self._reads.add(read)

    def _on_read(self) -> None:
        if self.is_paused:
            self._throttle()
