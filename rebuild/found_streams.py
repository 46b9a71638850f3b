"""Puts a stream together from its ledgers, and from an older record of it if there is one.

Ledgers name their namespace, stream and segment number. All of them are closed by now, so each
segment is completed with what its last entry says (rule BAK-5).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from ..core.log.metadata.ledger_policies import stream_of_ledger
from ..core.log.metadata.stream_metadata import StreamHead, StreamRecord
from ..core.log.policy import StreamPolicy
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.ledger_metadata import (
    EPOCH_KEY,
    LSSN_KEY,
    NO_ENTRY,
    SPREAD_KEY,
    STREAM_ID_KEY,
    LedgerMetadata,
)
from ..core.protocol.segments import FIRST_LSSN, Residence, Segment, SegmentEnd
from .ledger_ends import FoundLedger

_FRESH_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class RebuildFinding:
    """Something that an operator should know: ``kind`` is one of a few words, for programs."""

    kind: str
    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class SegmentName:
    """The segment that a ledger was made for."""

    namespace: str
    stream: str
    stream_id: str
    """Empty in ledgers of older programs."""
    lssn: int
    epoch: int


@dataclass(frozen=True, slots=True)
class StreamState:
    """The metadata of a stream: as a backup has it, or as it was rebuilt."""

    record: StreamRecord
    head: StreamHead
    segments: Mapping[int, Segment]


@dataclass(slots=True)
class RebuiltStream:
    """The result for one stream; ``state`` is None if the stream no longer exists."""

    state: StreamState | None
    dropped: list[int] = field(default_factory=list)
    """Ledgers that belong to segments which were purged."""
    findings: list[RebuildFinding] = field(default_factory=list)


def segment_name(metadata: LedgerMetadata) -> SegmentName | None:
    """Return the segment of a ledger; None if it was not made for one."""
    stream, custom = stream_of_ledger(metadata), metadata.custom
    try:
        lssn, epoch = int(custom[LSSN_KEY]), int(custom.get(EPOCH_KEY, b"0"))
        stream_id = custom.get(STREAM_ID_KEY, b"").decode("ascii")
    except (KeyError, ValueError):
        return None
    if stream is None or lssn < FIRST_LSSN or epoch < 0:
        return None
    return SegmentName(*stream, stream_id, lssn, epoch)


def derived_policy(metadata: LedgerMetadata) -> StreamPolicy:
    """Return a policy with the placement of a ledger and defaults for the rest."""
    quorum = metadata.quorum_at(max(metadata.last_entry_id, 0))
    custom = metadata.custom
    spread = custom.get(SPREAD_KEY, b"").decode("ascii")
    return StreamPolicy(
        quorum=quorum,
        regions=metadata.allowed_regions(),
        spread=tuple(spread.split(",")) if spread else (),
    )


def rebuild_stream(
    name: str,
    ledgers: Sequence[FoundLedger],
    base: StreamState | None,
    *,
    is_kept: Callable[[int], bool],
    fill_gap: Callable[[int, Segment], Segment],
    new_token: Callable[[], str],
) -> RebuiltStream:
    """Return the metadata of the stream ``name``.

    ``fill_gap`` returns an empty segment, completed, that follows another one.

    ``ledgers`` are those of this stream, ``base`` is its older metadata. ``is_kept`` tells whether
    a ledger of ``base`` still exists.
    """
    result = RebuiltStream(None)
    known = {} if base is None else dict(base.segments)
    chosen = _chosen(name, ledgers, known, result)
    named = {lssn: segment_name(found.metadata) for lssn, found in chosen.items()}
    ids = [one.stream_id for one in named.values() if one is not None and one.stream_id]
    identity = base.record.identity if base is not None else (ids[-1] if ids else "")
    identity += new_token()[: max(0, _FRESH_CHARACTERS - len(identity))]
    stream_id = StreamRecord(identity, 0).stream_id
    segments: dict[int, Segment] = {}
    first = _drop_purged(name, chosen, known, is_kept, result)
    numbers = [lssn for lssn in {*chosen, *known} if lssn >= first]
    for lssn in range(min(numbers), max(numbers) + 1) if numbers else ():
        segment = _segment(lssn, stream_id, chosen, known, segments)
        if segment is None:
            segment = fill_gap(lssn, segments[lssn - 1])
            result.findings.append(
                RebuildFinding("gap", name, f"segment {lssn} left no trace: empty")
            )
        segments[lssn] = segment
        _note_doubts(name, segment, chosen.get(lssn), result)
    first = min(segments, default=FIRST_LSSN)
    if not segments and (base is None or base.head.last_lssn > 0):
        result.findings.append(RebuildFinding("deleted", name, "no bookie holds any segment of it"))
        return result
    result.state = StreamState(
        _record(identity, first, segments, chosen, base),
        _head(stream_id, segments, base),
        segments,
    )
    return result


def _chosen(
    name: str,
    ledgers: Sequence[FoundLedger],
    known: Mapping[int, Segment],
    result: RebuiltStream,
) -> dict[int, FoundLedger]:
    """Return one ledger for each segment number: the one with entries, or else the newest.

    No entry is sent to a ledger before its segment is published, and a number is published once.
    What the backup has was published.
    """
    chosen: dict[int, FoundLedger] = {}

    def rank(found: FoundLedger) -> tuple[int, int, int]:
        named = segment_name(found.metadata)
        epoch = 0 if named is None else named.epoch
        return found.metadata.last_entry_id, epoch, found.metadata.ledger_id

    for found in sorted(ledgers, key=rank):
        named = segment_name(found.metadata)
        assert named is not None, "only ledgers of the stream are passed"
        published = known.get(named.lssn)
        if published is not None and published.ledger_id != found.metadata.ledger_id:
            continue
        other = chosen.get(named.lssn)
        if other is not None and other.metadata.last_entry_id != NO_ENTRY:
            ids = f"{other.metadata.ledger_id} and {found.metadata.ledger_id}"
            text = f"segment {named.lssn}: ledgers {ids} both have entries"
            result.findings.append(RebuildFinding("ambiguous", name, text))
        chosen[named.lssn] = found
    return chosen


def _drop_purged(
    name: str,
    chosen: dict[int, FoundLedger],
    known: dict[int, Segment],
    is_kept: Callable[[int], bool],
    result: RebuiltStream,
) -> int:
    """Drop what was truncated, and return the first segment that is left.

    Segments are purged from the first one on.

    A segment of the backup whose ledger no longer exists was purged, and all before it. Without a
    backup, a segment before a gap is dropped if entries of it are missing: a bookie that was down
    when the others deleted the ledger has kept its copies.
    """
    for lssn, old in known.items():
        if old.residence is Residence.HOT_AND_ARCHIVE and not is_kept(old.ledger_id):
            known[lssn] = old.with_residence(Residence.ARCHIVE)
    gone = [lssn for lssn, old in known.items() if not _exists(old, is_kept)]
    first = max(gone, default=0) + 1
    for lssn, following in pairwise(sorted(chosen)):
        is_before_gap = following != lssn + 1 and lssn + 1 not in known
        if is_before_gap and chosen[lssn].missing:
            first = max(first, lssn + 1)
    for lssn in [lssn for lssn in chosen if lssn < first]:
        result.dropped.append(chosen.pop(lssn).metadata.ledger_id)
    if result.dropped:
        text = f"{len(result.dropped)} ledgers are of purged segments before segment {first}"
        result.findings.append(RebuildFinding("purged", name, text))
    return first


def _exists(old: Segment, is_kept: Callable[[int], bool]) -> bool:
    if not old.is_completed or old.is_empty or old.is_archive_only:
        return True
    return is_kept(old.ledger_id)


def _segment(
    lssn: int,
    stream_id: str,
    chosen: Mapping[int, FoundLedger],
    known: Mapping[int, Segment],
    before: Mapping[int, Segment],
) -> Segment | None:
    """Return a segment as completed; None if nothing is known about it."""
    old, found = known.get(lssn), chosen.get(lssn)
    if old is not None and old.is_completed:
        return old
    if old is not None and found is None:
        end = SegmentEnd(NO_ENTRY, 0, 0, 0, ends_stream=False)
        return _completed(old, end, known, before)
    if found is None:
        return None
    named, metadata = segment_name(found.metadata), found.metadata
    assert named is not None
    segment = old or Segment(
        lssn, stream_id, metadata.ledger_id, named.epoch, metadata.created_ms or 0
    )
    facts = found.facts
    if facts is None:
        end = SegmentEnd(metadata.last_entry_id, metadata.length, 0, 0, ends_stream=False)
    else:
        end = SegmentEnd(
            metadata.last_entry_id,
            metadata.length,
            facts.record_count,
            facts.last_txid,
            facts.ends_stream,
            facts.producers_entry,
            last_created_ms=facts.created_ms,
        )
    return _completed(segment, end, known, before)


def _completed(
    segment: Segment, end: SegmentEnd, known: Mapping[int, Segment], before: Mapping[int, Segment]
) -> Segment:
    previous = before.get(segment.lssn - 1) or known.get(segment.lssn - 1)
    if previous is None and segment.lssn > FIRST_LSSN:
        previous = Segment(
            segment.lssn - 1, segment.stream_id, segment.ledger_id, 0, 0, is_completed=True
        )
    return segment.completed(end, previous=previous, completed_ms=segment.created_ms)


def _note_doubts(
    name: str, segment: Segment, found: FoundLedger | None, result: RebuiltStream
) -> None:
    if found is None:
        return
    if found.missing:
        text = ", ".join(f"{first}-{last}" for first, last in found.missing)
        detail = f"segment {segment.lssn}, ledger {segment.ledger_id}: no copy of entries {text}"
        result.findings.append(RebuildFinding("lost", name, detail))
    if found.may_have_ended_later:
        detail = (
            f"segment {segment.lssn}, ledger {segment.ledger_id}: entries after "
            f"{segment.last_entry_id} may have been acknowledged, and no copy of them is left"
        )
        result.findings.append(RebuildFinding("open-end", name, detail))
    if not segment.is_empty and (found.facts is None or not found.facts.has_records):
        detail = (
            f"segment {segment.lssn}: its last entry is unreadable, so that its records are not "
            "counted and later sequence ids are too low"
        )
        result.findings.append(RebuildFinding("uncounted", name, detail))


def _record(
    identity: str,
    first: int,
    segments: Mapping[int, Segment],
    chosen: Mapping[int, FoundLedger],
    base: StreamState | None,
) -> StreamRecord:
    start = Dlsn(first, 0, 0)
    if base is None:
        newest = chosen[max(chosen)].metadata
        created_ms = min(segment.created_ms for segment in segments.values())
        policy = derived_policy(newest)
        return StreamRecord(identity, created_ms, policy, start, first, first, first)
    record = base.record
    if not segments:
        return record
    first_lssn = max(record.first_lssn, first)
    record = replace(record, start=max(record.start, start), first_lssn=first_lssn)
    return replace(
        record,
        purging_lssn=max(record.purging_lssn, first_lssn),
        marked_lssn=max(record.marked_lssn, first_lssn),
        is_moving=False,
    )


def _head(stream_id: str, segments: Mapping[int, Segment], base: StreamState | None) -> StreamHead:
    old = base.head if base is not None else StreamHead()
    epochs = [segment.epoch for segment in segments.values()]
    return StreamHead(
        epoch=max([old.epoch, *epochs]) + 1,
        last_lssn=max(segments, default=old.last_lssn),
        stream_id=stream_id,
        is_sealed=old.is_sealed,
    )
