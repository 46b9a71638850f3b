"""The present end of a stream, its owner, and how far its subscriptions are behind."""

import asyncio
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import Namespace
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    MetadataUnavailableError,
    NoSuchSubscriptionError,
    RhumblineError,
)
from ...core.protocol.segments import Segment
from ...core.protocol.start import LATEST
from ..output_schema import Schema, integer, maybe, record, text

_TIMEOUT_S = 5.0
"""Time after which the bookies of an open segment count as out of reach."""
_ENTRIES_BACK = 8
"""Entries before the end that are searched for the last record set; control records are skipped."""
_SUBSCRIPTIONS_MAX = 100

OPEN_SEGMENT = record(
    {
        "segment": integer("Number of the segment."),
        "ledger": integer("Id of its ledger."),
        "records": maybe(integer("Readable records now; null if its bookies do not respond.")),
    }
)
SUBSCRIPTION: dict[str, Schema] = {
    "subscription": text("Name of the subscription."),
    "position": text("DLSN of the next record that it wants."),
    "lag_records": maybe(integer("Readable records that it has not passed yet; null: unknown.")),
}


class LiveEnd(NamedTuple):
    """The end of a stream as its bookies know it now."""

    position: Dlsn | None
    """The position after the last readable entry; None if it is not known."""
    open_records: Mapping[int, int | None]
    """Readable records of each segment in progress, by number; None if not known."""

    def total_records(self, known: StreamDescription) -> int | None:
        """Return the number of records ever readable, truncated ones too; None if not known."""
        opened = self.open_records.values()
        if any(count is None for count in opened):
            return None
        return known.completed_records + sum(count or 0 for count in opened)


async def read_live_end(namespace: Namespace, known: StreamDescription) -> LiveEnd:
    """Ask the bookies of the open segments for the end. What does not respond is not known."""
    in_progress = [segment for segment in known.segments if not segment.is_completed]
    counts: dict[int, int | None] = {segment.lssn: None for segment in in_progress}
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            end = await _end_of(namespace, known.name)
            for segment in in_progress:
                counts[segment.lssn] = await _records_of(namespace, known.name, segment, end)
    except (RhumblineError, TimeoutError):
        return LiveEnd(None, counts)
    return LiveEnd(end, counts)


class StreamCount(NamedTuple):
    """The end of a stream and the number of its records, from its last entries alone."""

    position: Dlsn
    """The position after the last readable entry."""
    records: int | None
    """All readable and truncated records; None while an earlier segment is in progress."""


async def count_records(namespace: Namespace, stream: str) -> StreamCount | None:
    """Return the present end of a stream; None if its bookies or its metadata do not respond."""
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            end = await _end_of(namespace, stream)
            for first in (max(0, end.entry_id - _ENTRIES_BACK), 0):
                found = await _last_count(namespace, stream, Dlsn(end.lssn, first, 0), end)
                if found is not None or first == 0:
                    break
    except (RhumblineError, TimeoutError):
        return None
    is_empty = found is None and end.lssn <= 1
    return StreamCount(end, 0 if is_empty else found)


async def slowest_lag(namespace: Namespace, stream: str, count: StreamCount) -> int | None:
    """Return the records that the slowest subscription has not passed; None: none, or unknown."""
    lags = [
        0
        if position >= count.position
        else None
        if count.records is None
        else await _lag(namespace, stream, position, count.records)
        for _, position in await _positions(namespace, stream)
    ]
    known = [lag for lag in lags if lag is not None]
    return max(known) if lags and len(known) == len(lags) else None


async def _last_count(namespace: Namespace, stream: str, start: Dlsn, end: Dlsn) -> int | None:
    count = None
    reader = await namespace.open_reader(stream, start, on_truncated=lambda _wanted, _first: None)
    try:
        while (batch := await reader.next_batch(until=end)) is not None:
            if batch.start_sequence_id is not None:
                count = batch.start_sequence_id + batch.record_set.position + batch.record_set.count
    finally:
        await reader.aclose()
    return count


async def read_lags(
    namespace: Namespace, known: StreamDescription, end: LiveEnd
) -> list[dict[str, Any]]:
    """Return the subscriptions of a stream with their lag, the first hundred by name."""
    total = end.total_records(known)
    rows = []
    for name, position in await _positions(namespace, known.name):
        lag = None
        if end.position is not None and position >= end.position:
            lag = 0
        elif total is not None:
            lag = await _lag(namespace, known.name, position, total)
        rows.append({"subscription": name, "position": str(position), "lag_records": lag})
    return rows


async def _end_of(namespace: Namespace, stream: str) -> Dlsn:
    reader = await namespace.open_reader(stream, LATEST)
    try:
        return reader.position
    finally:
        await reader.aclose()


async def _records_of(namespace: Namespace, stream: str, segment: Segment, end: Dlsn) -> int | None:
    """Return the readable records of the last segment with entries, 0 for one after it."""
    if segment.lssn > end.lssn:
        return 0
    if segment.lssn < end.lssn:
        return None  # its writer is completing it
    for first in (max(0, end.entry_id - _ENTRIES_BACK), 0):
        reader = await namespace.open_reader(stream, Dlsn(segment.lssn, first, 0))
        count = None
        try:
            while (batch := await reader.next_batch(until=end)) is not None:
                count = batch.record_set.position + batch.record_set.count
        finally:
            await reader.aclose()
        if count is not None:
            return count
    return 0


async def _positions(namespace: Namespace, stream: str) -> list[tuple[str, Dlsn]]:
    try:
        names = await namespace.subscriptions.names(stream, limit=_SUBSCRIPTIONS_MAX)
        found = [await namespace.subscriptions.read(stream, name) for name in names]
    except (MetadataUnavailableError, NoSuchSubscriptionError):
        return []
    return [(one.name, one.position) for one in found]


async def _lag(namespace: Namespace, stream: str, position: Dlsn, total: int) -> int | None:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            reader = await namespace.open_reader(stream, position)
            try:
                async for one in reader:
                    return None if one.sequence_id is None else total - one.sequence_id
            finally:
                await reader.aclose()
    except (RhumblineError, TimeoutError):
        return None
    return None
