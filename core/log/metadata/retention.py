"""Retention: truncates old segments, purges them later, and deletes archived ledgers.

Truncation hides records from readers immediately. Purging deletes the data after a grace period, so
that a mistaken truncation can be repaired from the data that is still there. The order of a purge
makes every crash harmless and gives readers a typed error (rule STR-21):

1. The start of the stream moves past the segment; from here on readers get TruncatedError.
2. The grace period passes.
3. The data is deleted (archive, if any, and ledger), then the metadata of the segment.
4. The ``first_lssn`` of the record moves.

Archived segments also lose their ledger after ``hot_retention_ms``: the archive is verified, the
residence is changed, and the ledger is deleted (rule STR-22). This happens in order of LSSN, and a
ledger is known to be deleted before the next segment changes. A crash therefore leaves at most one
ledger behind, which the next pass deletes.

The newest completed segment always keeps its metadata, because the sequence ids and txids of later
segments are computed from it. All segments from the newest producer snapshot on keep their data
and their ledger: a producer may resend records that were truncated meanwhile, and archives contain
no control records. Segment numbers are never reused.
"""

from dataclasses import dataclass

from ...protocol.dlsn import Dlsn
from ...protocol.segments import NO_SEGMENT, Residence, Segment
from ..ledger_interface import LedgerProvider, delete_ledger
from ..policy import StreamPolicy
from ..read.segment_opener import Archives
from .stream_metadata import StreamRecord
from .stream_store import StreamStore
from .subscriptions import SubscriptionStore

SEGMENTS_PER_PASS_MAX = 1000


@dataclass(frozen=True, slots=True)
class MaintenanceResult:
    """The result of one maintenance pass."""

    start: Dlsn
    """The first active position after the pass."""
    purged: tuple[int, ...] = ()
    """LSSNs whose data and metadata were deleted."""
    retired: tuple[int, ...] = ()
    """LSSNs whose ledger was deleted; only the archive holds them now."""


class Retention:
    """Runs retention for the streams of one namespace.

    Any number of processes may run it concurrently, and a repeat is safe. Without ``archives``, no
    ledger is deleted in favour of its archive, and archived segments are not purged.
    """

    def __init__(
        self,
        streams: StreamStore,
        ledgers: LedgerProvider,
        subscriptions: SubscriptionStore,
        *,
        archives: Archives | None = None,
    ) -> None:
        self._streams = streams
        self._ledgers = ledgers
        self._subscriptions = subscriptions
        self._archives = archives

    async def maintain(self, stream: str, policy: StreamPolicy, now_ms: int) -> MaintenanceResult:
        """Run one pass: truncate by the policy, delete archived ledgers, purge after the grace.

        Raises NoSuchStreamError, CorruptionError (an incomplete archive) and the errors of the
        stores. A repeat after an error continues.
        """
        record, _ = await self._streams.record(stream)
        start = max(
            await self._start_by_age(stream, record, policy, now_ms),
            await self._start_by_subscriptions(stream, record, policy),
        )
        # If the identity still matches, everything read since belongs to this stream.
        record = await self._streams.update(
            stream,
            lambda found: found.truncated(start) if start > found.start else found,
            identity=record.identity,
        )
        retired = await self._retire(stream, record, policy, now_ms)
        purged: list[int] = []
        if record.first_lssn < record.marked_lssn:
            if now_ms - record.marked_ms < policy.purge_grace_ms:
                return MaintenanceResult(record.start, retired=retired)
            purged = await self._purge(stream, record)
        record = await self._streams.update(
            stream, lambda found: found.marked(now_ms), identity=record.identity
        )
        return MaintenanceResult(record.start, tuple(purged), retired)

    # --- truncation -----------------------------------------------------------------------------

    async def _start_by_age(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> Dlsn:
        start = record.start
        if policy.retention_ms is None:
            return start
        for _ in range(SEGMENTS_PER_PASS_MAX):
            stored = await self._streams.segment(stream, start.lssn)
            if stored is None or not stored.segment.is_completed:
                break
            if now_ms - stored.segment.completed_ms < policy.retention_ms:
                break
            start = Dlsn(start.lssn + 1, 0, 0)
        return start

    async def _start_by_subscriptions(
        self, stream: str, record: StreamRecord, policy: StreamPolicy
    ) -> Dlsn:
        if not policy.truncates_by_subscriptions:
            return record.start
        slowest = await self._subscriptions.slowest(stream)
        return record.start if slowest is None else slowest

    # --- deletion of archived ledgers -----------------------------------------------------------

    async def _retire(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> tuple[int, ...]:
        if policy.hot_retention_ms is None or self._archives is None:
            return ()
        newest = await self._newest_completed(stream)
        if newest is None:
            return ()
        stop = _first_needed(newest, newest.lssn + 1)
        first = await self._first_with_ledger(stream, record.first_lssn, stop)
        before = await self._streams.segment(stream, first - 1)
        if before is not None and before.segment.is_archive_only:
            # A crash may have left this ledger behind.
            await delete_ledger(self._ledgers, before.segment)
        retired: list[int] = []
        for lssn in range(first, min(stop, first + SEGMENTS_PER_PASS_MAX)):
            stored = await self._streams.segment(stream, lssn)
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
        return tuple(retired)

    async def _first_with_ledger(self, stream: str, low: int, high: int) -> int:
        """Return the first LSSN in [low, high) that has a ledger; ``high`` if there is none."""
        while low < high:
            middle = (low + high) // 2
            stored = await self._streams.segment(stream, middle)
            if stored is None or stored.segment.is_archive_only:
                low = middle + 1
            else:
                high = middle
        return low

    # --- purge ----------------------------------------------------------------------------------

    async def _purge(self, stream: str, record: StreamRecord) -> list[int]:
        newest = await self._newest_completed(stream)
        if newest is None:
            return []
        stop = min(
            record.marked_lssn,
            _first_needed(newest, newest.lssn),
            record.first_lssn + SEGMENTS_PER_PASS_MAX,
        )
        purged: list[int] = []
        for lssn in range(record.first_lssn, stop):
            stored = await self._streams.segment(stream, lssn)
            if stored is not None:
                await self._streams.check(stream, record.identity)  # it is still the same stream
                if not await self._delete_bytes(stream, stored.segment):
                    break
                await self._streams.remove_segment(stream, stored)
            purged.append(lssn)
        if purged:
            await self._streams.update(
                stream, lambda found: found.purged(purged[-1] + 1), identity=record.identity
            )
        return purged

    async def _newest_completed(self, stream: str) -> Segment | None:
        lssn = (await self._streams.head(stream))[0].last_lssn
        while lssn > 0:
            stored = await self._streams.segment(stream, lssn)
            if stored is None:
                break
            if stored.segment.is_completed:
                return stored.segment
            lssn -= 1
        return None

    async def _delete_bytes(self, stream: str, segment: Segment) -> bool:
        assert segment.is_completed
        if segment.residence is not Residence.HOT:
            if self._archives is None:
                return False
            await self._archives.delete(stream, segment)
        await delete_ledger(self._ledgers, segment)
        return True


def _first_needed(newest: Segment, otherwise: int) -> int:
    """Return the first segment that the deduplication table needs; ``otherwise`` if none."""
    return otherwise if newest.producers_lssn == NO_SEGMENT else newest.producers_lssn
