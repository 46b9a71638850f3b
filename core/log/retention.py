"""What becomes of old segments: truncated by age or by subscriptions, then purged for good.

Truncation says what readers may see and happens at once; purging frees the bytes and comes a grace
later, so that a mistake can be taken back by restoring from what is still there. The order of a
purge makes every crash harmless and every reader's error a typed one:

1. the stream's start is behind the segment (readers get TruncatedError from here on);
2. the grace passes;
3. the bytes go (ledger, and archive if there is one), then the segment's metadata;
4. the record's ``first_lssn`` moves.

The newest completed segment keeps its metadata whatever happens: sequence ids and txids of what
follows are computed from it. No number is ever used again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..protocol.dlsn import Dlsn
from ..protocol.errors import NoSuchLedgerError
from ..protocol.segments import Residence, Segment
from .ledgers import LedgerClient
from .policy import StreamPolicy
from .records import StreamRecord
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


class Retention:
    """Maintains streams of one namespace. Any number may run at once; a repeat is safe.

    ``delete_archived`` removes a purged segment's archive copy; a segment that has one is not
    purged without it.
    """

    def __init__(
        self,
        streams: StreamStore,
        ledgers: LedgerClient,
        subscriptions: SubscriptionStore,
        *,
        delete_archived: Callable[[str, Segment], Awaitable[None]] | None = None,
    ) -> None:
        self._streams = streams
        self._ledgers = ledgers
        self._subscriptions = subscriptions
        self._delete_archived = delete_archived

    async def maintain(self, stream: str, policy: StreamPolicy, now_ms: int) -> Maintained:
        """One pass: truncates by the policy, then purges what was truncated a grace ago.

        Raises NoSuchStreamError and what the stores raise; then a repeat goes on.
        """
        record, _ = await self._streams.record(stream)
        start = max(
            await self._start_by_age(stream, record, policy, now_ms),
            await self._start_by_subscriptions(stream, record, policy),
        )
        record = await self._streams.update(
            stream, lambda found: found.truncated(start) if start > found.start else found
        )
        purged: list[int] = []
        if record.first_lssn < record.marked_lssn:
            if now_ms - record.marked_ms < policy.purge_grace_ms:
                return Maintained(record.start)
            purged = await self._purge(stream, record)
        record = await self._streams.update(stream, lambda found: found.marked(now_ms))
        return Maintained(record.start, tuple(purged))

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

    # --- purge ----------------------------------------------------------------------------------

    async def _purge(self, stream: str, record: StreamRecord) -> list[int]:
        newest = await self._newest_completed(stream)
        stop = min(record.marked_lssn, newest, record.first_lssn + SEGMENTS_A_PASS_MAX)
        purged: list[int] = []
        for lssn in range(record.first_lssn, stop):
            stored = await self._streams.segment(stream, lssn)
            if stored is not None:
                if not await self._delete_bytes(stream, stored.segment):
                    break
                await self._streams.remove_segment(stream, lssn)
            purged.append(lssn)
        if purged:
            await self._streams.update(stream, lambda found: found.purged(purged[-1] + 1))
        return purged

    async def _newest_completed(self, stream: str) -> int:
        lssn = (await self._streams.head(stream))[0].last_lssn
        while lssn > 0:
            stored = await self._streams.segment(stream, lssn)
            if stored is None or stored.segment.is_completed:
                break
            lssn -= 1
        return lssn

    async def _delete_bytes(self, stream: str, segment: Segment) -> bool:
        assert segment.is_completed
        if segment.residence is not Residence.HOT:
            if self._delete_archived is None:
                return False
            await self._delete_archived(stream, segment)
        if segment.residence is not Residence.ARCHIVE:
            try:
                await self._ledgers.delete(segment.ledger_id)
            except NoSuchLedgerError:
                return True  # an earlier pass came as far
        return True
