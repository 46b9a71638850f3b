"""The present end of a stream, its owner, and how far its subscriptions are behind."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import Namespace
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import MetadataUnavailableError, RhumblineError
from ...core.protocol.segments import Segment
from ...regions.subscriptions.lag_bytes import bytes_of
from ...regions.subscriptions.stream_lag import (
    ENTRIES_BACK,
    TIMEOUT_S,
    UNKNOWN_LAG,
    StreamCount,
    lag_of,
    read_positions,
)
from ..output_schema import Schema, integer, maybe, record, text

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
    "lag_bytes": maybe(integer("Their bytes, exact in wholly unread segments; null: unknown.")),
    "behind_ms": maybe(integer("Age of the oldest of them; 0: none, null: unknown.")),
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
        async with asyncio.timeout(TIMEOUT_S):
            end = await namespace.end(known.name)
            for segment in in_progress:
                counts[segment.lssn] = await _records_of(namespace, known.name, segment, end)
    except (RhumblineError, TimeoutError):
        return LiveEnd(None, counts)
    return LiveEnd(end, counts)


async def read_lags(
    namespace: Namespace, known: StreamDescription, end: LiveEnd
) -> list[dict[str, Any]]:
    """Return the subscriptions of a stream with their lag, the first hundred by name.

    Without the metadata store there are none. Raises MetadataUnavailableError if the description
    does not show that by its age.
    """
    total = end.total_records(known)
    try:
        positions = await read_positions(namespace, known.name)
    except MetadataUnavailableError:
        if known.metadata_age_ms is None:
            raise
        positions = []
    rows = []
    for name, position in positions:
        lag = UNKNOWN_LAG
        if end.position is not None:
            count = StreamCount(end.position, total)
            lag = await lag_of(namespace, known.name, position, count)
        rows.append(
            {
                "subscription": name,
                "position": str(position),
                "lag_records": lag.records,
                "lag_bytes": bytes_of(lag, total, known.segments),
                "behind_ms": lag.behind_ms(time.time_ns() // 1_000_000),
            }
        )
    return rows


async def _records_of(namespace: Namespace, stream: str, segment: Segment, end: Dlsn) -> int | None:
    """Return the readable records of the last segment with entries, 0 for one after it."""
    if segment.lssn > end.lssn:
        return 0
    if segment.lssn < end.lssn:
        return None  # its writer is completing it
    for first in (max(0, end.entry_id - ENTRIES_BACK), 0):
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
