"""Log segments: the metadata of each, and the legal changes to it.

A stream is a sequence of segments 1, 2, 3 ..., each with its own ledger. Rules:

- LSSNs are contiguous, and none is ever bound to a second ledger: an empty segment is completed
  as empty, not deleted (rule STR-6).
- A segment changes from in progress to completed once. A completed segment never changes again
  except for ``residence``. Segments are completed in order: at most two are in progress, and they
  are the newest ones (rule STR-7).
- ``start_sequence_id(n) = start_sequence_id(n-1) + record_count(n-1)``. It is set at completion,
  when it is final (rule STR-13).
- A segment names its stream. Readers combine only nodes of one stream, however old what they read
  is (rule STR-35).
- ``last_txid`` never decreases from one segment to the next, because an empty segment carries it
  on. A txid can therefore be found by binary search over segments (rule STR-14).
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from .dlsn import Dlsn
from .errors import CorruptionError
from .ledger_metadata import NO_ENTRY
from .metadata_record import decode_metadata_record, encode_metadata_record, fields_to_store

FIRST_LSSN = 1
NO_SEGMENT = 0
"""The LSSN before the first one; it means that there is no segment."""
NO_LEDGER = -1
"""The ledger id of a segment that was restored from its archive and has no ledger."""
SEGMENTS_IN_PROGRESS_MAX = 2

_FORMAT = 1


class Residence(Enum):
    """The places that hold a completed segment's bytes."""

    HOT = "hot"
    HOT_AND_ARCHIVE = "hot+archive"
    ARCHIVE = "archive"


@dataclass(frozen=True, slots=True)
class Segment:
    """One log segment. The fields from ``completed_ms`` on are meaningful once completed."""

    lssn: int
    stream_id: str
    """``StreamRecord.stream_id``: tells the segments of streams of the same name apart."""
    ledger_id: int
    epoch: int
    """The claim (writer session) that started it; never decreases from segment to segment."""
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
    """Number of data records in all earlier segments."""
    ends_stream: bool = False
    """True if this or an earlier segment seals the stream; carried on like ``last_txid``."""
    producers_lssn: int = NO_SEGMENT
    producers_entry: int = NO_ENTRY
    """Position of the newest producer snapshot; a segment without records carries it on."""
    residence: Residence = Residence.HOT
    doubt: str = ""
    """Not empty if an operator closed the ledger at its provable end: what may be missing (rule
    REC-19)."""
    archive_link: str = ""
    """The link of the segment's archive in its chain (rule ARC-22); "" without an archive."""

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
            or not self.stream_id
            or (is_empty and self.record_count > 0)
            or not (self.is_completed or says_nothing)
        ):
            raise CorruptionError(f"the fields of segment {self.lssn} are inconsistent: {self}")

    # --- queries --------------------------------------------------------------------------------

    @property
    def is_empty(self) -> bool:
        """True if the segment was completed without any entry."""
        return self.is_completed and self.last_entry_id == NO_ENTRY

    @property
    def is_archive_only(self) -> bool:
        """True if the archive has the only copy of the segment's bytes."""
        return self.residence is Residence.ARCHIVE

    @property
    def end_sequence_id(self) -> int:
        """Sequence id of the first record after this segment, which must be completed."""
        assert self.is_completed
        return self.start_sequence_id + self.record_count

    @property
    def first_dlsn(self) -> Dlsn:
        """First position that the segment can hold."""
        return Dlsn(self.lssn, 0, 0)

    # --- changes --------------------------------------------------------------------------------

    def completed(
        self, end: "SegmentEnd", *, previous: "Segment | None", completed_ms: int
    ) -> "Segment":
        """Return this segment as completed.

        ``previous`` is the completed segment before it, None only for the first one. Its
        ``completed_ms`` is never below the creation time of its last record, or that of
        ``previous`` (rule STR-39).
        ``end.last_txid`` is 0 if it has no data record; then the previous one's is carried on.
        """
        assert not self.is_completed, "a segment is completed once (STR-7)"
        snapshot = (NO_SEGMENT, NO_ENTRY)
        if end.producers_entry != NO_ENTRY:
            snapshot = (self.lssn, end.producers_entry)
        elif end.record_count == 0 and previous is not None:  # keepalives change no producer
            snapshot = (previous.producers_lssn, previous.producers_entry)
        if previous is None:
            start, txid, was_ended, earliest_ms = 0, 0, False, 0
        else:
            assert previous.lssn == self.lssn - 1, "LSSNs are contiguous (STR-6)"
            assert previous.is_completed, "segments are completed in order (STR-7)"
            start, txid = previous.end_sequence_id, previous.last_txid
            was_ended, earliest_ms = previous.ends_stream, previous.completed_ms
        return replace(
            self,
            is_completed=True,
            completed_ms=max(completed_ms, end.last_created_ms, earliest_ms),
            last_entry_id=end.last_entry_id,
            last_txid=max(txid, end.last_txid),
            record_count=end.record_count,
            length_bytes=end.length_bytes,
            start_sequence_id=start,
            ends_stream=was_ended or end.ends_stream,
            producers_lssn=snapshot[0],
            producers_entry=snapshot[1],
            doubt=end.doubt,
        )

    def with_residence(self, residence: Residence) -> "Segment":
        """Return this segment with another residence."""
        assert self.is_completed, "only a completed segment changes its residence (STR-7)"
        return replace(self, residence=residence)

    def archived(self, link: str) -> "Segment":
        """Return this segment as archived beside its ledger; ``link`` proves the archive."""
        return replace(self.with_residence(Residence.HOT_AND_ARCHIVE), archive_link=link)


