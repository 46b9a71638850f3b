"""What becomes of old segments: truncated by age or by subscriptions, then purged for good.

Besides, segments that are archived lose their ledger after a while (``hot_retention_ms``): the
archive is checked, the residence changed, the ledger deleted; in order of LSSN, and a ledger is
known to be gone before the next segment changes, so that a crash leaves at most the last one, which
the next pass deletes. Segments from the newest snapshot of producers on stay: archives have no
control records.

Truncation says what readers may see and happens at once; purging frees the bytes and comes a grace
later, so that a mistake can be taken back by restoring from what is still there. The order of a
purge makes every crash harmless and every reader's error a typed one:

1. the stream's start is behind the segment (readers get TruncatedError from here on);
2. the grace passes;
3. the bytes go (ledger, and archive if there is one), then the segment's metadata;
4. the record's ``first_lssn`` moves.

The newest completed segment keeps its metadata whatever happens: sequence ids and txids of what
follows are computed from it. From the newest snapshot of producers on all segments keep everything:
a producer may send again what was truncated meanwhile. No number is ever used again.
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

SEGMENTS_A_PASS_MAX = 1000


@dataclass(frozen=True, slots=True)
class Maintained:
    """What one pass of maintenance did."""

    start: Dlsn
    """The first active position now."""
    purged: tuple[int, ...] = ()
    """LSSNs whose bytes and metadata are gone."""
    retired: tuple[int, ...] = ()
    """LSSNs whose ledger is gone: only the archive has them now."""


class Retention:
    """Maintains streams of one namespace. Any number may run at once; a repeat is safe.

    Without ``archives`` no ledger goes because of an archive, and segments that have one are not
    purged.
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

    async def maintain(self, stream: str, policy: StreamPolicy, now_ms: int) -> Maintained:
        """One pass: truncates by the policy, retires what is archived, then purges what was
        truncated a grace ago.

        Raises NoSuchStreamError, CorruptionError (an archive that is not whole) and what the
        stores raise; then a repeat goes on.
        """
        record, _ = await self._streams.record(stream)
        start = max(
            await self._start_by_age(stream, record, policy, now_ms),
            await self._start_by_subscriptions(stream, record, policy),
        )
        # What was read since is of this stream if it is there now.
        record = await self._streams.update(
            stream,
            lambda found: found.truncated(start) if start > found.start else found,
            identity=record.identity,
        )
        retired = await self._retire(stream, record, policy, now_ms)
        purged: list[int] = []
        if record.first_lssn < record.marked_lssn:
            if now_ms - record.marked_ms < policy.purge_grace_ms:
                return Maintained(record.start, retired=retired)
            purged = await self._purge(stream, record)
        record = await self._streams.update(
            stream, lambda found: found.marked(now_ms), identity=record.identity
        )
        return Maintained(record.start, tuple(purged), retired)

    # --- truncation -----------------------------------------------------------------------------

    async def _start_by_age(
        self, stream: str, record: StreamRecord, policy: StreamPolicy, now_ms: int
    ) -> Dlsn:
        start = record.start
        if policy.retention_ms is None:
            return start
        for _ in range(SEGMENTS_A_PASS_MAX):
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

    # --- from the ledgers to the archive alone --------------------------------------------------

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
            await delete_ledger(self._ledgers, before.segment)  # a crash may have left it
        retired: list[int] = []
        for lssn in range(first, min(stop, first + SEGMENTS_A_PASS_MAX)):
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
        """The first LSSN in [low, high) that is not in the archive alone; ``high`` if none."""
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
            record.first_lssn + SEGMENTS_A_PASS_MAX,
        )
        purged: list[int] = []
        for lssn in range(record.first_lssn, stop):
            stored = await self._streams.segment(stream, lssn)
            if stored is not None:
                await self._streams.check(stream, record.identity)  # it is what was truncated
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
    """The first segment whose entries tell what numbered producers have in the stream."""
    return otherwise if newest.producers_lssn == NO_SEGMENT else newest.producers_lssn
