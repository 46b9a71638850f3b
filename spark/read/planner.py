"""Plans a query on the driver: finds positions and divides ranges of them into splits.

Archived segments are planned from manifests, all others from the metadata of the cluster. Both
copies of a segment hold the same records (rule STR-22), so a repeated micro-batch may read a
segment from the archive that an earlier attempt read from its ledger.
"""

import asyncio
import re
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any, TypeVar

from ...coldstore.archive.manifest import Manifest, Part
from ...coldstore.archive.part_scan import RowSelection
from ...coldstore.archive.schema import MICROSECONDS_PER_MS
from ...coldstore.archive.stream_index import ArchivedSegments, StreamIndex
from ...coldstore.index.namespace_index import LISTED_ALONE, NamespaceIndex
from ...coldstore.stores.open_store import ColdStoreOpener, open_cold_store
from ...core.protocol.dlsn import Dlsn, dlsn_in
from ...core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NoSuchObjectError,
    NoSuchStreamError,
    TruncatedError,
)
from .bounds import EARLIEST, LATEST, AtTimestamp
from .conditions import HIGHEST, Ranges
from .data_loss import data_loss_error, log_data_loss, position_now
from .division import Split
from .hot_view import HotStream, HotView, new_client
from .options import Options
from .splits import ArchiveSplit, HotSplit

T = TypeVar("T")

_VISIBLE_ATTEMPTS = 8
_VISIBLE_PAUSE_S = 0.25
"""A query waits this often and this long for its end, before the end counts as wrong."""


