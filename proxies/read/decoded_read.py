"""Decoded records of one reader, for clients that cannot decode record sets (rule PRX-37).

The entries come from the cursor, as for any other reader. The stream reader of the core decodes
them, so a client of this kind gets the same records and the same errors as an application in
Python. Decoding is done for each reader separately, and a little at a time: as many records as the
client accepts, and at most one message full.
"""

import asyncio
from collections.abc import Sequence

from ...core.log.read.entry_source import Chunk
from ...core.log.read.record_batch import RecordBatch
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.attributes.attribute_values import Headers
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import CorruptionError, EndOfStreamError
from ...core.protocol.record_set import NO_PRODUCER
from ...core.protocol.start import AtEventTime, AtTime, AtTxid, Start
from ..rpc import rhumbline_pb2 as pb
from .entry_block import BLOCK_BYTES_MAX
from .flow_control import ReadCredit
from .read_cursor import ReadCursor

MESSAGE_RECORDS_MAX = 1_000
"""Most records of a message. It bounds how long the event loop encodes without a pause."""


_Attributes = tuple[bytes | None, Headers, int | None]
"""Key, headers and event time of a record."""


class _BlockEntry:
    """An entry of a block."""

    __slots__ = ("entry_id", "payload")

    def __init__(self, entry_id: int, payload: bytes) -> None:
        self.entry_id = entry_id
        self.payload = payload


class CursorSource:
    """The entries of a cursor, as a stream reader fetches them. It leaves the cursor open."""

    def __init__(self, cursor: ReadCursor) -> None:
        self._cursor = cursor

    @property
    def lssn(self) -> int:
        """The segment of the next entry."""
        return self._cursor.position[0]

    @property
    def entry_id(self) -> int:
        """The id of the next entry."""
        return self._cursor.position[1]

    @property
    def is_ready(self) -> bool:
        """Always False: no block is fetched before its reader needs it."""
        return False

    async def fetch(self, ahead_bytes: int = 0) -> Chunk:
        """Return the entries of the next block. Raises what the cursor raises, EndOfStreamError."""
        block = await self._cursor.next()
        if block is None:
            raise EndOfStreamError("the stream or the read has ended")
        lssn, first = block.start
        entries = [_BlockEntry(first + at, entry) for at, entry in enumerate(block.payloads())]
        return Chunk(lssn, block.start_sequence_id, entries)

    async def aclose(self) -> None:
        """Do nothing: the read proxy closes the cursor."""


class RecordBlock:
    """Encoded records, as a message that is ready to be sent."""

    __slots__ = ("_parts", "size")

    def __init__(self, parts: list[bytes], size: int) -> None:
        self._parts = parts
        self.size = size
        """Bytes of the payloads, keys and headers."""

    def encoded(self) -> bytes:
        """Return the block as an encoded ReadResponse.

        Joined, encoded messages are one message with all of their records.
        """
        return b"".join(self._parts)


