"""One client's connection: frames in, answers out, bounded bytes in between.

All whole frames of a chunk are served in one loop, and what is answered at once leaves with one
write. A plain v2 add to a ledger that takes them is handled here, in place; everything else goes
through the rules of ``service`` by way of its form (requests_v2, requests_v3). Both forms may come
on one connection: the first byte of each frame says which.

Limits of a connection: unanswered adds in bytes, unsent answers in bytes, reads that wait for a
file, parked polls. Above the first three its socket is not read; above the last, polls are refused.
Frames that do not end are bounded over all connections (half_frames.py).
"""

import asyncio
import struct
from collections import Counter
from collections.abc import Sequence
from typing import cast

from crc32c import crc32c

from ...protocol.errors import DiskFullError, ProtocolError, RhumblineError
from ...runtime.tasks import Tasks
from ...wire.frames import FrameSplitter
from ...wire.v2 import ADD_RESPONSE_WORD, RESPONSE
from ..log.commit_group import Outbox
from ..log.log_format import RECORD_HEADER, RECORD_HEADER_BYTES
from . import requests_v2, requests_v3
from .entry_service import EntryService
from .long_poll import ParkedPoll
from .partial_frames import PartialFrames
from .read_queue import ReadQueue
from .refusals import refusals_of
from .requests import FileRead

_PLAIN_ADD = b"\x02\x01\x00\x00"
_ADD_HEAD = struct.Struct(">4s20sqqq8x")
_ADD_HEAD_BYTES = _ADD_HEAD.size
_ENTRY_AT = 24
_ADD_OK = RESPONSE.pack(ADD_RESPONSE_WORD, 0, 0, 0)[:12]
_V2_BYTE = 0x02
_PART_BYTES_MIN = 2048  # on average; a system call looks at each part, so small ones are joined
_V3_BYTE = 0x0A


