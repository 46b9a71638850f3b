"""Log segments: what is recorded of each, and the legal changes to it.

A stream is the segments 1, 2, 3 ..., one ledger each. Rules (the numbers are cited by asserts):

1. LSSNs are contiguous, and none is ever bound to a second ledger: an empty segment is completed
   as empty, not deleted.
2. IN_PROGRESS -> COMPLETED, once; what was completed never changes again except ``residence``.
3. Segments are completed in order: those in progress are the newest ones, at most two.
4. ``start_sequence_id(n) = start_sequence_id(n-1) + record_count(n-1)``; it is known from
   completion on, since only then is it final.
5. ``last_txid`` never falls from one segment to the next: an empty one carries it on. So a txid can
   be found by binary search over segments.
"""

from dataclasses import asdict, dataclass, replace
from enum import Enum

from .dlsn import Dlsn
from .errors import CorruptionError
from .ledger_metadata import NO_ENTRY
from .metadata_record import decode_metadata_record, encode_metadata_record

FIRST_LSSN = 1
NO_SEGMENT = 0
"""The LSSN before the first: a stream without segments."""
NO_LEDGER = -1
"""The ledger id of a segment that was restored from its archive: it has no ledger."""
SEGMENTS_IN_PROGRESS_MAX = 2

_FORMAT = 1


class Residence(Enum):
    """Where a completed segment's bytes are."""

    HOT = "hot"
    HOT_AND_ARCHIVE = "hot+archive"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Segment:
    """One log segment. The fields from ``completed_ms`` on are meaningful once completed."""

    lssn: int
    ledger_id: int
    epoch: int
    """The claim (writer session) that started it; never falls from segment to segment."""
    created_ms: int
    is_completed: bool = False
    completed_ms: int = 0
    last_entry_id: int = NO_ENTRY
    last_txid: int = 0
    """Highest txid of a data record in this or any earlier segment; 0 if there is none."""
    record_count: int = 0
    """Data records; control records are not counted."""
    length_bytes: int = 0
    """Payload bytes of the ledger."""
    start_sequence_id: int = 0
    """How many data records the earlier segments have."""
    ends_stream: bool = False
    """Whether the stream was ended in this or an earlier segment; carried on like ``last_txid``."""
    producers_lssn: int = NO_SEGMENT
    producers_entry: int = NO_ENTRY
    """Segment and entry of the newest snapshot of producers; carried on over empty segments."""
    residence: Residence = Residence.HOT

    def __post_init__(self) -> None:
        counts = (
            self.ledger_id + self.is_archive_only, self.epoch, self.last_txid, self.record_count,
            self.length_bytes, self.start_sequence_id, self.last_entry_id + 1,
            self.lssn - FIRST_LSSN, self.producers_lssn, self.producers_entry + 1,
        )  # fmt: skip
        is_empty = self.last_entry_id == NO_ENTRY
        says_nothing = is_empty and self.residence is Residence.HOT and not self.ends_stream
        if (
            min(counts) < 0
            or (is_empty and self.record_count > 0)
            or not (self.is_completed or says_nothing)
        ):
            raise CorruptionError(f"segment {self.lssn} contradicts itself: {self}")

    # --- questions ------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """Whether it was completed without any entry."""
        return self.is_completed and self.last_entry_id == NO_ENTRY

    @property
    def is_archive_only(self) -> bool:
        """Whether the archive has the only copy of its bytes."""
        return self.residence is Residence.ARCHIVE

    @property
    def end_sequence_id(self) -> int:
        """Sequence id of the first record after this (completed) segment."""
        assert self.is_completed
        return self.start_sequence_id + self.record_count

    @property
    def first_dlsn(self) -> Dlsn:
        """The first position that it can hold."""
        return Dlsn(self.lssn, 0, 0)

    # --- changes --------------------------------------------------------------------------------

    def completed(
        self, end: "SegmentEnd", *, previous: "Segment | None", completed_ms: int
    ) -> "Segment":
        """This segment, over. ``previous`` is the one before it (rule 3), None only for the first.

        ``end.last_txid`` is 0 when it has no data record; then the previous one's is carried on.
        """
        assert not self.is_completed, "rule 2"
        snapshot = (NO_SEGMENT, NO_ENTRY)
        if end.producers_entry != NO_ENTRY:
            snapshot = (self.lssn, end.producers_entry)
        elif end.last_entry_id == NO_ENTRY and previous is not None:
            snapshot = (previous.producers_lssn, previous.producers_entry)
        if previous is None:
            start, txid, was_ended = 0, 0, False
        else:
            assert previous.lssn == self.lssn - 1, "rule 1"
            assert previous.is_completed, "rule 3"
            start, txid = previous.end_sequence_id, previous.last_txid
            was_ended = previous.ends_stream
        return replace(
            self,
            is_completed=True,
            completed_ms=completed_ms,
            last_entry_id=end.last_entry_id,
            last_txid=max(txid, end.last_txid),
            record_count=end.record_count,
            length_bytes=end.length_bytes,
            start_sequence_id=start,
            ends_stream=was_ended or end.ends_stream,
            producers_lssn=snapshot[0],
            producers_entry=snapshot[1],
        )

    def with_residence(self, residence: Residence) -> "Segment":
        """Where its bytes are now."""
        assert self.is_completed, "rule 2"
        return replace(self, residence=residence)


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """What the closed ledger of a segment turned out to hold."""

    last_entry_id: int
    length_bytes: int
    record_count: int
    last_txid: int
    ends_stream: bool
    producers_entry: int = NO_ENTRY
    """Entry of the newest snapshot of producers."""


def merged(known: Segment | None, found: Segment) -> Segment:
    """What to believe after reading ``found`` when ``known`` was known before.

    An older view (a stale read) never undoes a newer one. Raises CorruptionError when they cannot
    be the same segment.
    """
    if known is None:
        return found
    if (known.lssn, known.ledger_id, known.epoch) != (found.lssn, found.ledger_id, found.epoch):
        raise CorruptionError(f"segment {known.lssn} became another one: {known} then {found}")
    if known.is_completed and not found.is_completed:
        return known
    if known.is_completed and replace(found, residence=known.residence) != known:
        raise CorruptionError(f"segment {known.lssn} changed after its end: {known} then {found}")
    return found


def encode_segment(segment: Segment) -> bytes:
    """The value of the segment's metadata node."""
    return encode_metadata_record(
        _FORMAT, {**asdict(segment), "residence": segment.residence.value}
    )


def decode_segment(lssn: int, data: bytes) -> Segment:
    """Reads the node of segment ``lssn``. Raises CorruptionError, ForeignDataError."""
    fields = decode_metadata_record(f"segment {lssn}", data, version=_FORMAT, fields=_FIELDS)
    try:
        residence = Residence(fields.pop("residence"))
    except ValueError as error:
        raise CorruptionError(f"segment {lssn}: {error}") from error
    if fields["lssn"] != lssn:
        raise CorruptionError(f"segment {lssn}: its node says {fields['lssn']}")
    return Segment(**fields, residence=residence)


_FIELDS = {
    "lssn": int,
    "ledger_id": int,
    "epoch": int,
    "created_ms": int,
    "is_completed": bool,
    "completed_ms": int,
    "last_entry_id": int,
    "last_txid": int,
    "record_count": int,
    "length_bytes": int,
    "start_sequence_id": int,
    "ends_stream": bool,
    "producers_lssn": int,
    "producers_entry": int,
    "residence": str,
}
