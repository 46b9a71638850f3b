"""Reads segments, the newest position and row counts from the cluster, for a query's driver.

This is the only module with which the driver contacts servers. It imports the client only when a
query names a cluster.
"""

from collections.abc import Awaitable, Callable
from random import Random
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError, RhumblineError, UnavailableError
from ...core.runtime.primitives.backoff import Backoff
from ...proxies.proxy_uri import is_proxy_uri
from .options import Options

if TYPE_CHECKING:
    from ...client.connect import LogClient

T = TypeVar("T")

_PAUSE_MS_MIN = 50
_PAUSE_MS_MAX = 500
_TIMEOUT_MS = 10_000
_PAGE_STREAMS = 1000


class HotSegment(NamedTuple):
    """A segment according to its metadata; ``entries`` is None while it is in progress."""

    lssn: int
    entries: int | None
    record_count: int
    completed_ms: int
    start_sequence_id: int


class HotStream(NamedTuple):
    """A stream according to its metadata."""

    start: Dlsn
    segments: dict[int, HotSegment]
    """Segments by LSSN, including those that are truncated but not yet purged."""

    def is_empty_between(self, start: Dlsn, end: Dlsn) -> bool:
        """True if [start, end) certainly holds no records.

        That is the case from the end of a segment to the beginning of the next one. A query may
        therefore continue although the segment that it has read completely has expired.
        """
        for lssn in range(start.lssn, end.lssn + 1):
            begin = start if lssn == start.lssn else Dlsn(lssn, 0, 0)
            if begin >= end:
                break
            segment = self.segments.get(lssn)
            if segment is None or segment.entries is None:
                return False
            if segment.record_count and begin.entry_id < segment.entries:
                return False
        return True


def new_client(options: Options) -> "LogClient":
    """Return a client for the cluster. Raises ConfigurationError if a library is missing."""
    from ...client.connect import connect

    assert options.metadata is not None
    uses_proxies = is_proxy_uri(options.metadata)
    return connect(
        options.metadata,
        namespace=options.namespace,
        region=options.region,
        cold=None if uses_proxies else options.archive,  # proxies open the cold store
        **options.files.arguments(),
    )


class HotView:
    """Reads metadata and positions of streams through an open client."""

    def __init__(self, client: "LogClient") -> None:
        self._client = client

    async def describe(self, stream: str) -> HotStream:
        """Return the start and the segments of a stream. Raises NoSuchStreamError."""
        found = await with_retries(lambda: self._client.namespace().describe(stream))
        segments = {
            segment.lssn: HotSegment(
                segment.lssn,
                segment.last_entry_id + 1 if segment.is_completed else None,
                segment.record_count,
                segment.completed_ms,
                segment.start_sequence_id,
            )
            for segment in found.segments
        }
        return HotStream(found.start, segments)

    async def end(self, stream: str) -> Dlsn:
        """Return the entry boundary after the last record that is visible now."""
        from ...core.protocol.start import LATEST

        async def read_end() -> Dlsn:
            async with self._client.reader(stream, LATEST) as reader:
                return reader.position

        return await with_retries(read_end)

    async def streams(self) -> list[str]:
        """Return all streams of the namespace."""
        found: list[str] = []

        async def next_page() -> list[str]:
            after = found[-1] if found else None
            return list(await self._client.namespace().streams(after=after, limit=_PAGE_STREAMS))

        while names := await with_retries(next_page):
            found += names
        return found

    async def first_at_time(self, stream: str, begin: Dlsn, ms: int) -> Dlsn | None:
        """Return the first entry from ``begin`` on with a record created at ``ms`` or later.

        Return None if the segment of ``begin`` has no such record.
        """

        async def find_entry() -> Dlsn | None:
            async with self._client.reader(stream, begin) as reader:
                until = min(await self.end(stream), Dlsn(begin.lssn + 1, 0, 0))
                while (batch := await reader.next_batch(until=until)) is not None:
                    if batch.lssn == begin.lssn and batch.record_set.created_ms >= ms:
                        return batch.first_dlsn._replace(slot=0)
            return None

        return await with_retries(find_entry)

    async def boundary(self, stream: str, start: Dlsn, end: Dlsn, rows: int) -> Dlsn:
        """See StreamIndex.boundary."""
        from ...core.protocol.start import AtSequenceId

        async def find_boundary() -> Dlsn:
            sequence = await self._sequence_of(stream, start, end)
            if sequence is None:
                return end
            try:
                async with self._client.reader(stream, AtSequenceId(sequence + rows)) as reader:
                    found = reader.position
            except InvalidArgumentError:
                return end  # the stream has fewer records so far
            lowest = Dlsn(start.lssn, start.entry_id + 1, 0)
            return min(end, max(lowest, Dlsn(found.lssn, found.entry_id, 0)))

        return await with_retries(find_boundary)

    async def count(self, stream: str, start: Dlsn, end: Dlsn) -> int:
        """Return the number of records in [start, end) that still exist; ``end`` is a boundary."""
        found = await self.describe(stream)
        begin = max(start, found.start)

        async def count_records() -> int:
            first = await self._sequence_of(stream, begin, end) if begin < end else None
            return 0 if first is None else await self._end_sequence(found, stream, end) - first

        return await with_retries(count_records)

    async def _end_sequence(self, found: HotStream, stream: str, end: Dlsn) -> int:
        """Return the sequence id after the last record before ``end``."""
        segment = found.segments.get(end.lssn)
        if segment is not None and segment.entries is not None and end.entry_id >= segment.entries:
            return segment.start_sequence_id + segment.record_count
        entries = 1
        begin = Dlsn(end.lssn, end.entry_id, 0)
        while begin.entry_id > 0:  # usually the last entry has records, and is the only one read
            begin = Dlsn(end.lssn, max(0, end.entry_id - entries), 0)
            after = None
            async with self._client.reader(stream, begin) as reader:
                while (batch := await reader.next_batch(until=end)) is not None:
                    after = (
                        _start_sequence(stream, batch.lssn, batch.start_sequence_id)
                        + batch.record_set.position
                        + batch.record_set.count
                    )
            if after is not None:
                return after
            entries *= 8
        before = found.segments.get(end.lssn - 1)
        return 0 if before is None else before.start_sequence_id + before.record_count

    async def _sequence_of(self, stream: str, start: Dlsn, end: Dlsn) -> int | None:
        """Return the sequence id of the first record in [start, end), or None if it is empty."""
        async with self._client.reader(stream, start) as reader:
            batch = await reader.next_batch(until=end)
        if batch is None:
            return None
        first = _start_sequence(stream, batch.lssn, batch.start_sequence_id)
        return first + batch.record_set.position + batch.first_index


def _start_sequence(stream: str, lssn: int, start_sequence_id: int | None) -> int:
    """Return the sequence id of a segment's first record. Raises UnavailableError if unknown."""
    if start_sequence_id is None:
        raise UnavailableError(
            f"stream {stream}: segment {lssn} has no sequence ids yet, as an earlier segment is "
            "in progress"
        )
    return start_sequence_id


async def with_retries(operation: Callable[[], Awaitable[T]]) -> T:
    """Return the result of ``operation``. Retry it for ten seconds after retryable errors."""
    backoff = Backoff(Random(), _PAUSE_MS_MIN, _PAUSE_MS_MAX, timeout_ms=_TIMEOUT_MS)
    while True:
        try:
            return await operation()
        except RhumblineError as error:
            if not error.retryable or backoff.is_over:
                raise
        await backoff.pause()
