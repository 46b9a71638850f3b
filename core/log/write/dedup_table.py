"""The deduplication table: the newest record set of each numbered producer (rule STR-16).

A numbered producer numbers its records 0, 1, 2 and so on. It sends a record set again if its
outcome is unknown, either to the same writer or to the next owner of the stream. The table holds
the last sequence number of each producer and the position of its newest set.

The table is kept in the log, so that it outlives the writer (rule STR-17). The writer appends a
snapshot as a control record before the first data of a segment and after every
``producers_snapshot_bytes``; the sets after the snapshot complete it. The next owner reads from
the newest snapshot to the end of its segment.

A snapshot must contain exactly the sets that precede it in the log: the acknowledged ones and
those in flight, because entries in flight before the snapshot are in the log if the snapshot is.

The size is bounded: the producers that were silent longest are removed, and a later retry of such
a producer counts as new.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.dlsn import Dlsn, dlsn_in
from ...protocol.errors import CorruptionError, DuplicateRecordError, SequenceGapError
from ...protocol.record_set import NO_PRODUCER, Kind, RecordSet
from .batch import AppendMany, Batch

PRODUCERS_MAX = 1000
IDLE_MS_MAX = 7 * 24 * 3_600_000

_ROW = struct.Struct("<16sqqqqqq")  # identity, first sequence, count, lssn, entry, slot, seen ms


class NumberedSet(NamedTuple):
    """The newest record set of a producer: sequences ``first`` to ``first + size - 1``."""

    identity: bytes
    first: int
    size: int
    seen_ms: int
    batch: Batch
    slot: int
    """The slot of the first record in the entry of ``batch``."""

    @property
    def last(self) -> int:
        """The sequence of the last record."""
        return self.first + self.size - 1


class DeduplicationTable:
    """The newest record set of each producer, ordered by arrival, oldest first."""

    __slots__ = ("_accepted", "_acknowledged")

    def __init__(self, acknowledged: Iterable[NumberedSet] = ()) -> None:
        newest = list(acknowledged)[-PRODUCERS_MAX:]
        self._acknowledged = {numbered_set.identity: numbered_set for numbered_set in newest}
        # Accepted from producers, including sets that are not yet sent or acknowledged.
        self._accepted = dict(self._acknowledged)

    def find_duplicate(self, identity: bytes, first: int, count: int) -> AppendMany | None:
        """Return the earlier append of the same set, or None if the set is new.

        Raises DuplicateRecordError for a set before the newest one, whose position is no longer
        known, and SequenceGapError if sequences before the set are missing or it overlaps the
        newest set partially.
        """
        newest = self._accepted.get(identity)
        if newest is None or first == newest.last + 1:
            return None
        if (first, count) == (newest.first, newest.size):
            return AppendMany([(newest.batch, newest.slot, count)])
        if first + count - 1 <= newest.last:
            raise DuplicateRecordError(
                f"producer {identity.hex()}: sequences {first} to {first + count - 1} are already "
                f"in the stream, the last sequence is {newest.last}"
            )
        raise SequenceGapError(
            f"producer {identity.hex()}: got sequence {first}, expected {newest.last + 1}"
        )

    def last_sequence(self, identity: bytes) -> int | None:
        """Return the last accepted sequence of a producer; None if the producer is unknown."""
        newest = self._accepted.get(identity)
        return None if newest is None else newest.last

    def accept(self, numbered_set: NumberedSet) -> None:
        """Add a new set that was accepted for sending."""
        self._accepted.pop(numbered_set.identity, None)
        self._accepted[numbered_set.identity] = numbered_set
        self._evict(self._accepted, numbered_set.seen_ms)

    def acknowledge(self, numbered_set: NumberedSet) -> None:
        """Record that a set was acknowledged."""
        self._acknowledged.pop(numbered_set.identity, None)
        self._acknowledged[numbered_set.identity] = numbered_set
        self._evict(self._acknowledged, numbered_set.seen_ms)

    @property
    def is_empty(self) -> bool:
        """True if no producer has an acknowledged set."""
        return not self._acknowledged

    def snapshot(self, in_flight: Iterable[Batch]) -> bytes:
        """Encode the table for an entry that is sent now, after the batches in flight."""
        rows = dict(self._acknowledged)
        for batch in in_flight:
            for numbered_set in batch.numbered_sets:
                rows.pop(numbered_set.identity, None)
                rows[numbered_set.identity] = numbered_set
        return b"".join(
            _ROW.pack(
                numbered_set.identity,
                numbered_set.first,
                numbered_set.size,
                numbered_set.batch.lssn,
                numbered_set.batch.entry_id,
                numbered_set.slot,
                numbered_set.seen_ms,
            )
            for numbered_set in list(rows.values())[-PRODUCERS_MAX:]
        )

    @staticmethod
    def _evict(rows: dict[bytes, NumberedSet], now_ms: int) -> None:
        while rows:
            oldest = next(iter(rows.values()))
            if len(rows) <= PRODUCERS_MAX and now_ms - oldest.seen_ms <= IDLE_MS_MAX:
                return
            del rows[oldest.identity]


class DeduplicationTableBuilder:
    """Rebuilds the table from a snapshot entry and the record sets after it."""

    def __init__(self, stream_id: str = "") -> None:
        self._stream_id = stream_id
        self._rows: dict[bytes, NumberedSet] = {}

    def add(self, lssn: int, entry_id: int, record_set: RecordSet) -> None:
        """Add the next record set of the log."""
        if record_set.kind == Kind.PRODUCERS:
            self._rows = {
                numbered_set.identity: numbered_set
                for numbered_set in _decode_rows(record_set.payloads()[0], self._stream_id)
            }
        elif record_set.kind == Kind.DATA and record_set.producer != NO_PRODUCER:
            position = dlsn_in(self._stream_id, lssn, entry_id, record_set.slot)
            numbered_set = _acknowledged_set(
                record_set.producer,
                record_set.first_sequence,
                record_set.count,
                position,
                record_set.created_ms,
            )
            self._rows.pop(numbered_set.identity, None)
            self._rows[numbered_set.identity] = numbered_set

    def table(self) -> DeduplicationTable:
        """Return the table of all record sets that were added."""
        return DeduplicationTable(self._rows.values())


def _decode_rows(data: bytes, stream_id: str) -> list[NumberedSet]:
    if len(data) % _ROW.size or len(data) > PRODUCERS_MAX * _ROW.size:
        raise CorruptionError(
            f"producer snapshot has {len(data)} bytes, not a multiple of {_ROW.size} up to "
            f"{PRODUCERS_MAX * _ROW.size}"
        )
    return [
        _acknowledged_set(identity, first, count, dlsn_in(stream_id, lssn, entry_id, slot), seen_ms)
        for identity, first, count, lssn, entry_id, slot, seen_ms in _ROW.iter_unpack(data)
    ]


def _acknowledged_set(
    identity: bytes, first: int, count: int, position: Dlsn, seen_ms: int
) -> NumberedSet:
    """Return a record set of the log as an acknowledged set."""
    batch = Batch(-1, 0, 0)
    batch.stream_id, batch.lssn = position.stream_id, position.lssn
    batch.entry_id = position.entry_id
    batch.settle(None, ())
    return NumberedSet(identity, first, count, seen_ms, batch, position.slot)
