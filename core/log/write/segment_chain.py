"""A stream's segments in its writer's hands: claim, take over, add the next, complete the last.

All rare, all awaiting; the hot path is in ``writer``. A chain belongs to one writer session. It
loses the stream for good with the first compare-and-set that it loses (StreamLostError), and every
step may be repeated after a retryable error.

Order, which is what safety rests on:

1. claim the head (so that the predecessor's next change fails);
2. every segment in progress, oldest first: fence its ledger, find its end, record it;
3. publish the next segment. Its ledger is created beside 2, but is nobody's until published.
"""

import asyncio
from dataclasses import dataclass

from ...protocol.errors import CorruptionError, EndOfStreamError, RhumblineError
from ...protocol.ledger_metadata import NO_ENTRY, REGIONS_KEY
from ...protocol.record_set import decode_entry
from ...protocol.segments import NO_SEGMENT, Segment, SegmentEnd
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks
from ..ledger_interface import LedgerProvider, WritableLedger
from ..metadata.stream_store import StoredSegment, StreamStore, WriterClaim
from ..policy import StreamPolicy
from ..read.segment_opener import SegmentOpener
from .dedup_table import DeduplicationTable, Rebuilt
from .end_of_stream import last_txid_of

NAMESPACE_KEY = "rhumbline.namespace"
STREAM_KEY = "rhumbline.stream"
LSSN_KEY = "rhumbline.lssn"
"""Custom metadata of each ledger: a lost namespace can be rebuilt by a scan of ledgers."""

_TOKEN_BYTES = 16


@dataclass(slots=True)
class OpenSegment:
    """The segment in progress that this writer sends entries to."""

    stored: StoredSegment
    ledger: WritableLedger
    rolls_at: float
    """Loop time in seconds after which the next segment follows."""
    position: int = 0
    """Data records sent."""
    bytes: int = 0
    """Entry bytes sent."""
    last_entry_id: int = NO_ENTRY
    """Of what was sent."""
    last_txid: int = 0
    """Of the data that was sent."""
    ends_stream: bool = False
    producers_entry: int = NO_ENTRY
    """Of the newest snapshot of producers."""
    producers_bytes: int = 0
    """``bytes`` when it was sent."""

    @property
    def lssn(self) -> int:
        """Its number."""
        return self.stored.segment.lssn


