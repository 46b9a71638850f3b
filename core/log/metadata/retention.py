"""Retention: truncates old segments, purges them later, and deletes archived ledgers.

Truncation hides records from readers immediately, and can be undone until the purge begins.
Purging deletes the ledgers after a grace period. The order of a purge makes every crash harmless,
keeps an untruncation from reaching into it, and gives readers a typed error (rule STR-21):

1. The start of the stream moves past the segment; from here on readers get TruncatedError.
2. The grace period passes. It begins when the record is marked.
3. The ``purging_lssn`` of the record moves past the segment: the start can no longer move back.
4. The ledger is deleted, then the metadata of the segment.
5. The ``first_lssn`` of the record moves.

Steps 1, 2, 3 and 5 are compare-and-sets on the record, which an untruncation changes too. Whatever
happens between steps 3 and 5, the next pass continues with step 4.

Archived segments also lose their ledger after ``hot_retention_ms``: the archive is verified, the
residence is changed, and the ledger is deleted (rule STR-22). This happens in order of LSSN, and a
ledger is known to be deleted before the next segment changes. A crash therefore leaves at most one
ledger behind, which the next pass deletes. A purge leaves the archive of a segment alone; archives
of purged segments are deleted after ``archive_retention_ms`` (rule STR-26).

The newest completed segment always keeps its metadata, because the sequence ids and txids of later
segments are computed from it. All segments from the newest producer snapshot on keep their data
and their ledger: a producer may resend records that were truncated meanwhile, and archives contain
no control records. Segment numbers are never reused.
"""

from dataclasses import dataclass

from ...protocol.dlsn import FIRST_DLSN, Dlsn
from ...protocol.errors import InvalidArgumentError
from ...protocol.segments import Residence
from ...runtime.clock import Clock
from ...runtime.event_log import EventLog
from ..ledger_interface import LedgerProvider, delete_ledger
from ..policy import StreamPolicy
from ..read.segment_opener import Archives
from .oldest_segments import first_needed, first_with_ledger, is_too_old, newest_completed
from .stream_metadata import StreamRecord
from .stream_store import StreamStore
from .subscriptions import SubscriptionStore

SEGMENTS_PER_PASS_MAX = 1000

