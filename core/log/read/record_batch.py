"""What a reader gives to applications: records, and batches of them.

Hot values: slotted, computed when looked at, immutable by convention.
"""

from collections.abc import Sequence
from itertools import repeat
from typing import TYPE_CHECKING

from ...protocol.dlsn import Dlsn
from ...protocol.record_arrow import arrow_batch
from ...protocol.record_set import NO_PRODUCER, RecordSet
from ...protocol.trace_context import traceparent_in
from ...runtime.tracing import Span

if TYPE_CHECKING:
    import pyarrow as pa


class Record:
    """One record of a stream."""

    __slots__ = ("_batch", "_index", "payload", "txid")

    def __init__(self, payload: bytes, txid: int, index: int, batch: "RecordBatch") -> None:
        self.payload = payload
        self.txid = txid
        self._index = index  # in the whole record set
        self._batch = batch

    @property
    def dlsn(self) -> Dlsn:
        """Its position, for ever."""
        batch = self._batch
        return Dlsn(batch.lssn, batch.entry_id, batch.record_set.slot + self._index)

    @property
    def sequence_id(self) -> int | None:
        """How many records the stream has before it, truncated ones included.

        None while an earlier segment is not completed, since its end is not final then.
        """
        batch = self._batch
        if batch.start_sequence_id is None:
            return None
        return batch.start_sequence_id + batch.record_set.position + self._index

    @property
    def created_ms(self) -> int:
        """When its producer made the record set."""
        return self._batch.record_set.created_ms

    @property
    def producer(self) -> tuple[bytes, int] | None:
        """(producer id, sequence) if the producer numbers its records, else None."""
        batch = self._batch.record_set
        if batch.producer == NO_PRODUCER:
            return None
        return batch.producer, batch.first_sequence + self._index

    def __repr__(self) -> str:
        """Position, txid and the beginning of the payload."""
        return f"Record({self.dlsn}, txid={self.txid}, {self.payload[:20]!r})"


class RecordBatch:
    """Consecutive records of one record set: all of it, or from a start position on."""

    __slots__ = (
        "delivery",
        "entry_id",
        "first_index",
        "lssn",
        "record_set",
        "start_sequence_id",
    )

    def __init__(
        self,
        lssn: int,
        entry_id: int,
        record_set: RecordSet,
        *,
        first_index: int = 0,
        start_sequence_id: int | None = None,
    ) -> None:
        self.lssn = lssn
        self.entry_id = entry_id
        self.record_set = record_set
        self.first_index = first_index
        self.start_sequence_id = start_sequence_id  # of the segment
        self.delivery: Span | None = None  # if the reader traces it

    def __len__(self) -> int:
        """Number of records."""
        return self.record_set.count - self.first_index

    @property
    def first_dlsn(self) -> Dlsn:
        """Position of the first record."""
        return Dlsn(self.lssn, self.entry_id, self.record_set.slot + self.first_index)

    @property
    def last_dlsn(self) -> Dlsn:
        """Position of the last record."""
        return Dlsn(self.lssn, self.entry_id, self.record_set.slot + self.record_set.count - 1)

    @property
    def last_txid(self) -> int:
        """Txid of the last record."""
        return self.record_set.last_txid

    @property
    def traceparent(self) -> str | None:
        """The W3C ``traceparent`` of its producer's span, if that was traced."""
        return traceparent_in(self.record_set.extension)

    def payloads(self) -> list[bytes]:
        """All payloads. Raises CorruptionError."""
        return self.record_set.payloads()[self.first_index :]

    def txids(self) -> Sequence[int]:
        """All txids. Raises CorruptionError."""
        return self.record_set.txids()[self.first_index :]

    def records(self) -> list[Record]:
        """All records. Raises CorruptionError."""
        one = self.record_set
        records = list(map(Record, one.payloads(), one.txids(), range(one.count), repeat(self)))
        return records[self.first_index :] if self.first_index else records

    def to_arrow(self, *, with_positions: bool = False) -> "pa.RecordBatch":
        """Columns ``txid`` and ``payload`` as views of the entry's own bytes, without a loop.

        They keep the answer that the entry came in: up to ``read_batch_bytes_max`` of the ledger
        client, of which the other entries of the answer are the rest.

        ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, named and typed
        as in the archive. Needs pyarrow. Raises CorruptionError.
        """
        batch = arrow_batch(
            self.record_set,
            lssn=self.lssn,
            entry_id=self.entry_id,
            with_positions=with_positions,
        )
        return batch.slice(self.first_index) if self.first_index else batch