class DecodedRead:
    """The records of a read, in blocks that its credit permits."""

    def __init__(
        self,
        cursor: ReadCursor,
        credit: ReadCredit,
        *,
        stream: str,
        start: Start,
        position: Dlsn,
    ) -> None:
        """``position`` is where the cursor was opened for ``start``."""
        self._credit = credit
        self._reader = StreamReader(
            CursorSource(cursor),
            stream=stream,
            stream_id=position.stream_id,
            first_slot=position.slot,
            checks_slot=isinstance(start, Dlsn) and start == position,  # it was not truncated
            first_txid=start.txid if isinstance(start, AtTxid) else 0,
            first_created_ms=start.created_ms if isinstance(start, AtTime) else 0,
            first_event_ms=start.event_ms if isinstance(start, AtEventTime) else None,
        )
        self._batch: RecordBatch | None = None
        self._payloads: list[bytes] = []  # of the records of the batch
        self._txids: Sequence[int] = ()
        self._attributes: Sequence[_Attributes] = ()  # empty if no record of the set has any
        self._next = 0  # the first of them that was not sent
        self._failure: CorruptionError | None = None  # of the records after those of the batch

    async def next(self, timeout_s: float | None = None) -> RecordBlock | None:
        """Return the next records, within the credit, or None at the end. Waits at the tail.

        Raises TimeoutError and what reading raises; no record is lost then.
        """
        if self._failure is not None:
            raise self._failure
        if self._batch is None:
            async with asyncio.timeout(timeout_s):
                self._take(await self._reader.next_batch())
        if self._batch is None:
            return None
        parts: list[bytes] = []
        size, count_max = 0, min(MESSAGE_RECORDS_MAX, self._credit.records_left)
        bytes_max = min(BLOCK_BYTES_MAX, self._credit.bytes_left)
        while self._batch is not None and len(parts) < count_max and size < bytes_max:
            size += self._encode(parts, count_max - len(parts), bytes_max - size)
            if self._next == len(self._payloads):
                try:
                    self._take(self._reader.try_next_batch())
                except CorruptionError as error:  # raised once the records before it were sent
                    self._failure = error
        self._credit.take_records(len(parts))
        return RecordBlock(parts, size)

    async def aclose(self) -> None:
        """Stop reading. Safe to repeat."""
        await self._reader.aclose()

    def _take(self, batch: RecordBatch | None) -> None:
        """Continue with a batch. Raises CorruptionError; there is no batch then."""
        self._batch, self._next, self._payloads, self._attributes = None, 0, [], ()
        if batch is None:
            return
        self._txids = batch.txids()
        if batch.record_set.attributes is not None:
            columns = batch.keys(), batch.headers(), batch.event_times()
            self._attributes = list(zip(*columns, strict=True))
        self._payloads, self._batch = batch.payloads(), batch

    def _encode(self, parts: list[bytes], count_max: int, bytes_max: int) -> int:
        """Encode records of the batch until one of the limits is reached; return their bytes."""
        batch, first = self._batch, self._next
        assert batch is not None
        record_set, txids = batch.record_set, self._txids
        message = pb.ReadResponse()  # one message serves all records, which saves most of the time
        record = message.records.add(
            created_ms=record_set.created_ms, traceparent=batch.traceparent or ""
        )
        position = record.position
        position.lssn, position.entry_id = batch.lssn, batch.entry_id
        position.stream_id = batch.stream_id
        first_slot = batch.first_dlsn.slot
        sequence = None
        if record_set.producer != NO_PRODUCER:
            record.producer = record_set.producer
            sequence = record_set.first_sequence + batch.first_index
        sequence_id = None
        if batch.start_sequence_id is not None:
            sequence_id = batch.start_sequence_id + record_set.position + batch.first_index
        size = 0
        for at in range(first, min(len(self._payloads), first + count_max)):
            payload = self._payloads[at]
            record.payload, record.txid, position.slot = payload, txids[at], first_slot + at
            if sequence is not None:
                record.sequence = sequence + at
            if sequence_id is not None:
                record.sequence_id = sequence_id + at
            if self._attributes:
                size += _set_attributes(record, self._attributes[at])
            parts.append(message.SerializeToString())
            size += len(payload)
            self._next = at + 1
            if size >= bytes_max:
                break
        return size


def _set_attributes(record: pb.Record, attributes: _Attributes) -> int:
    """Replace the attributes of ``record``, which may have those of another record.

    Returns the bytes of the key and the headers.
    """
    key, headers, event_time = attributes
    size = 0
    record.ClearField("key")
    record.ClearField("event_time")
    del record.headers[:]
    if key is not None:
        record.key = key
        size += len(key)
    if event_time is not None:
        record.event_time = event_time
    for name, value in headers.items():
        record.headers.add(name=name, value=value)
        size += len(name) + len(value)
    return size