_LOG = EventLog(__name__)


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The result of one maintenance pass."""

    start: Dlsn
    """The first active position after the pass."""
    purged: tuple[int, ...] = ()
    """LSSNs whose ledger and metadata were deleted."""
    retired: tuple[int, ...] = ()
    """LSSNs whose ledger was deleted; only the archive holds them now."""
    expired: tuple[int, ...] = ()
    """LSSNs of purged segments whose archive was deleted."""
    is_limited: bool = False
    """True if the policy wants data deleted, or truncated data is left; else nothing is overdue."""


class Retention:
    """Runs retention for the streams of one namespace.

    Any number of processes may run it concurrently, and a repeat is safe. Without ``archives``, no
    ledger is deleted in favour of its archive, and no archive is deleted.
    """

    def __init__(
        self,
        streams: StreamStore,
        ledgers: LedgerProvider,
        subscriptions: SubscriptionStore,
        clock: Clock,
        *,
        archives: Archives | None = None,
    ) -> None:
        self._clock = clock
        self._streams = streams
        self._ledgers = ledgers
        self._subscriptions = subscriptions
        self._archives = archives

    async def maintain(
        self,
        stream: str,
        record: StreamRecord,
        policy: StreamPolicy,
        *,
        expires_archives: bool = True,
    ) -> MaintenanceResult:
        """Run one pass: truncate by the policy, delete archived ledgers, purge after the grace.

        ``record`` and ``policy`` are those of the stream, read before. With
        ``expires_archives``, archives of purged segments are listed and deleted if the policy
        limits their age. Raises NoSuchStreamError, CorruptionError (an incomplete archive) and the
        errors of the stores. A repeat after an error continues.
        """
        now_ms = self._clock.wall_ms()
        wanted = max(
            await self._start_by_age(stream, record, policy, now_ms),
            await self._start_by_subscriptions(stream, policy),
        )
        if wanted > record.start:
            # If the identity still matches, everything read since belongs to this stream.
            record = await self._streams.update(
                stream, lambda found: found.truncated(wanted), identity=record.identity
            )
        retired = await self._retire(stream, record, policy, now_ms)
        purged = await self._purge(stream, record, policy, now_ms)
        record = await self.mark(stream, record, policy)
        expired: tuple[int, ...] = ()
        if expires_archives:
            expired = await self._expire(stream, record, policy, now_ms)
        is_limited = policy.wants_retention or record.first_lssn < record.start.lssn
        return MaintenanceResult(record.start, purged, retired, expired, is_limited)

    async def mark(self, stream: str, record: StreamRecord, policy: StreamPolicy) -> StreamRecord:
        """Begin the grace period of what the record shows as truncated. Safe to repeat.

        The clock is read after the record, so that the period does not begin before the truncation
        was carried out, even if the request for that took long.
        """
        if record.start.lssn <= record.marked_lssn:
            return record
        return await self._streams.update(
            stream,
            lambda found: found.marked(self._clock.wall_ms(), policy.purge_grace_ms),
            identity=record.identity,
        )

    # --- truncation -----------------------------------------------------------------------------

    async def _start_by_age(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> Dlsn:
        """Return the position after the segments that are too old; FIRST_DLSN if there is none.

        Without such a segment the result is not the current start: a truncation that is undone
        while this pass runs must not be repeated by it.
        """
        wanted = FIRST_DLSN
        if policy.retention_ms is None:
            return wanted
        for lssn in range(record.start.lssn, record.start.lssn + SEGMENTS_PER_PASS_MAX):
            stored = await self._streams.segment(stream, lssn, record.stream_id)
            if stored is None or not is_too_old(stored.segment, policy, now_ms):
                break
            wanted = Dlsn(lssn + 1, 0, 0)
        return wanted

    async def _start_by_subscriptions(self, stream: str, policy: StreamPolicy) -> Dlsn:
        if not policy.truncates_by_subscriptions:
            return FIRST_DLSN
        return await self._subscriptions.slowest(stream) or FIRST_DLSN

    async def check_untruncation(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, position: Dlsn
    ) -> None:
        """Verify that the next pass would not truncate what an untruncation brings back.

        Raises InvalidArgumentError that names the setting.
        """
        stored = await self._streams.segment(stream, position.lssn, record.stream_id)
        if stored is not None and is_too_old(stored.segment, policy, self._clock.wall_ms()):
            raise InvalidArgumentError(
                f"stream {stream}: segment {position.lssn} is older than retention_ms="
                f"{policy.retention_ms} and would be truncated again: change the policy first"
            )
        slowest = await self._start_by_subscriptions(stream, policy)
        if slowest > position:
            raise InvalidArgumentError(
                f"stream {stream}: its subscriptions are at {slowest} and would truncate it again: "
                "set truncates_by_subscriptions=false first"
            )

    # --- deletion of archived ledgers -----------------------------------------------------------

    async def _retire(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> tuple[int, ...]:
        if policy.hot_retention_ms is None or self._archives is None:
            return ()
        newest = await newest_completed(self._streams, stream, record)
        if newest is None:
            return ()
        stop = first_needed(newest, newest.lssn + 1)
        first = await first_with_ledger(self._streams, stream, record, stop)
        before = await self._streams.segment(stream, first - 1, record.stream_id)
        if before is not None and before.segment.is_archive_only:
            # A crash may have left this ledger behind.
            await delete_ledger(self._ledgers, before.segment)
        retired: list[int] = []
        for lssn in range(first, min(stop, first + SEGMENTS_PER_PASS_MAX)):
            stored = await self._streams.segment(stream, lssn, record.stream_id)
            if stored is None or stored.segment.residence is not Residence.HOT_AND_ARCHIVE:
                break
            if now_ms - stored.segment.completed_ms < policy.hot_retention_ms:
                break
            await self._archives.check(stream, stored.segment)
            moved = stored.segment.with_residence(Residence.ARCHIVE)
            if not await self._streams.replace_segment(stream, stored, moved):
                break
            await delete_ledger(self._ledgers, moved)
            retired.append(lssn)
        if retired:
            _LOG.info("ledgers retired", **self._ids(stream), segments=retired)
        return tuple(retired)

    # --- purge ----------------------------------------------------------------------------------

    async def _purge(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> tuple[int, ...]:
        record = await self._begin_purge(stream, record, policy, now_ms)
        stop = record.purging_lssn
        purged = tuple(range(record.first_lssn, stop))
        for lssn in purged:
            stored = await self._streams.segment(stream, lssn, record.stream_id)
            if stored is not None:
                assert stored.segment.is_completed
                await delete_ledger(self._ledgers, stored.segment)
                await self._streams.remove_segment(stream, stored)
        if purged:
            await self._streams.update(
                stream, lambda found: found.purged(stop), identity=record.identity
            )
            _LOG.info("segments purged", **self._ids(stream), segments=purged)
        return purged

    async def _begin_purge(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> StreamRecord:
        """Move ``purging_lssn`` past marked segments whose grace period has ended."""
        grace_ms = policy.purge_grace_ms
        if record.oldest.lssn >= record.marked_lssn or not record.has_grace_ended(now_ms, grace_ms):
            return record
        newest = await newest_completed(self._streams, stream, record)
        if newest is None:
            return record
        limit = min(first_needed(newest, newest.lssn), record.oldest.lssn + SEGMENTS_PER_PASS_MAX)

        def begin(found: StreamRecord) -> StreamRecord:
            stop = min(found.marked_lssn, limit)
            if stop <= found.oldest.lssn or not found.has_grace_ended(now_ms, grace_ms):
                return found  # an untruncation came first
            return found.purging(stop)

        return await self._streams.update(stream, begin, identity=record.identity)

    # --- archives -------------------------------------------------------------------------------

    async def _expire(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> tuple[int, ...]:
        if policy.archive_retention_ms is None or self._archives is None:
            return ()
        expired = await self._archives.expire(
            stream,
            record.identity,
            below=record.first_lssn,
            completed_by_ms=now_ms - policy.archive_retention_ms,
        )
        if expired:
            _LOG.info("archives expired", **self._ids(stream), segments=expired)
        return tuple(expired)

    # --- parts ----------------------------------------------------------------------------------

    def _ids(self, stream: str) -> dict[str, str]:
        """Return the fields of log lines about a stream."""
        return {"namespace": self._streams.namespace, "stream": stream}