class SegmentChain:
    """What one writer session knows of its stream's segments."""

    def __init__(
        self,
        runtime: Runtime,
        streams: StreamStore,
        ledgers: LedgerProvider,
        opener: SegmentOpener,
        *,
        stream: str,
    ) -> None:
        self._runtime = runtime
        self._streams = streams
        self._ledgers = ledgers
        self._opener = opener
        self._stream = stream
        self._token = runtime.random_bytes(_TOKEN_BYTES).hex()
        self._claim: WriterClaim | None = None
        self._unpublished: WritableLedger | None = None
        self._offered: Segment | None = None  # sent for publication, outcome open
        self._ending: Segment | None = None  # sent as completed, outcome open
        self.last_completed: Segment | None = None
        """The newest segment that is over; None if the stream has none."""

    async def open(self, policy: StreamPolicy) -> OpenSegment:
        """Takes the stream over and starts a segment. See the order above.

        Raises NoSuchStreamError, EndOfStreamError, StreamLostError, and what ledgers and the
        metadata store raise; then the stream is as it was or taken over without a new segment.
        """
        self._claim = await self._streams.claim(self._stream, self._token)
        number = self._claim.head.last_lssn + 1
        tasks = Tasks(on_failure=lambda _: None)  # awaited below
        creating = tasks.spawn(self._created(policy, number), f"create segment {number}")
        try:
            await self._take_over()
            if self.last_completed is not None and self.last_completed.ends_stream:
                raise EndOfStreamError(f"stream {self._stream} was ended by its application")
            await creating
            return await self._publish(policy.roll_ms)
        finally:
            await tasks.aclose()
            await self.abandon()

    async def next(self, policy: StreamPolicy) -> OpenSegment:
        """Creates and publishes the segment after the newest.

        Raises StreamLostError for good; after another error repeat it, which goes on with the
        same ledger.
        """
        assert self._claim is not None
        if self._unpublished is None:
            await self._created(policy, self._claim.head.last_lssn + 1)
        return await self._publish(policy.roll_ms)

    async def complete(self, segment: OpenSegment, end: SegmentEnd) -> None:
        """Records the end of ``segment``. Raises StreamLostError; a repeat is safe otherwise."""
        await self._complete(segment.stored, end)

    async def recovered_end(self, segment: Segment) -> SegmentEnd:
        """Fences and closes the segment's ledger, and says what it holds. A repeat is safe."""
        metadata = await self._ledgers.recover(segment.ledger_id)
        last = metadata.last_entry_id
        if last == NO_ENTRY:
            return SegmentEnd(NO_ENTRY, 0, 0, 0, False)
        reader = await self._ledgers.open(segment.ledger_id)
        try:
            entries = await reader.read(last, last)
        finally:
            await reader.aclose()
        final = decode_entry(entries[0].payload)[-1]
        count = final.position + (0 if final.is_control else final.count)
        txid, ends_stream = last_txid_of(final)
        return SegmentEnd(last, metadata.length, count, txid, ends_stream, final.producers_entry)

    async def producers(self) -> DeduplicationTable:
        """What numbered producers have in the completed segments, for the writer that follows."""
        rebuilt = Rebuilt()
        newest = self.last_completed
        if newest is None or newest.producers_lssn == NO_SEGMENT:
            return rebuilt.table()
        stored = await self._streams.segment(self._stream, newest.producers_lssn)
        if stored is None:
            raise CorruptionError(
                f"stream {self._stream}: segment {newest.producers_lssn} is gone, which tells what "
                "numbered producers have in the stream"
            )
        reader = await self._opener.open(self._stream, stored.segment)
        try:
            entry_id, last = newest.producers_entry, stored.segment.last_entry_id
            while entry_id <= last:
                for entry in await reader.read(entry_id, last):
                    for one in decode_entry(entry.payload):
                        rebuilt.see(newest.producers_lssn, entry.entry_id, one)
                    entry_id = entry.entry_id + 1
        finally:
            await reader.aclose()
        return rebuilt.table()

    async def abandon(self) -> None:
        """Deletes a ledger that was created and is provably nobody's. Never raises.

        A ledger whose publication has an open outcome stays: deleting a segment's ledger would be
        worse than leaving an empty one for the auditor.
        """
        ledger, self._unpublished = self._unpublished, None
        if ledger is None:
            return
        try:
            if self._offered is not None:
                assert self._claim is not None
                head, _ = await self._streams.head(self._stream)
                stored = await self._streams.segment(self._stream, self._offered.lssn)
                is_ours = stored is not None and stored.segment.ledger_id == ledger.ledger_id
                if is_ours or head == self._claim.head:
                    return
            await self._ledgers.delete(ledger.ledger_id)
        except RhumblineError:
            return

    # --- parts ----------------------------------------------------------------------------------

    async def _created(self, policy: StreamPolicy, number: int) -> None:
        custom = {
            NAMESPACE_KEY: self._streams.namespace.encode(),
            STREAM_KEY: self._stream.encode(),
            LSSN_KEY: str(number).encode(),
        }
        if policy.regions:
            custom[REGIONS_KEY] = ",".join(policy.regions).encode()
        self._unpublished = await self._ledgers.create(policy.quorum, custom=custom)
        # A segment that is published takes records whether or not the metadata store is there.
        await self._unpublished.introduce()

    async def _publish(self, roll_ms: int) -> OpenSegment:
        assert self._claim is not None
        assert self._unpublished is not None
        ledger = self._unpublished
        if self._offered is None:
            self._offered = Segment(
                lssn=self._claim.head.last_lssn + 1,
                ledger_id=ledger.ledger_id,
                epoch=self._claim.head.epoch,
                created_ms=self._runtime.clock.wall_ms(),
            )
        self._claim, stored = await self._streams.publish(self._claim, self._offered)
        self._offered = None
        self._unpublished = None
        rolls_at = asyncio.get_running_loop().time() + roll_ms / 1000
        return OpenSegment(stored, ledger, rolls_at)

    async def _take_over(self) -> None:
        """Completes what the predecessor left in progress, oldest first."""
        waiting: list[StoredSegment] = []
        assert self._claim is not None
        lssn = self._claim.head.last_lssn
        while lssn > NO_SEGMENT:
            stored = await self._streams.segment(self._stream, lssn)
            if stored is None:
                raise CorruptionError(f"stream {self._stream}: segment {lssn} has no metadata")
            if stored.segment.is_completed:
                self.last_completed = stored.segment
                break
            waiting.append(stored)
            lssn -= 1
        for stored in reversed(waiting):
            await self._complete(stored, await self.recovered_end(stored.segment))

    async def _complete(self, stored: StoredSegment, end: SegmentEnd) -> None:
        assert self._claim is not None
        previous = self.last_completed
        if previous is not None and previous.lssn == stored.segment.lssn:
            return  # a repeat
        # Made once: a repeat must offer the same value, or it would not know its own.
        if self._ending is None or self._ending.lssn != stored.segment.lssn:
            self._ending = stored.segment.completed(
                end, previous=previous, completed_ms=self._runtime.clock.wall_ms()
            )
        done = await self._streams.complete(self._claim, stored, self._ending)
        self.last_completed = done.segment