class Planner:
    """Plans the splits of a query. It opens connections on first use; ``close`` closes them."""

    def __init__(self, options: Options, open_cold: ColdStoreOpener | None = None) -> None:
        """Without ``open_cold``, the archive is opened with the settings of this process."""
        self._options = options
        self._open_cold = open_cold
        self._runner = asyncio.Runner()
        self._closing = AsyncExitStack()
        self._is_open = False
        self._has_begun = False
        self._archived: tuple[str, ...] = ()
        """The streams that match the pattern, in a query on the archive alone."""
        self._cold: NamespaceIndex | None = None
        self._hot: HotView | None = None

    def close(self) -> None:
        """Close connections. Safe to repeat."""
        if self._is_open:
            self._is_open = False
            self._runner.run(self._closing.aclose())
        self._runner.close()

    def begin(self) -> None:
        """Read what the archive holds now, for all streams at once.

        A query on the archive alone plans with this state until the next call. Raises
        NoSuchStreamError if no stream matches, and the errors of the cold store. With a cluster,
        the archive is read when it is needed first.
        """
        if self._options.metadata is None:
            self._run(self._begin())
        elif self._cold is not None:
            self._cold.begin()

    async def _begin(self) -> None:
        assert self._cold is not None
        if self._options.subscribe:
            await self._cold.refresh(self._options.subscribe)
        else:
            pattern = re.compile(self._options.pattern or "")
            found = await self._cold.refresh_matching(lambda name: bool(pattern.fullmatch(name)))
            self._archived = self._checked(tuple(found))
        self._has_begun = True

    # --- streams --------------------------------------------------------------------------------

    def streams(self) -> tuple[str, ...]:
        """Return the streams of the query now. Raises NoSuchStreamError if none matches."""
        return self._options.subscribe or self._run(self._matching())

    async def _matching(self) -> tuple[str, ...]:
        if self._hot is None:
            if not self._has_begun:
                await self._begin()
            return self._archived
        pattern = re.compile(self._options.pattern or "")
        known = await self._hot.streams()
        return self._checked(tuple(name for name in sorted(known) if pattern.fullmatch(name)))

    def _checked(self, found: tuple[str, ...]) -> tuple[str, ...]:
        if not found:
            raise NoSuchStreamError(
                f"subscribePattern: no stream of namespace {self._options.namespace} matches "
                f"{self._options.pattern!r}"
            )
        return found

    # --- positions ------------------------------------------------------------------------------

    def first(self, stream: str) -> Dlsn:
        """Return the first position that can be read."""
        return self._run(self._first(stream))

    def end(self, stream: str) -> Dlsn:
        """Return the entry boundary after the last record that is visible now."""
        return self._run(self._end(stream))

    def start(self, stream: str) -> Dlsn:
        """Return the first position of the query.

        Raises InvalidArgumentError if the options define no position in the stream.
        """
        bound = self._options.starting
        if isinstance(bound, AtTimestamp):
            ms = bound.for_stream(stream)
            found = self._run(self._start_at_time(stream, ms))
            if found is None and not self._options.late_start_begins_at_latest:
                raise InvalidArgumentError(
                    f"stream {stream} has no record created at {ms} ms or later; set option "
                    "startingOffsetsByTimestampStrategy=latest to start at the end of the stream"
                )
            return self.end(stream) if found is None else found
        found = self._resolve(bound, stream)
        if isinstance(bound, dict):
            return self.position_now(stream, found, self.first(stream).stream_id)
        return found

    def stop(self, stream: str) -> Dlsn:
        """Return the end of a batch query.

        Raises InvalidArgumentError if the options define no position in the stream.
        """
        bound = self._options.ending
        if isinstance(bound, AtTimestamp):
            return self._run(self._at_time(stream, bound.for_stream(stream))) or self.end(stream)
        found = self._resolve(bound, stream)
        return self._run(self._within_end(stream, found)) if isinstance(bound, dict) else found

    def _resolve(self, bound: str | dict[str, Dlsn | str], stream: str) -> Dlsn:
        if isinstance(bound, dict) and stream not in bound:
            raise InvalidArgumentError(f"the offsets have no position for stream {stream}")
        wanted = bound[stream] if isinstance(bound, dict) else bound
        if isinstance(wanted, Dlsn):
            return wanted
        assert wanted in (EARLIEST, LATEST)
        return self.first(stream) if wanted == EARLIEST else self.end(stream)

    def position_now(self, stream: str, position: Dlsn, stream_id: str) -> Dlsn:
        """Return ``position`` in the stream of this id; see ``data_loss.position_now``."""
        return position_now(
            stream,
            position,
            stream_id,
            lambda: self.first(stream),
            fails_on_data_loss=self._options.fails_on_data_loss,
        )

    def boundary(self, stream: str, start: Dlsn, end: Dlsn, rows: int) -> Dlsn:
        """Return the last entry boundary in (start, end] at most ``rows`` records after ``start``.

        If the first entry alone has more records, return the boundary after it.
        """
        return self._run(self._boundary(stream, start, end, rows)).in_stream(end.stream_id)

    def count(self, stream: str, start: Dlsn, end: Dlsn) -> int:
        """Return the number of records in [start, end) that still exist; both are boundaries."""
        return self._run(self._count(stream, start, end))

    # --- splits ---------------------------------------------------------------------------------

    def splits(
        self, stream: str, start: Dlsn, end: Dlsn, ranges: Ranges | None = None
    ) -> list[Split]:
        """Return the splits of [start, end). Raises GapError if records of it were deleted."""
        return self._run(self._splits(stream, start, end, ranges or Ranges()))

    async def _splits(self, stream: str, start: Dlsn, end: Dlsn, ranges: Ranges) -> list[Split]:
        hot = None if self._hot is None else await self._hot.describe(stream)
        manifests = await self._manifests(stream, hot)
        first = _first_archived(manifests, end) if hot is None else hot.start
        stream_id = first.stream_id
        for given in (start, end):
            given.check_stream(stream, stream_id)
        start = self._skip_deleted(stream, start, end, first, hot).in_stream(stream_id)
        end = await self._end_in_time(stream, manifests, start, end, ranges)
        splits: list[Split] = []
        for lssn in range(start.lssn, end.lssn + 1):
            begin = start if lssn == start.lssn else dlsn_in(stream_id, lssn, 0, 0)
            if begin >= end:
                break
            stop = end if lssn == end.lssn else Dlsn(lssn + 1, 0, 0)
            if not ranges.may_match("lssn", lssn, lssn):
                continue
            manifests.check(lssn)
            if lssn in manifests:
                _check_same_segment(manifests[lssn], hot)
                splits += _archive_splits(manifests[lssn], begin, stop, ranges)
            elif hot is not None and lssn in hot.segments:
                splits += _hot_splits(hot, stream, begin, stop, ranges)
            elif self._options.fails_on_data_loss:
                raise data_loss_error(stream, begin, stop)
            else:
                log_data_loss(stream, begin, stop)
        return splits

    async def _end_in_time(
        self, stream: str, manifests: ArchivedSegments, start: Dlsn, end: Dlsn, ranges: Ranges
    ) -> Dlsn:
        """Return ``end``, or the first entry that was created too late for the query.

        All entries after that one were created too late as well (rule STR-39). Only archived
        segments are searched: ledgers would be read completely for it. If a file is missing, the
        search ends; a task that needs the file reports it.
        """
        if ranges.highest("created") == HIGHEST:
            return end
        late_ms = ranges.highest("created") // MICROSECONDS_PER_MS + 1
        for lssn in range(start.lssn, end.lssn + 1):
            if lssn not in manifests:
                break
            if manifests[lssn].completed_ms < late_ms:
                continue
            try:
                found = await self._index(stream).first_at_time(lssn, late_ms)
            except NoSuchObjectError:
                break
            if found is not None:
                return min(found, end)
        return end

    # --- internals ------------------------------------------------------------------------------

    async def _first(self, stream: str) -> Dlsn:
        if self._hot is not None:
            return (await self._hot.describe(stream)).start
        manifests = await self._manifests(stream)
        return self._index(stream).first().in_stream(manifests.stream_id)

    async def _end(self, stream: str) -> Dlsn:
        if self._hot is not None:
            return await self._hot.end(stream)
        manifests = await self._manifests(stream)
        return self._index(stream).end().in_stream(manifests.stream_id)

    async def _within_end(self, stream: str, wanted: Dlsn) -> Dlsn:
        """Return ``wanted``, or the end of the stream if that is earlier and losses are allowed.

        Raises InvalidArgumentError if ``wanted`` is after the end and the query fails on data loss.
        """
        limit = await self._last_end(stream)
        wanted.check_stream(stream, limit.stream_id)
        for _ in range(_VISIBLE_ATTEMPTS if self._hot is not None else 0):
            if wanted <= limit:
                break
            await asyncio.sleep(_VISIBLE_PAUSE_S)  # acknowledged records are visible soon
            limit = await self._last_end(stream)
        if wanted > limit and self._options.fails_on_data_loss:
            raise InvalidArgumentError(
                f"endingOffsets: {wanted} is after the end of stream {stream}, which is {limit}; "
                "set option failOnDataLoss=false to read up to that end"
            )
        return min(wanted, limit).in_stream(limit.stream_id)

    async def _last_end(self, stream: str) -> Dlsn:
        """Return the last position at which a batch query can end now."""
        if self._hot is not None:
            hot = await self._hot.describe(stream)
            last = hot.segments.get(max(hot.segments, default=0))
            if last is not None and last.entries is not None:
                return dlsn_in(hot.start.stream_id, last.lssn + 1, 0, 0)
        return await self._end(stream)

    async def _boundary(self, stream: str, start: Dlsn, end: Dlsn, rows: int) -> Dlsn:
        if self._hot is None:
            manifests = await self._manifests(stream)
            start = self._skip_deleted(stream, start, end, _first_archived(manifests, end), None)
            return end if start >= end else await self._index(stream).boundary(start, end, rows)
        while start < end:
            try:
                return await self._hot.boundary(stream, start, end, rows)
            except TruncatedError:
                hot = await self._hot.describe(stream)
                start = self._skip_deleted(stream, start, end, hot.start, hot)
        return end

    async def _count(self, stream: str, start: Dlsn, end: Dlsn) -> int:
        if self._hot is not None:
            return await self._hot.count(stream, start, end)
        manifests = await self._manifests(stream)
        first = _first_archived(manifests, end)
        return await self._index(stream).count(max(start, first), end)

    def _skip_deleted(
        self, stream: str, start: Dlsn, end: Dlsn, first: Dlsn, hot: HotStream | None
    ) -> Dlsn:
        """Return the later one of ``start`` and ``first``, the first position that still exists.

        Raises GapError if records of [start, end) were deleted and the query fails on data loss.
        """
        if start >= first:
            return start
        stop = min(first, end)
        is_empty = hot is not None and hot.is_empty_between(start, stop)
        if start < end and not is_empty:
            if self._options.fails_on_data_loss:
                raise data_loss_error(stream, start, stop)
            log_data_loss(stream, start, stop)
        return first

    async def _at_time(self, stream: str, ms: int) -> Dlsn | None:
        """Return the entry of the first record created at ``ms`` or later, or None.

        Segments that were completed before ``ms`` are not read.
        """
        hot = None if self._hot is None else await self._hot.describe(stream)
        manifests = await self._manifests(stream, hot)
        first = await self._first(stream)
        known = set(manifests) | set(hot.segments if hot is not None else ())
        for lssn in sorted(number for number in known if number >= first.lssn):
            if lssn in manifests:
                if manifests[lssn].completed_ms < ms:
                    continue
                found = await self._index(stream).first_at_time(lssn, ms)
            else:
                assert hot is not None
                segment = hot.segments[lssn]
                if segment.entries is not None and segment.completed_ms < ms:
                    continue
                assert self._hot is not None
                begin = max(first, Dlsn(lssn, 0, 0))
                found = await self._hot.first_at_time(stream, begin, ms)
            if found is not None:
                return max(found, first).in_stream(first.stream_id)
        return None

    async def _start_at_time(self, stream: str, ms: int) -> Dlsn | None:
        """Return ``_at_time``, or the start of missing segments that can hold an earlier record."""
        found = await self._at_time(stream, ms)
        if self._hot is not None:
            return found
        manifests = self._index(stream).manifests
        behind = manifests.covered.stop if found is None else found.lssn
        lssn = behind
        while lssn > manifests.covered.start and lssn - 1 not in manifests:
            lssn -= 1
        can_be_missing = lssn < behind and (
            behind not in manifests or manifests[behind].created_ms >= ms
        )
        return dlsn_in(manifests.stream_id, lssn, 0, 0) if can_be_missing else found

    async def _manifests(self, stream: str, hot: HotStream | None = None) -> ArchivedSegments:
        """Return the manifests of the stream that the cluster has, or of the newest one."""
        if self._cold is None:
            return ArchivedSegments()
        index = self._index(stream)
        if hot is not None and self._has_many_streams:
            await self._cold.refresh_stream(stream, hot.start.stream_id)
        elif not (self._has_begun and index.is_read):
            await index.refresh("" if hot is None else hot.start.stream_id)
        return index.manifests

    @property
    def _has_many_streams(self) -> bool:
        """True if the index of the namespace is worth reading."""
        return self._options.pattern is not None or len(self._options.subscribe) > LISTED_ALONE

    def _index(self, stream: str) -> StreamIndex:
        assert self._cold is not None
        return self._cold.index(stream)

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        async def opened() -> T:
            if not self._is_open:
                await self._open()
            return await work

        return self._runner.run(opened())

    async def _open(self) -> None:
        options = self._options
        async with AsyncExitStack() as opening:
            if options.archive is not None:
                cold = (self._open_cold or open_cold_store)(options.archive)
                opening.push_async_callback(cold.close)
                self._cold = NamespaceIndex(cold, options.namespace)
            if options.metadata is not None:
                client = new_client(options)
                opening.push_async_callback(client.aclose)
                await client.__aenter__()
                self._hot = HotView(client)
            self._closing = opening.pop_all()
        self._is_open = True


