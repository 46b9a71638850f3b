"""The segments of a stream as its writer changes them: claim, take over, publish, complete.

A chain belongs to one writer session. The first compare-and-set that fails means that the stream
is lost (StreamLostError, rule STR-4). Every step may be repeated after a retryable error.

Safety depends on the order of a takeover (rule STR-3):

1. Claim the head, so that the next change of the previous writer fails.
2. For each segment in progress, oldest first: fence its ledger, find its end and record the end.
3. Publish the next segment. Its ledger is created in parallel with step 2, but belongs to no
   segment until it is published.

The end of the newest segment is recorded by the transaction of step 3. Without segments there is no
step 2, and steps 1 and 3 are one transaction (rule STR-2).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    CorruptionError,
    EndOfStreamError,
    RhumblineError,
    StreamLostError,
)
from ...protocol.ledger_metadata import (
    EPOCH_KEY,
    LSSN_KEY,
    NAMESPACE_KEY,
    NO_ENTRY,
    REGIONS_KEY,
    SPREAD_KEY,
    STREAM_ID_KEY,
    STREAM_KEY,
)
from ...protocol.record_set import decode_entry
from ...protocol.recovery import provable_end_of
from ...protocol.segments import FIRST_LSSN, NO_SEGMENT, Segment, SegmentEnd
from ...runtime.event_log import EventLog
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks, run_both
from ..ledger_interface import ConfirmEnd, LedgerProvider, WritableLedger
from ..metadata.stream_metadata import StreamHead
from ..metadata.stream_reads import StoredSegment
from ..metadata.stream_store import (
    ClaimPurpose,
    Completion,
    CurrentStream,
    StreamStore,
    WriterClaim,
)
from ..policy import StreamPolicy
from ..read.segment_opener import SegmentOpener
from ..read.tail_search import find_tail
from .dedup_table import DeduplicationTable, DeduplicationTableBuilder
from .end_of_stream import last_txid_of

_LOG = EventLog(__name__)

_TOKEN_BYTES = 16


@dataclass(slots=True)
class OpenSegment:
    """The segment in progress, to which the writer sends entries."""

    stored: StoredSegment
    ledger: WritableLedger
    rolls_at: float
    """Loop time in seconds at which the segment expires."""
    stream_id: str = ""
    """The id of the stream, which positions carry."""
    position: int = 0
    """Number of data records sent."""
    bytes: int = 0
    """Entry bytes sent."""
    last_entry_id: int = NO_ENTRY
    """Id of the last entry sent; NO_ENTRY if none."""
    last_txid: int = 0
    """Last txid of the data that was sent."""
    ends_stream: bool = False
    """True once the end of the stream was sent."""
    producers_entry: int = NO_ENTRY
    """Entry id of the newest snapshot of the deduplication table; NO_ENTRY if none."""
    producers_bytes: int = 0
    """``bytes`` at the time of that snapshot."""

    @property
    def lssn(self) -> int:
        """The number of the segment."""
        return self.stored.segment.lssn


class SegmentChain:
    """The claim of a writer session on a stream, and its changes of the segments."""

    def __init__(
        self,
        runtime: Runtime,
        streams: StreamStore,
        ledgers: LedgerProvider,
        opener: SegmentOpener,
        *,
        stream: str,
        read_policy: Callable[[], Awaitable[StreamPolicy]],
        token: str | None = None,
    ) -> None:
        """``token`` is that of the claim; None: a new one."""
        self._runtime = runtime
        self._read_policy = read_policy
        self._streams = streams
        self._ledgers = ledgers
        self._opener = opener
        self._stream = stream
        self._token = token or runtime.random_bytes(_TOKEN_BYTES).hex()
        self._claim: WriterClaim | None = None
        self._unpublished: WritableLedger | None = None
        self._publishing: Segment | None = None  # sent for publication, not yet confirmed
        self._completing: Segment | None = None  # sent as completed, not yet confirmed
        self.last_completed: Segment | None = None
        """The newest completed segment; None if there is none."""

    def ids(self) -> dict[str, str]:
        """Return the fields of log lines about this stream."""
        return {"namespace": self._streams.namespace, "stream": self._stream}

    async def open(self, current: CurrentStream) -> tuple[OpenSegment, DeduplicationTable]:
        """Take over the stream and begin a segment, in the order that the module docstring gives.

        Also return the deduplication table with which the new writer begins. Raises
        NoSuchStreamError, EndOfStreamError, StreamSealedError, StreamLostError, and the errors of
        ledgers and of the metadata store. After an error the stream is unchanged, or taken over
        without a writer.
        """
        opened = None
        if current.head.last_lssn == NO_SEGMENT:
            with suppress(StreamLostError):  # another writer claimed it meanwhile
                opened = await self._open_new(current)
        segment, table = opened or await self._open_next(current)
        ledger = segment.ledger.ledger_id
        _LOG.info("stream taken over", **self.ids(), segment=segment.lssn, ledger=ledger)
        return segment, table

    async def _open_new(self, current: CurrentStream) -> tuple[OpenSegment, DeduplicationTable]:
        """Begin the first segment of a stream, and claim the stream with its publication.

        Raises as ``open``, and StreamLostError if the stream was claimed meanwhile.
        """
        self._claim = self._streams.claim_at_publication(self._stream, self._token, current)
        try:
            await self._create_ledger(current.policy, FIRST_LSSN)
            segment = await self._publish(current.policy.roll_ms)
        finally:
            await self.abandon()
        return segment, DeduplicationTableBuilder(segment.stream_id).table()

    async def _open_next(self, current: CurrentStream) -> tuple[OpenSegment, DeduplicationTable]:
        """Claim the stream, complete its segments and begin the next one. Raises as ``open``."""
        policy = current.policy
        self._claim = await self._streams.claim(self._stream, self._token, current=current)
        _LOG.info("stream claimed", **self.ids(), epoch=self._claim.head.epoch)
        number = self._claim.head.last_lssn + 1
        tasks = Tasks(on_failure=lambda _: None)  # awaited below
        creating = tasks.spawn(self._create_ledger(policy, number), f"create segment {number}")
        try:
            last = await self._take_over(policy, leaves_last=True)
            if self.last_completed is not None and self.last_completed.ends_stream:
                raise EndOfStreamError(f"stream {self._stream} was ended by its application")
            await creating
            return await self._begin(policy.roll_ms, last)
        finally:
            try:
                await tasks.aclose()
            finally:
                await self.abandon()

    async def next(self, policy: StreamPolicy) -> OpenSegment:
        """Create and publish the next segment.

        StreamLostError is final. After any other error the call may be repeated; it continues with
        the same ledger.
        """
        assert self._claim is not None
        if self._unpublished is None:
            await self._create_ledger(policy, self._claim.head.last_lssn + 1)
        segment = await self._publish(policy.roll_ms)
        ledger = segment.ledger.ledger_id
        _LOG.info("segment rolled", **self.ids(), segment=segment.lssn, ledger=ledger)
        return segment

    async def complete(self, segment: OpenSegment, end: SegmentEnd) -> None:
        """Record the end of ``segment``.

        Raises StreamLostError. Safe to repeat after other errors.
        """
        await self._complete(self._completion_of(segment.stored, end))

    async def take_over(
        self,
        confirm: ConfirmEnd | None = None,
        *,
        purpose: ClaimPurpose = ClaimPurpose.CLOSE,
        expect: StreamHead | None = None,
        current: CurrentStream | None = None,
    ) -> None:
        """Claim the stream and complete its segments, without a new segment.

        The previous writer loses the stream. ``confirm`` decides about ledgers whose end cannot be
        proven (rule REC-19). With ``expect`` nothing happens unless that is the head of the stream.
        ``current`` saves reads unless it is out of date. Raises like ``open``.
        """
        self._claim = await self._streams.claim(
            self._stream, self._token, purpose, expect=expect, current=current
        )
        _LOG.info("stream claimed", **self.ids(), epoch=self._claim.head.epoch)
        await self._take_over(None if current is None else current.policy, confirm)

    async def recover_end(self, segment: Segment) -> SegmentEnd:
        """Fence and close the ledger of a segment and return its end. Safe to repeat.

        The R of the stream's present policy applies to what the recovery writes, so each repeat
        reads the policy again (rule REC-17). Raises NoSuchStreamError once the deletion of the
        stream has begun: nothing of it is acknowledged late (rule STR-31).
        """
        return await self._recover_end(segment, await self._read_policy())

    async def _recover_end(
        self, segment: Segment, policy: StreamPolicy, confirm: ConfirmEnd | None = None
    ) -> SegmentEnd:
        metadata = await self._ledgers.recover(
            segment.ledger_id, min_regions=policy.quorum.min_regions, confirm=confirm
        )
        audit = provable_end_of(metadata.custom)
        doubt = "" if audit is None else audit.describe()
        last = metadata.last_entry_id
        if last == NO_ENTRY:
            return SegmentEnd(NO_ENTRY, 0, 0, 0, False, doubt=doubt)
        reader = await self._ledgers.open_recovered(metadata)
        try:
            entries = await reader.read(last, last)
        finally:
            await reader.aclose()
        final = decode_entry(entries[0].payload)[-1]
        count = final.position + final.positions
        txid, ends_stream = last_txid_of(final)
        return SegmentEnd(
            last,
            metadata.length,
            count,
            txid,
            ends_stream,
            final.producers_entry,
            doubt,
            final.created_ms,
        )

    async def find_tail(self) -> Dlsn:
        """Return the position after the last record of the completed segments."""
        return await find_tail(self._streams, self._opener, self._stream, self.last_completed)

    async def abandon(self) -> None:
        """Release a ledger that was created and not published, and delete it if it provably belongs
        to no segment. Never raises.

        A ledger whose publication has an unknown outcome is kept, because it may belong to a
        segment. If it does not, the auditor removes it (rule STR-11).
        """
        ledger, self._unpublished = self._unpublished, None
        if ledger is None:
            return
        ledger.abandon()
        try:
            if self._publishing is not None:
                assert self._claim is not None
                stream_id = self._publishing.stream_id
                head, _ = await self._streams.head(self._stream, stream_id)
                stored = await self._streams.segment(self._stream, self._publishing.lssn, stream_id)
                is_ours = stored is not None and stored.segment.ledger_id == ledger.ledger_id
                if is_ours or head == self._claim.stored:
                    return
            await self._ledgers.delete(ledger.ledger_id)
        except RhumblineError:
            return
        finally:
            self._publishing = None

    # --- parts ----------------------------------------------------------------------------------

    async def _create_ledger(self, policy: StreamPolicy, number: int) -> None:
        custom = {
            NAMESPACE_KEY: self._streams.namespace.encode(),
            STREAM_KEY: self._stream.encode(),
            LSSN_KEY: str(number).encode(),
        }
        if self._claim is not None:
            custom[STREAM_ID_KEY] = self._claim.head.stream_id.encode()
            custom[EPOCH_KEY] = str(self._claim.head.epoch).encode()
        if policy.regions:
            custom[REGIONS_KEY] = ",".join(policy.regions).encode()
        if policy.spread:
            custom[SPREAD_KEY] = ",".join(policy.spread).encode()
        self._unpublished = await self._ledgers.create(policy.quorum, custom=custom)
        # Once published, the segment takes records even while the metadata store is unavailable.
        await self._unpublished.introduce()

    async def _begin(
        self, roll_ms: int, last: Completion | None
    ) -> tuple[OpenSegment, DeduplicationTable]:
        """Publish the segment of the new ledger, and read the deduplication table meanwhile.

        ``last`` is recorded with the publication.
        """
        ledger = self._unpublished
        assert ledger is not None
        newest = self.last_completed if last is None else last.done
        publishing, reading = self._publish(roll_ms, last), self._read_dedup_table(newest)
        try:
            return await run_both(publishing, reading, "open stream")
        except BaseException:
            ledger.abandon()  # nobody will write to it, whether it is published or not
            raise

    async def _publish(self, roll_ms: int, last: Completion | None = None) -> OpenSegment:
        assert self._claim is not None
        assert self._unpublished is not None
        ledger = self._unpublished
        if self._publishing is None:
            self._publishing = Segment(
                lssn=self._claim.head.last_lssn + 1,
                stream_id=self._claim.head.stream_id,
                ledger_id=ledger.ledger_id,
                epoch=self._claim.head.epoch,
                created_ms=self._runtime.clock.wall_ms(),
            )
        claim = self._claim
        self._claim, stored = await self._streams.publish(claim, self._publishing, last)
        if last is not None:
            self._note_completed(last.done)
        if claim.replaces is not None:
            _LOG.info("stream claimed", **self.ids(), epoch=claim.head.epoch)
        self._publishing = None
        self._unpublished = None
        rolls_at = asyncio.get_running_loop().time() + roll_ms / 1000
        return OpenSegment(stored, ledger, rolls_at, self._claim.head.stream_id)

    async def _take_over(
        self,
        policy: StreamPolicy | None,
        confirm: ConfirmEnd | None = None,
        *,
        leaves_last: bool = False,
    ) -> Completion | None:
        """Complete the segments that the previous writer left in progress, oldest first.

        ``policy`` is that of the stream, read for this call; None: it is read if it is needed. With
        ``leaves_last`` the last completion is not recorded but returned, unless the stream ends.
        """
        waiting: list[StoredSegment] = []
        assert self._claim is not None
        lssn, stream_id = self._claim.head.last_lssn, self._claim.head.stream_id
        while lssn > NO_SEGMENT:
            stored = await self._streams.segment(self._stream, lssn, stream_id)
            if stored is None:
                raise CorruptionError(f"stream {self._stream}: segment {lssn} has no metadata")
            if stored.segment.is_completed:
                self.last_completed = stored.segment
                break
            waiting.append(stored)
            lssn -= 1
        for stored in reversed(waiting):
            policy = policy or await self._read_policy()
            end = await self._recover_end(stored.segment, policy, confirm)
            completion = self._completion_of(stored, end)
            if leaves_last and stored is waiting[0] and not completion.done.ends_stream:
                return completion
            await self._complete(completion)
        return None

    async def _read_dedup_table(self, newest: Segment | None) -> DeduplicationTable:
        """Read the deduplication table from the segments up to ``newest`` (rule STR-17).

        ``newest`` is None if there is no segment.
        """
        assert self._claim is not None
        builder = DeduplicationTableBuilder(self._claim.head.stream_id)
        if newest is None or newest.producers_lssn == NO_SEGMENT:
            return builder.table()
        segment = newest
        if newest.producers_lssn != newest.lssn:
            segment = await self._segment_with_producers(newest)
        reader = await self._opener.open(self._stream, segment)
        try:
            entry_id, last = newest.producers_entry, segment.last_entry_id
            while entry_id <= last:
                for entry in await reader.read(entry_id, last):
                    for record_set in decode_entry(entry.payload):
                        builder.add(newest.producers_lssn, entry.entry_id, record_set)
                    entry_id = entry.entry_id + 1
        finally:
            await reader.aclose()
        return builder.table()

    async def _segment_with_producers(self, newest: Segment) -> Segment:
        """Read the segment that has the newest producer snapshot below the newest segment."""
        lssn = newest.producers_lssn
        stored = await self._streams.segment(self._stream, lssn, newest.stream_id)
        if stored is None:
            raise CorruptionError(
                f"stream {self._stream}: segment {lssn}, which holds the newest producer snapshot, "
                "is missing"
            )
        return stored.segment

    def _completion_of(self, stored: StoredSegment, end: SegmentEnd) -> Completion:
        """Return the completion of a segment with this end.

        Its values are chosen once, because a repeat must offer the same ones to recognise its own
        write (rule STR-5).
        """
        if self._completing is None or self._completing.lssn != stored.segment.lssn:
            self._completing = stored.segment.completed(
                end, previous=self.last_completed, completed_ms=self._runtime.clock.wall_ms()
            )
        return Completion(stored, self._completing)

    async def _complete(self, completion: Completion) -> None:
        assert self._claim is not None
        done = completion.done
        if self.last_completed is None or self.last_completed.lssn != done.lssn:
            await self._streams.complete(self._claim, completion)
            self._note_completed(done)

    def _note_completed(self, done: Segment) -> None:
        self.last_completed = done
        last = done.last_entry_id
        _LOG.info("segment completed", **self.ids(), segment=done.lssn, last_entry=last)
