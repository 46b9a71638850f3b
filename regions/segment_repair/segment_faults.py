"""Finds faults of segments by comparison with their ledgers, and their remedies (RPR-23). Pure.

The ledger determines its end (REC-15); the segment is what readers go by. Nothing that is
proposed here deletes, shortens or hides anything: a fault after which entries could be missing is
reported without a remedy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from ...core.log.metadata.ledger_policies import stream_of_ledger
from ...core.log.metadata.stream_metadata import StreamHead, StreamRecord
from ...core.protocol.ledger_metadata import LSSN_KEY, LedgerMetadata, LedgerState
from ...core.protocol.segments import (
    NO_LEDGER,
    SEGMENTS_IN_PROGRESS_MAX,
    Residence,
    Segment,
)


class Remedy(Enum):
    """The way in which a fault is repaired."""

    TAKE_OVER = "take the stream over, which closes the ledger and completes the segment"
    CLOSE_LEDGER = "recover the ledger, which closes it"
    ADOPT_LENGTH = "record the length of the ledger"
    ADOPT_END = "record the end of the ledger, so that readers get its last entries"
    READ_ARCHIVE = "read the segment from its archive only"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class SegmentFault:
    """A disagreement between a segment and its ledger."""

    lssn: int
    ledger_id: int
    """NO_LEDGER if the segment has no metadata."""
    text: str
    remedy: Remedy = Remedy.NONE


def find_faults(
    stream: tuple[str, str],
    record: StreamRecord,
    head: StreamHead,
    segments: Sequence[Segment],
    ledgers: Mapping[int, LedgerMetadata | None],
) -> list[SegmentFault]:
    """Return the faults of a stream in the order of its segments.

    ``stream`` is (namespace, stream). ``segments`` were read before ``ledgers``, in which None
    stands for a ledger that does not exist.
    """
    present = {segment.lssn: segment for segment in segments}
    newest_completed = max((s.lssn for s in segments if s.is_completed), default=0)
    faults: list[SegmentFault] = []
    for lssn in range(record.oldest.lssn, head.last_lssn + 1):
        segment = present.get(lssn)
        if segment is None:
            faults.append(SegmentFault(lssn, NO_LEDGER, "the segment has no metadata"))
        elif segment.ledger_id != NO_LEDGER:
            metadata = ledgers.get(segment.ledger_id)
            if metadata is None:
                faults += _without_ledger(segment)
            elif not segment.is_completed:
                faults += _of_binding(stream, segment, metadata)
                faults += _of_open_segment(segment, metadata, head)
            else:
                faults += _of_binding(stream, segment, metadata)
                faults += _of_completed(segment, metadata, is_newest=lssn == newest_completed)
    return faults


def _without_ledger(segment: Segment) -> list[SegmentFault]:
    if segment.is_archive_only:
        return []
    if segment.residence is Residence.HOT_AND_ARCHIVE:
        text = "the ledger does not exist; the segment has a verified archive"
        return [SegmentFault(segment.lssn, segment.ledger_id, text, Remedy.READ_ARCHIVE)]
    if segment.is_empty:
        return []  # nothing can be read from it
    text = (
        "the ledger does not exist, and there is no archive: restore the metadata of the ledger "
        "from a backup, or truncate the stream after the segment"
    )
    return [SegmentFault(segment.lssn, segment.ledger_id, text)]


def _of_binding(
    stream: tuple[str, str], segment: Segment, metadata: LedgerMetadata
) -> list[SegmentFault]:
    """Compare the stream and the number that the ledger was made for."""
    made_for, number = stream_of_ledger(metadata), metadata.custom.get(LSSN_KEY)
    if made_for in (None, stream) and number in (None, str(segment.lssn).encode()):
        return []
    whose = "/".join(made_for or ("?",))
    text = f"the ledger was made for segment {(number or b'?').decode(errors='replace')} of {whose}"
    return [SegmentFault(segment.lssn, segment.ledger_id, text)]


def _of_open_segment(
    segment: Segment, metadata: LedgerMetadata, head: StreamHead
) -> list[SegmentFault]:
    is_old = segment.lssn <= head.last_lssn - SEGMENTS_IN_PROGRESS_MAX
    if metadata.state is LedgerState.CLOSED:
        text = f"the segment is in progress, its ledger is closed at entry {metadata.last_entry_id}"
    elif is_old:
        text = f"the segment is in progress although segment {segment.lssn + 2} was begun"
    elif head.is_sealed:
        text = "the segment is in progress although the stream is sealed"
    else:
        return []
    return [SegmentFault(segment.lssn, segment.ledger_id, text, Remedy.TAKE_OVER)]


def _of_completed(
    segment: Segment, metadata: LedgerMetadata, *, is_newest: bool
) -> list[SegmentFault]:
    def fault(text: str, remedy: Remedy = Remedy.NONE) -> list[SegmentFault]:
        return [SegmentFault(segment.lssn, segment.ledger_id, text, remedy)]

    if metadata.state is not LedgerState.CLOSED:
        text = f"the segment is completed, its ledger is {metadata.state.name.lower()}"
        return fault(text, Remedy.CLOSE_LEDGER)
    ends = f"the segment ends at entry {segment.last_entry_id}, its ledger at"
    if metadata.last_entry_id > segment.last_entry_id:
        if is_newest:
            return fault(f"{ends} {metadata.last_entry_id}", Remedy.ADOPT_END)
        return fault(
            f"{ends} {metadata.last_entry_id}, and later segments number their records by it: "
            "read the entries from the ledger and append them again"
        )
    if metadata.last_entry_id < segment.last_entry_id:
        return fault(
            f"{ends} {metadata.last_entry_id}: entries that were recorded lie beyond the end of "
            "the ledger, and bookies may still have them"
        )
    if metadata.length != segment.length_bytes:
        text = f"the segment has {segment.length_bytes} bytes, its ledger {metadata.length}"
        return fault(text, Remedy.ADOPT_LENGTH)
    return []
