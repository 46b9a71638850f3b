"""Records and record batches, as a reader returns them to applications.

They are created often, so they use slots and compute their properties on access. They are
immutable by convention.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from ...protocol.attributes.attribute_values import NO_HEADERS, Headers
from ...protocol.dlsn import Dlsn, dlsn_in
from ...protocol.record_arrow import arrow_batch
from ...protocol.record_set import NO_PRODUCER, RecordSet
from ...runtime.trace_context import traceparent_in
from ...runtime.tracing import Span

if TYPE_CHECKING:
    import pyarrow as pa


class Record:
    """One record of a stream."""

    __slots__ = ("_batch", "_index", "payload", "txid")

    def __init__(self, payload: bytes, txid: int, index: int, batch: "RecordBatch") -> None:
        self.payload = payload
        self.txid = txid
        self._index = index  # index in the whole record set
        self._batch = batch

    @property
    def dlsn(self) -> Dlsn:
        """The permanent position of the record."""
        batch = self._batch
        slot = batch.record_set.slot + self._index
        return dlsn_in(batch.stream_id, batch.lssn, batch.entry_id, slot)

    @property
    def sequence_id(self) -> int | None:
        """The number of records before this one in the stream, truncated ones included.

        None while an earlier segment is in progress, because its end is not final.
        """
        batch = self._batch
        if batch.start_sequence_id is None:
            return None
        return batch.start_sequence_id + batch.record_set.position + self._index

    @property
    def key(self) -> bytes | None:
        """The key, or None if the record has none. Raises CorruptionError."""
        attributes = self._batch.record_set.attributes
        return None if attributes is None else attributes.keys()[self._index]

    @property
    def headers(self) -> Headers:
        """The headers: bytes by name, perhaps none. Raises CorruptionError."""
        attributes = self._batch.record_set.attributes
        return NO_HEADERS if attributes is None else attributes.headers()[self._index]

    @property
    def event_time(self) -> int | None:
        """The event time in ms since the Unix epoch, or None. Raises CorruptionError."""
        attributes = self._batch.record_set.attributes
        return None if attributes is None else attributes.event_times()[self._index]

    @property
    def created_ms(self) -> int:
        """Time of day in ms at which the producer created the record set."""
        return self._batch.record_set.created_ms

    @property
    def producer(self) -> tuple[bytes, int] | None:
        """(producer id, sequence) if the record is from a numbered producer, else None."""
        batch = self._batch.record_set
        if batch.producer == NO_PRODUCER:
            return None
        return batch.producer, batch.first_sequence + self._index

    def __repr__(self) -> str:
        """Return the position, the txid and the first 20 bytes of the payload."""
        return f"Record({self.dlsn}, txid={self.txid}, {self.payload[:20]!r})"


class RecordBatch:
    """Consecutive records of one record set: the whole set, or its records from a start on."""

    __slots__ = (
        "delivery",
        "entry_id",
        "first_index",
        "lssn",
        "record_set",
        "start_sequence_id",
        "stream_id",
    )

    def __init__(
        self,
        lssn: int,
        entry_id: int,
        record_set: RecordSet,
        *,
        first_index: int = 0,
        start_sequence_id: int | None = None,
        stream_id: str = "",
    ) -> None:
        self.lssn = lssn
        self.entry_id = entry_id
        self.record_set = record_set
        self.first_index = first_index
        self.start_sequence_id = start_sequence_id  # of the segment
        self.stream_id = stream_id
        self.delivery: Span | None = None  # if the reader traces it

    def __len__(self) -> int:
        """Number of records."""
        return self.record_set.count - self.first_index

    @property
    def first_dlsn(self) -> Dlsn:
        """Position of the first record."""
        slot = self.record_set.slot + self.first_index
        return dlsn_in(self.stream_id, self.lssn, self.entry_id, slot)

    @property
    def last_dlsn(self) -> Dlsn:
        """The position of the last record."""
        slot = self.record_set.slot + self.record_set.count - 1
        return dlsn_in(self.stream_id, self.lssn, self.entry_id, slot)

    @property
    def last_txid(self) -> int:
        """The txid of the last record."""
        return self.record_set.last_txid

    @property
    def traceparent(self) -> str | None:
        """The W3C ``traceparent`` of the producer's span, if the producer traced it."""
        return traceparent_in(self.record_set.extension)

    def without_first(self, count: int) -> "RecordBatch":
        """Return the records after the first ``count``, which must be fewer than all."""
        assert 0 <= count < len(self)
        return RecordBatch(
            self.lssn,
            self.entry_id,
            self.record_set,
            first_index=self.first_index + count,
            start_sequence_id=self.start_sequence_id,
            stream_id=self.stream_id,
        )

    def payloads(self) -> list[bytes]:
        """Return all payloads. Raises CorruptionError."""
        return self.record_set.payloads()[self.first_index :]

    def txids(self) -> Sequence[int]:
        """Return all txids. Raises CorruptionError."""
        return self.record_set.txids()[self.first_index :]

    def keys(self) -> Sequence[bytes | None]:
        """Return the key of each record, None for a record without one. Raises CorruptionError."""
        attributes = self.record_set.attributes
        if attributes is None:
            return [None] * len(self)
        return attributes.keys()[self.first_index :]

    def headers(self) -> Sequence[Headers]:
        """Return the headers of each record, which may be empty. Raises CorruptionError."""
        attributes = self.record_set.attributes
        if attributes is None:
            return [NO_HEADERS] * len(self)
        return attributes.headers()[self.first_index :]

    def event_times(self) -> Sequence[int | None]:
        """Return the event time of each record in ms, or None. Raises CorruptionError."""
        attributes = self.record_set.attributes
        if attributes is None:
            return [None] * len(self)
        return attributes.event_times()[self.first_index :]

    def records(self) -> list[Record]:
        """Return all records. Raises CorruptionError."""
        record_set = self.record_set
        records = list(
            map(
                Record,
                record_set.payloads(),
                record_set.txids(),
                range(record_set.count),
                repeat(self),
            )
        )
        return records[self.first_index :] if self.first_index else records

    def to_arrow(
        self, *, with_positions: bool = False, with_attributes: bool = False
    ) -> "pa.RecordBatch":
        """Return columns ``txid`` and ``payload`` as views of the entry's bytes, without copying.

        The views keep what contained the entry in memory: a read response, up to
        ``read_batch_bytes_max`` of the ledger client, or about 4 MiB of an archive.

        ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, named and typed
        as in the archive. ``with_attributes`` adds ``key``, ``headers`` and ``event_time`` (ms),
        null where a record has none. Requires pyarrow. Raises CorruptionError.
        """
        batch = arrow_batch(
            self.record_set,
            lssn=self.lssn,
            entry_id=self.entry_id,
            with_positions=with_positions,
            with_attributes=with_attributes,
        )
        return batch.slice(self.first_index) if self.first_index else batch
