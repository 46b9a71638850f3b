"""The number of records of a stream, and how many of them a subscription has not passed.

Everything here reads: the end of the stream from its bookies, and one entry at a position.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

from ...core.log.api.log_namespace import LogNamespace
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    MetadataUnavailableError,
    NoSuchSubscriptionError,
    RhumblineError,
)

TIMEOUT_S = 5.0
"""Time after which the bookies of an open segment count as out of reach."""
ENTRIES_BACK = 8
"""Entries before the end that are searched for the last record set; control records are skipped."""
SUBSCRIPTIONS_MAX = 100
"""Maximum number of subscriptions of a stream that are examined, by name."""


class StreamCount(NamedTuple):
    """The end of a stream and the number of its records, from its last entries alone."""

    position: Dlsn
    """The position after the last readable entry."""
    records: int | None
    """All readable and truncated records; None while an earlier segment is in progress."""


class Lag(NamedTuple):
    """The readable records that a subscription has not passed yet."""

    records: int | None
    """Their number; None if it is not known."""
    oldest_ms: int | None
    """Time of day in ms at which the producer created the first one; None: none, or unknown."""

    def behind_ms(self, now_ms: int) -> int | None:
        """Return the age of the oldest of these records, 0 without any; None if unknown."""
        if self.oldest_ms is None:
            return self.records
        return max(0, now_ms - self.oldest_ms)


NO_LAG = Lag(0, None)
UNKNOWN_LAG = Lag(None, None)


async def read_positions(namespace: LogNamespace, stream: str) -> list[tuple[str, Dlsn]]:
    """Return the subscriptions of a stream. Raises MetadataUnavailableError."""
    found = []
    for name in await namespace.subscriptions.names(stream, limit=SUBSCRIPTIONS_MAX):
        with suppress(NoSuchSubscriptionError):  # it was deleted meanwhile
            found.append((name, (await namespace.subscriptions.read(stream, name)).position))
    return found


async def count_records(namespace: LogNamespace, stream: str) -> StreamCount | None:
    """Return the present end of a stream; None if its bookies or the metadata store do not respond.

    Old metadata is not enough: the end might be later, and the lag would seem too small.
    """
    try:
        async with asyncio.timeout(TIMEOUT_S):
            end = await namespace.end(stream)
            for first in (max(0, end.entry_id - ENTRIES_BACK), 0):
                found = await _last_count(namespace, stream, Dlsn(end.lssn, first, 0), end)
                if found is not None or first == 0:
                    break
    except (RhumblineError, TimeoutError):
        return None
    is_empty = found is None and end.lssn <= 1
    return StreamCount(end, 0 if is_empty else found)


async def lag_of(namespace: LogNamespace, stream: str, position: Dlsn, count: StreamCount) -> Lag:
    """Return how far a subscription at ``position`` is behind the end of its stream."""
    if position >= count.position:
        return NO_LAG
    try:
        async with asyncio.timeout(TIMEOUT_S):
            reader = await namespace.open_reader(stream, position, on_truncated=_ignore_truncation)
            try:
                batch = await reader.next_batch(until=count.position)
            finally:
                await reader.aclose()
    except (RhumblineError, TimeoutError):
        return UNKNOWN_LAG
    if batch is None:
        return NO_LAG  # nothing but control records is left
    first = batch.records()[0]
    if count.records is None or first.sequence_id is None:
        return Lag(None, first.created_ms)
    return Lag(count.records - first.sequence_id, first.created_ms)


async def slowest_lag(namespace: LogNamespace, stream: str, count: StreamCount) -> int | None:
    """Return the records that the slowest subscription has not passed; None: none, or unknown."""
    try:
        positions = await read_positions(namespace, stream)
    except MetadataUnavailableError:
        return None
    lags = [(await lag_of(namespace, stream, position, count)).records for _, position in positions]
    known = [lag for lag in lags if lag is not None]
    return max(known) if lags and len(known) == len(lags) else None


async def _last_count(namespace: LogNamespace, stream: str, start: Dlsn, end: Dlsn) -> int | None:
    count = None
    reader = await namespace.open_reader(stream, start, on_truncated=_ignore_truncation)
    try:
        while (batch := await reader.next_batch(until=end)) is not None:
            if batch.start_sequence_id is not None:
                count = batch.start_sequence_id + batch.record_set.position + batch.record_set.count
    finally:
        await reader.aclose()
    return count


def _ignore_truncation(_wanted: Dlsn, _first: Dlsn) -> None:
    """Begin at the first readable record instead."""