def _first_archived(manifests: ArchivedSegments, end: Dlsn) -> Dlsn:
    """Return the first archived position, or ``end`` if nothing is archived."""
    covered = manifests.covered
    return dlsn_in(manifests.stream_id, covered.start, 0, 0) if covered else end


def _check_same_segment(manifest: Manifest, hot: HotStream | None) -> None:
    """Raise CorruptionError if the segment in the archive differs from the one in the cluster."""
    segment = None if hot is None else hot.segments.get(manifest.lssn)
    if segment is None:
        return
    if (segment.entries, segment.record_count) != (
        manifest.last_entry_id + 1,
        manifest.record_count,
    ):
        raise CorruptionError(
            f"stream {manifest.stream}: archive and cluster differ in segment {manifest.lssn}: "
            f"{manifest.last_entry_id + 1} entries with {manifest.record_count} records, and "
            f"{segment.entries} entries with {segment.record_count} records"
        )


def _is_too_old(completed_ms: int, ranges: Ranges) -> bool:
    """True if all records of a segment that was completed then are too old (rule STR-39)."""
    return (completed_ms + 1) * MICROSECONDS_PER_MS <= ranges.lowest("created")


def _archive_splits(manifest: Manifest, begin: Dlsn, stop: Dlsn, ranges: Ranges) -> list[Split]:
    if _is_too_old(manifest.completed_ms, ranges):
        return []
    stop = min(stop, Dlsn(manifest.lssn, manifest.last_entry_id + 1, 0))
    selection = RowSelection(
        begin.entry_id,
        stop.entry_id,
        begin.slot,
        stop.slot,
        ranges.of_column("entry_id"),
        ranges.of_column("txid"),
        ranges.of_column("created"),
        ranges.of_column("event_time"),
    )
    return [
        _archive_split(manifest, part, selection)
        for part in manifest.parts
        if Dlsn(manifest.lssn, part.first_entry_id, 0) < stop
        and begin.entry_id <= part.last_entry_id
        and ranges.may_match("entry_id", part.first_entry_id, part.last_entry_id)
        and ranges.may_match("txid", part.first_txid, part.last_txid)
    ]


def _archive_split(manifest: Manifest, part: Part, selection: RowSelection) -> ArchiveSplit:
    key = manifest.part_key(part)
    split = ArchiveSplit(manifest.stream, manifest.lssn, key, part, selection, part.record_count)
    first, end = split.entry_range
    held = part.last_entry_id + 1 - part.first_entry_id
    split.records = -(-part.record_count * (end - first) // held)
    return split


def _hot_splits(
    hot: HotStream, stream: str, begin: Dlsn, stop: Dlsn, ranges: Ranges
) -> list[Split]:
    segment = hot.segments[begin.lssn]
    entries = segment.entries
    if entries is not None:
        if _is_too_old(segment.completed_ms, ranges):
            return []
        stop = min(stop, Dlsn(begin.lssn, entries, 0))
    elif begin.lssn < stop.lssn:
        raise CorruptionError(
            f"stream {stream}: an offset is after segment {begin.lssn}, which is in progress"
        )
    if begin >= stop:
        return []
    split = HotSplit(stream, begin, stop, 0)
    first, end = split.entry_range
    # Of a segment in progress only the entries are known, which have a record at least.
    split.records = -(-segment.record_count * (end - first) // entries) if entries else end - first
    return [split]
