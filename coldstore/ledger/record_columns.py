"""The rows of a row group as record sets: views of its columns, without an object per record.

Arrow and record sets have the same layout of txids, offsets and payloads (little-endian), so a
record set is made of slices of Arrow's buffers.
"""

from bisect import bisect_left, bisect_right
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.attributes.attribute_columns import AttributeBuilder
from ...core.protocol.errors import CorruptionError
from ...core.protocol.record_set import (
    NO_PRODUCER,
    NO_SEQUENCE,
    Producer,
    RecordSet,
    set_of_columns,
)
from ..archive.part import attributes_of, record_set_ranges
from ..archive.schema import MICROSECONDS_PER_MS

_TXID_BYTES, _OFFSET_BYTES = 8, 4
_OF_FIRST = ["entry_id", "record_set", "slot", "created", "producer", "sequence"]
"""The columns that are read at the first record of each set."""


class StoredSet(NamedTuple):
    """The description of a record set in a row group, or of the run of records left of it."""

    start: int
    """Row of its first record."""
    end: int
    """Row after its last record."""
    entry_id: int
    slot: int
    last_txid: int
    created_ms: int


class RecordColumns:
    """The columns of a row group, and the record sets in them."""

    def __init__(self, table: "pa.Table", lssn: int, *, has_gaps: bool) -> None:
        """``has_gaps``: records were erased. Raises CorruptionError if slots are missing."""
        self._attributes = table.select(["key", "headers", "event_time"])
        self._has_attributes = any(
            column.null_count < table.num_rows for column in self._attributes.columns
        )
        ranges = record_set_ranges(table, has_gaps=True)
        starts = pa.array([start for start, _ in ranges], pa.int64())
        first = table.select(_OF_FIRST).take(starts)
        if not has_gaps:
            _check_slots(first, lssn)
        self._producers = first.column("producer").to_pylist()
        self._sequences = first.column("sequence").to_pylist()
        txid = table.column("txid").combine_chunks()
        last_txids = txid.take(pa.array([end - 1 for _, end in ranges], pa.int64()))
        self._txids = _bytes_of(txid.buffers()[1])[_TXID_BYTES * txid.offset :]
        self._payload = table.column("payload")
        chunks = self._payload.chunks
        self._chunks = [_offsets_and_payloads(chunk) for chunk in chunks]
        self._chunk_starts = list(accumulate(map(len, chunks), initial=0))
        created = pc.cast(first.column("created"), pa.int64()).to_pylist()
        self.sets = [
            StoredSet(start, end, entry_id, slot, last_txid, created_us // MICROSECONDS_PER_MS)
            for (start, end), entry_id, slot, last_txid, created_us in zip(
                ranges,
                first.column("entry_id").to_pylist(),
                first.column("slot").to_pylist(),
                last_txids.to_pylist(),
                created,
                strict=True,
            )
        ]
        """All record sets, in order."""
        self._entry_ids = [one.entry_id for one in self.sets]

    def first_set(self, entry_id: int) -> int:
        """Return the number of the first set of this entry or a later one."""
        return bisect_left(self._entry_ids, entry_id)

    def record_set(self, number: int, position: int) -> RecordSet:
        """Return a record set, at a position. Raises CorruptionError."""
        stored = self.sets[number]
        start, end = stored.start, stored.end
        offsets, payloads = self._payloads(start, end)
        return set_of_columns(
            self._txids[_TXID_BYTES * start : _TXID_BYTES * end],
            offsets,
            payloads,
            slot=stored.slot,
            position=position,
            created_ms=stored.created_ms,
            producer=self._producer(number),
            attributes=self._attributes_of(start, end),
        )

    def _payloads(self, start: int, end: int) -> tuple[memoryview, memoryview]:
        """Return the offsets of rows, and the payloads that they point into.

        The rows of a set that lies in two chunks are copied.
        """
        number = bisect_right(self._chunk_starts, start) - 1
        first = self._chunk_starts[number]
        if end > self._chunk_starts[number + 1]:
            return _offsets_and_payloads(self._payload.slice(start, end - start).combine_chunks())
        offsets, payloads = self._chunks[number]
        begin, stop = start - first, end - first + 1
        return offsets[_OFFSET_BYTES * begin : _OFFSET_BYTES * stop], payloads

    def _producer(self, number: int) -> Producer:
        producer, sequence = self._producers[number], self._sequences[number]
        if producer is None or sequence is None:
            return Producer(NO_PRODUCER, NO_SEQUENCE)
        return Producer(producer, sequence)

    def _attributes_of(self, start: int, end: int) -> AttributeBuilder | None:
        if not self._has_attributes:
            return None
        return attributes_of(self._attributes.slice(start, end - start))


def _check_slots(first: "pa.Table", lssn: int) -> None:
    """Raise CorruptionError if two runs of consecutive slots, by their first rows, are one set."""
    sets = list(zip(*(first.column(name).to_pylist() for name in _OF_FIRST[:2]), strict=True))
    for before, after in pairwise(sets):
        if before == after:
            raise CorruptionError(
                f"archive of segment {lssn}: the slots of entry {after[0]} are not consecutive"
            )


def _offsets_and_payloads(array: "pa.Array[Any]") -> tuple[memoryview, memoryview]:
    _, offsets, payloads = array.buffers()
    begin, end = array.offset, array.offset + len(array) + 1
    return _bytes_of(offsets)[_OFFSET_BYTES * begin : _OFFSET_BYTES * end], _bytes_of(payloads)


def _bytes_of(buffer: Any) -> memoryview:  # noqa: ANN401 - pyarrow has no types
    """Return the bytes of a buffer; Arrow has none for a column without content."""
    return memoryview(b"") if buffer is None else memoryview(buffer)
