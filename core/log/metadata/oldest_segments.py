"""Finds the segments at which retention begins and ends, and data that should be gone by now."""

from dataclasses import dataclass

from ...protocol.segments import NO_SEGMENT, Residence, Segment
from ..policy import StreamPolicy
from .stream_metadata import StreamRecord
from .stream_store import StreamStore

_EXAMINED_MAX = 1000


@dataclass(frozen=True, slots=True)
class OverdueData:
    """The data of a stream that should have been deleted first, and for how long it is overdue."""

    lssn: int
    overdue_ms: int
    reason: str
    """The setting that wants it gone."""


def is_too_old(segment: Segment, policy: StreamPolicy, now_ms: int) -> bool:
    """True if ``retention_ms`` truncates the segment."""
    return (
        policy.retention_ms is not None
        and segment.is_completed
        and now_ms - segment.completed_ms >= policy.retention_ms
    )


def first_needed(newest: Segment, otherwise: int) -> int:
    """Return the first segment that the deduplication table needs; ``otherwise`` if none."""
    return otherwise if newest.producers_lssn == NO_SEGMENT else newest.producers_lssn


async def newest_completed(
    streams: StreamStore, stream: str, record: StreamRecord
) -> Segment | None:
    """Return the newest completed segment, which is never purged; None if there is none."""
    lssn = (await streams.head(stream, record.stream_id))[0].last_lssn
    while lssn > 0:
        stored = await streams.segment(stream, lssn, record.stream_id)
        if stored is None:
            break
        if stored.segment.is_completed:
            return stored.segment
        lssn -= 1
    return None


async def first_with_ledger(
    streams: StreamStore, stream: str, record: StreamRecord, high: int
) -> int:
    """Return the first LSSN below ``high`` that has a ledger; ``high`` if there is none."""
    low = record.first_lssn
    while low < high:
        middle = (low + high) // 2
        stored = await streams.segment(stream, middle, record.stream_id)
        if stored is None or stored.segment.is_archive_only:
            low = middle + 1
        else:
            high = middle
    return low


async def find_overdue(
    streams: StreamStore, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
) -> OverdueData | None:
    """Return the data that should have been deleted first by policy; None if there is none.

    Segments that are kept for other reasons, as the newest completed one is, are not overdue.
    Raises NoSuchStreamError and the errors of the metadata store.
    """
    found = [
        await _overdue_segment(streams, stream, record, policy, now_ms),
        await _overdue_hot_copy(streams, stream, record, policy, now_ms),
    ]
    return max((one for one in found if one), key=lambda one: one.overdue_ms, default=None)


async def _overdue_segment(
    streams: StreamStore, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
) -> OverdueData | None:
    if policy.retention_ms is None and record.first_lssn >= record.marked_lssn:
        return None
    for lssn in range(record.first_lssn, record.first_lssn + _EXAMINED_MAX):
        stored = await streams.segment(stream, lssn, record.stream_id)
        if stored is not None:
            overdue = _purge_overdue(stored.segment, record, policy, now_ms)
            newest = await newest_completed(streams, stream, record) if overdue else None
            is_kept = newest is None or lssn >= first_needed(newest, newest.lssn)
            return None if is_kept else overdue
        if lssn >= record.start.lssn:
            break  # the stream is empty; otherwise a purge stopped half-way
    return None


def _purge_overdue(
    segment: Segment, record: StreamRecord, policy: StreamPolicy, now_ms: int
) -> OverdueData | None:
    due: list[tuple[int, str]] = []
    if segment.lssn < record.marked_lssn:
        due.append((record.marked_ms + policy.purge_grace_ms, "truncation"))
    if policy.retention_ms is not None and segment.is_completed:
        expires_ms = segment.completed_ms + policy.retention_ms
        due.append((expires_ms + policy.purge_grace_ms, "retention"))
    overdue_ms, reason = max(((now_ms - at_ms, why) for at_ms, why in due), default=(0, ""))
    return OverdueData(segment.lssn, overdue_ms, reason) if overdue_ms > 0 else None


async def _overdue_hot_copy(
    streams: StreamStore, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
) -> OverdueData | None:
    if policy.hot_retention_ms is None:
        return None
    newest = await newest_completed(streams, stream, record)
    if newest is None:
        return None
    stop = first_needed(newest, newest.lssn + 1)
    lssn = await first_with_ledger(streams, stream, record, stop)
    if lssn == stop:
        return None
    stored = await streams.segment(stream, lssn, record.stream_id)
    if stored is None:
        return None
    overdue_ms = now_ms - stored.segment.completed_ms - policy.hot_retention_ms
    is_archived = stored.segment.residence is not Residence.HOT
    reason = "hot retention" if is_archived else "hot retention, and it is not archived"
    return OverdueData(lssn, overdue_ms, reason) if overdue_ms > 0 else None