@dataclass(frozen=True, slots=True)
class SegmentEnd:
    """The content of a segment's closed ledger, as its completion records it."""

    last_entry_id: int
    length_bytes: int
    record_count: int
    last_txid: int
    ends_stream: bool
    producers_entry: int = NO_ENTRY
    """Entry of the newest producer snapshot."""
    doubt: str = ""
    """See ``Segment.doubt``."""
    last_created_ms: int = 0
    """Creation time of the last record set; 0 if there is none."""


def merged(known: Segment | None, found: Segment) -> Segment:
    """Return the newer of a known segment and one that was read now.

    A stale read never replaces a newer state. Raises CorruptionError if the two cannot be states of
    the same segment.
    """
    if known is None:
        return found
    if _binding_of(known) != _binding_of(found):
        raise CorruptionError(f"segment {known.lssn} became another segment: {known}, then {found}")
    if known.is_completed and not found.is_completed:
        return known
    if known.is_completed and replace(found, **_changing_fields(known)) != known:
        raise CorruptionError(
            f"segment {known.lssn} changed after its completion: {known}, then {found}"
        )
    return found


def _changing_fields(segment: Segment) -> dict[str, Any]:
    """Return what may change after the completion."""
    return {"residence": segment.residence, "archive_link": segment.archive_link}


def _binding_of(segment: Segment) -> tuple[int, str, int, int]:
    """Return what never changes, not even until the completion."""
    return segment.lssn, segment.stream_id, segment.ledger_id, segment.epoch


def encode_segment(segment: Segment) -> bytes:
    """Return the value of the segment's metadata node."""
    fields = fields_to_store(segment, _FIELDS.keys() - _OPTIONAL.keys())
    return encode_metadata_record(_FORMAT, {**fields, "residence": segment.residence.value})


def decode_segment(lssn: int, data: bytes) -> Segment:
    """Decode the node of segment ``lssn``. Raises CorruptionError, ForeignDataError."""
    fields = decode_metadata_record(
        f"segment {lssn}", data, version=_FORMAT, fields=_FIELDS, optional=_OPTIONAL
    )
    try:
        residence = Residence(fields.pop("residence"))
    except ValueError as error:
        raise CorruptionError(f"segment {lssn}: {error}") from error
    if fields["lssn"] != lssn:
        raise CorruptionError(f"segment {lssn}: its node names segment {fields['lssn']}")
    return Segment(**fields, residence=residence)


_FIELDS = {
    "lssn": int,
    "stream_id": str,
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
    "doubt": str,
    "archive_link": str,
}
_OPTIONAL = {"doubt": "", "archive_link": ""}
