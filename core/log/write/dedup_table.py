"""De-duplication: what each numbered producer has in the stream already.

A producer numbers its records 0, 1, 2 ... and sends a set again when it does not know what became
of it, to the same owner or to the next one. The table says for each producer which sequence is the
last, and where. It is kept *in the log*, so that it survives the owner: a snapshot as a control
record before the first data of a segment and after every ``producers_snapshot_bytes``, and behind
it the sets themselves. The next owner reads from the newest snapshot to the end, never more.

A snapshot must hold exactly what lies before it: what is acknowledged, and on top of that what is
in flight, since entries in flight before it are in the log whenever it is.

Bounded: the producers that were silent for longest are forgotten; then a retry of theirs would be
taken for new.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

from ...protocol.dlsn import Dlsn
from ...protocol.errors import CorruptionError, DuplicateRecordError, SequenceGapError
from ...protocol.record_set import NO_PRODUCER, Kind, RecordSet
from .batch import AppendMany, Batch

PRODUCERS_MAX = 1000
IDLE_MS_MAX = 7 * 24 * 3_600_000

_ROW = struct.Struct("<16sqqqqqq")  # identity, first sequence, count, lssn, entry, slot, seen ms


class Sent(NamedTuple):
    """The newest set of a producer: sequences ``first`` to ``first + size - 1``, and its place."""

    identity: bytes
    first: int
    size: int
    seen_ms: int
    batch: Batch
    slot: int
    """Of its first record, in the batch's entry."""

    @property
    def last(self) -> int:
        """The producer's last sequence."""
        return self.first + self.size - 1


class DeduplicationTable:
    """The newest set of each producer, oldest first."""

    __slots__ = ("_logged", "_taken")

    def __init__(self, logged: Iterable[Sent] = ()) -> None:
        newest = list(logged)[-PRODUCERS_MAX:]
        self._logged = {sent.identity: sent for sent in newest}  # acknowledged
        self._taken = dict(self._logged)  # accepted from producers: also what is not yet sent

    def known(self, identity: bytes, first: int, count: int) -> AppendMany | None:
        """None: the set is new. Otherwise the one that is on its way or there already.

        Raises DuplicateRecordError for an older one, whose position is no longer known, and
        SequenceGapError when sequences before it are missing, or it overlaps what is there.
        """
        newest = self._taken.get(identity)
        if newest is None or first == newest.last + 1:
            return None
        if (first, count) == (newest.first, newest.size):
            return AppendMany([(newest.batch, newest.slot, count)])
        if first + count - 1 <= newest.last:
            raise DuplicateRecordError(
                f"producer {identity.hex()}: sequences {first} to {first + count - 1} are in the "
                f"stream; its last is {newest.last}"
            )
        raise SequenceGapError(
            f"producer {identity.hex()}: sequence {first} came where {newest.last + 1} should"
        )

    def last_sequence(self, identity: bytes) -> int | None:
        """The last sequence that was accepted; None for an unknown producer."""
        newest = self._taken.get(identity)
        return None if newest is None else newest.last

    def take(self, sent: Sent) -> None:
        """A new set was accepted."""
        self._taken.pop(sent.identity, None)
        self._taken[sent.identity] = sent
        self._forget(self._taken, sent.seen_ms)

    def log(self, sent: Sent) -> None:
        """A set was acknowledged."""
        self._logged.pop(sent.identity, None)
        self._logged[sent.identity] = sent
        self._forget(self._logged, sent.seen_ms)

    @property
    def is_empty(self) -> bool:
        """Whether no producer has anything in the stream."""
        return not self._logged

    def snapshot(self, in_flight: Iterable[Batch]) -> bytes:
        """What lies before an entry that is sent now, behind the batches in flight."""
        rows = dict(self._logged)
        for batch in in_flight:
            for sent in batch.producers:
                rows.pop(sent.identity, None)
                rows[sent.identity] = sent
        return b"".join(
            _ROW.pack(
                sent.identity,
                sent.first,
                sent.size,
                sent.batch.lssn,
                sent.batch.entry_id,
                sent.slot,
                sent.seen_ms,
            )
            for sent in list(rows.values())[-PRODUCERS_MAX:]
        )

    @staticmethod
    def _forget(rows: dict[bytes, Sent], now_ms: int) -> None:
        while rows:
            oldest = next(iter(rows.values()))
            if len(rows) <= PRODUCERS_MAX and now_ms - oldest.seen_ms <= IDLE_MS_MAX:
                return
            del rows[oldest.identity]


class Rebuilt:
    """Rebuilds the table from a snapshot entry and everything behind it."""

    def __init__(self) -> None:
        self._rows: dict[bytes, Sent] = {}

    def see(self, lssn: int, entry_id: int, one: RecordSet) -> None:
        """The next record set of the log."""
        if one.kind == Kind.PRODUCERS:
            self._rows = {sent.identity: sent for sent in _rows_of(one.payloads()[0])}
        elif one.kind == Kind.DATA and one.producer != NO_PRODUCER:
            place = Dlsn(lssn, entry_id, one.slot)
            sent = _there(one.producer, one.first_sequence, one.count, place, one.created_ms)
            self._rows.pop(sent.identity, None)
            self._rows[sent.identity] = sent

    def table(self) -> DeduplicationTable:
        """What was found."""
        return DeduplicationTable(self._rows.values())


def _rows_of(data: bytes) -> list[Sent]:
    if len(data) % _ROW.size or len(data) > PRODUCERS_MAX * _ROW.size:
        raise CorruptionError(f"snapshot of producers with {len(data)} bytes")
    return [
        _there(identity, first, count, Dlsn(lssn, entry_id, slot), seen_ms)
        for identity, first, count, lssn, entry_id, slot, seen_ms in _ROW.iter_unpack(data)
    ]


def _there(identity: bytes, first: int, count: int, place: Dlsn, seen_ms: int) -> Sent:
    """A set that is in the log, as an acknowledged one."""
    batch = Batch(-1, 0, 0)
    batch.lssn, batch.entry_id = place.lssn, place.entry_id
    batch.settle(None, ())
    return Sent(identity, first, count, seen_ms, batch, place.slot)