class ClientConnection:
    """The server's side of a connection."""

    def __init__(
        self,
        service: EntryService,
        tasks: Tasks,
        registry: "dict[ClientConnection, None]",
        closed_reasons: Counter[str],
        half_frames: PartialFrames,
    ) -> None:
        self.service = service
        self.polls: dict[ParkedPoll, None] = {}
        self._tasks = tasks
        self._registry = registry
        self._closed_reasons = closed_reasons
        self._splitter = FrameSplitter()
        self._half_frames = half_frames
        self._is_holding = False  # part of a frame
        self._transport: asyncio.Transport | None = None
        self._out: list[bytes] = []
        self._is_serving = False
        self._is_flush_planned = False
        self._inflight_bytes = 0
        self.is_paused = False
        self._is_write_blocked = False
        self._reads = ReadQueue(tasks, self._on_read)

    # --- asyncio.Protocol -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        if len(self._registry) >= self.service.config.connection_count_max:
            self.hang_up("too-many-connections")
            return
        self._registry[self] = None
        self._transport.set_write_buffer_limits(self.service.config.connection_write_bytes_max)

    def eof_received(self) -> bool:
        """See asyncio.Protocol."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        self._forget()
        self._out.clear()

    def pause_writing(self) -> None:
        """The peer doesn't take its answers: read no more of its requests."""
        self._is_write_blocked = True
        self._throttle()

    def resume_writing(self) -> None:
        """The peer takes them again."""
        self._is_write_blocked = False
        self._throttle()

    def data_received(self, data: bytes) -> None:
        """Serves every whole frame."""
        if self._transport is None:
            return
        self._is_serving = True
        try:
            data, starts, stops = self._splitter.cut(data)
            self._serve(data, starts, stops)
            held_bytes = self._splitter.held_bytes
            if held_bytes:
                self._is_holding = True
                self._half_frames.hold(self, held_bytes, is_new=bool(starts))
            elif self._is_holding:
                self._is_holding = False
                self._half_frames.release(self)
        except ProtocolError as error:
            self.hang_up("malformed", error)
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
        bytes_max, count_max = config.group_bytes_max, config.group_count_max
        takes_adds = service.takes_adds
        unpack, pack_record = _ADD_HEAD.unpack_from, RECORD_HEADER.pack
        group = log.group
        outbox = group.outboxes.get(self)
        request_bytes = 0
        for start, stop in zip(starts, stops, strict=True):
            if stop - start >= _ADD_HEAD_BYTES and takes_adds:
                kind, key, ledger_id, entry_id, lac = unpack(data, start)
                ledger = ledgers.get(ledger_id)
                if (
                    kind == _PLAIN_ADD
                    and ledger is not None
                    and ledger.takes_adds
                    and ledger.master_key == key
                    and -1 <= lac < entry_id
                ):
                    if group.body_bytes >= bytes_max or group.count >= count_max:
                        group = log.next_group()
                        outbox = None
                    if outbox is None:
                        outbox = group.outbox_of(self)
                    start += _ENTRY_AT
                    entry = data[start:stop]
                    size = stop - start
                    offset = group.body_bytes + RECORD_HEADER_BYTES
                    group.buffers += (pack_record(size, crc32c(entry)), entry)
                    group.adds.append((ledger, entry_id, lac, offset, size))
                    group.body_bytes = offset + size
                    group.count += 1
                    outbox.answers.append(_ADD_OK + entry[:16])
                    request_bytes += size
                    if ledger.polls:
                        service.storage.hear(ledger, lac)
                    outbox.request_bytes += size
                    continue
            self._dispatch(data[start:stop])
            group = log.group
            outbox = group.outboxes.get(self)
        if request_bytes:
            self._inflight_bytes += request_bytes
            log.kick()

    def _dispatch(self, frame: bytes) -> None:
        form = frame[0]
        if form == _V2_BYTE:
            requests_v2.serve(self, self.service, frame)
        elif form == _V3_BYTE:
            requests_v3.serve(self, self.service, frame)
        else:
            raise ProtocolError(f"a frame that begins with {form:#04x}")

    # --- answers --------------------------------------------------------------------------------

    def send(self, frame: bytes) -> None:
        """Queues an answer; what is queued in one turn of the loop leaves with one write."""
        if self._transport is None:
            return
        self._out.append(frame)
        if not self._is_serving and not self._is_flush_planned:
            self._is_flush_planned = True
            asyncio.get_running_loop().call_soon(self._flush)

    def send_parts(self, parts: Sequence[bytes | memoryview]) -> None:
        """Sends a large answer now, without copying its parts together if they are worth it."""
        if self._transport is None:
            return
        if sum(map(len, parts)) < _PART_BYTES_MIN * len(parts):
            self._transport.write(b"".join(parts))
        else:
            self._transport.writelines(parts)

    def _flush(self) -> None:
        self._is_flush_planned = False
        if self._transport is not None and self._out:
            frames, self._out = self._out, []
            self._transport.write(b"".join(frames))

    def expect(self, request_bytes: int) -> None:
        """An add was taken that will be answered through an outbox, or by ``settle``."""
        self._inflight_bytes += request_bytes

    def settle(self, request_bytes: int) -> None:
        """So many bytes of requests have been answered."""
        self._inflight_bytes -= request_bytes
        assert self._inflight_bytes >= 0
        if self.is_paused:
            self._throttle()

    def answered(self, outbox: Outbox) -> None:
        """See commit_group.Answerer."""
        if self._transport is not None:
            self._transport.write(b"".join(outbox.answers))
        self.settle(outbox.request_bytes)

    def refused(self, outbox: Outbox, error: RhumblineError) -> None:
        """See commit_group.Answerer.

        Adds that found no space are told so. Of others this bookie cannot tell the outcome: it
        hangs up.
        """
        if isinstance(error, DiskFullError):
            if self._transport is not None:
                self._transport.write(refusals_of(outbox.answers, error))
            self.settle(outbox.request_bytes)
            return
        self.settle(outbox.request_bytes)
        self.hang_up("write-refused", error)

    def hang_up(self, reason: str, error: RhumblineError | None = None) -> None:
        """Closes this connection, and nothing else, for a reason that is counted."""
        if self._transport is None:
            return
        self._closed_reasons[reason] += 1
        self._flush()
        self._transport.close()
        self._transport = None
        self._forget()

    def _forget(self) -> None:
        self._registry.pop(self, None)
        self._half_frames.release(self)
        self.service.polls.drop(self.polls)
        self._reads.clear()

    def abort(self) -> None:
        """Closes at once, dropping what was not sent (shutdown)."""
        if self._transport is not None:
            self._transport.abort()

    def _throttle(self) -> None:
        """Reads the socket or not, by what is in flight."""
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

    def read_later(self, read: FileRead) -> None:
        """Runs a read that needs a file; so many side by side, the others in their turn."""
        self._reads.add(read)

    def _on_read(self) -> None:
        if self.is_paused:
            self._throttle()
