"""Recovers a ledger that another writer left open: fence, find the end, copy the tail, close.

It implements rules REC-1 to REC-18. Any number of recoveries may race with each other and with the
writer: nothing that they do before the final compare-and-set does harm, and only one of these
succeeds. A recovery that cannot decide an entry changes nothing and leaves the ledger in recovery:
the end is then unavailable, but never wrong.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace

from ...protocol.bookie_id import BookieId
from ...protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    RecoveryIncompleteError,
    RhumblineError,
    UnauthorizedError,
    UnavailableError,
)
from ...protocol.ledger_metadata import NO_ENTRY, Fragment, LedgerMetadata, LedgerState
from ...protocol.recovery import (
    AnswerKind,
    EntryTally,
    Evidence,
    FenceTally,
    ProvableEnd,
    Verdict,
    closed_by_recovery,
    quorums_from,
    silent_bookie,
)
from ...runtime.metadata_store import Version
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import Entry, EntryDigest, master_key
from ..connection.ensemble_request import EnsembleRequest
from ..connection.v3_responses import answer_kind_of, entry_in, lac_in_last_entry
from ..context import LedgerContext
from .recovery_adds import RecoveryAdds

ConfirmEnd = Callable[[ProvableEnd], Awaitable[ProvableEnd]]
"""Shows what is provable to an operator, and returns the audit record once it was confirmed."""


async def recover_ledger(
    context: LedgerContext,
    ledger_id: int,
    password: bytes,
    *,
    min_regions: int | None = None,
    confirm: ConfirmEnd | None = None,
) -> LedgerMetadata:
    """Closes the ledger, unless it is closed, and returns the closed metadata. Safe to repeat.

    ``min_regions``: the R for writing the ledger's tail again, if it differs from the ledger's own
    (the stream's policy was changed meanwhile, for example after the loss of a region). It is
    limited to what the ledger's AQ and its allowed regions permit. Whether an entry exists is
    always decided by the R that the writer had (rule REC-17). Raises UnauthorizedError for a wrong
    password, IllegalQuorumError if ``min_regions`` is below 1, and at the deadline
    RecoveryIncompleteError, NotEnoughBookiesError or what the metadata store raises.

    ``confirm``: for operators only (rule REC-19). If the end cannot be proven, it is awaited with
    what was found, and the ledger is closed at the provable end with the record that it returns. It
    raises to give up, and may be called again with other findings.
    """
    backoff = context.backoff(context.config.recovery_timeout_ms)
    while True:
        try:
            return await _Recovery(context, ledger_id, password, min_regions, confirm).run()
        except BadVersionError:
            if backoff.is_over:
                raise RecoveryIncompleteError(
                    f"ledger {ledger_id}: its metadata changed in every attempt"
                ) from None
        except (UnavailableError, IndeterminateError):
            if backoff.is_over:
                raise
        await backoff.pause()


class _EntryRead:
    """The fencing reads of one entry, sent to its whole write set concurrently (bug B1)."""

    __slots__ = ("_recovery", "_request", "data", "entry", "entry_id", "tally")

    def __init__(
        self,
        recovery: "_Recovery",
        fragment: Fragment,
        write_set: tuple[int, ...],
        tally: EntryTally,
    ) -> None:
        self.entry_id = tally.entry_id
        self.tally = tally
        self.entry: Entry | None = None
        self.data = b""
        self._recovery = recovery
        self._request = recovery.fencing_read(fragment, write_set, tally.entry_id, self._on_answer)

    def _on_answer(
        self, index: int, error: RhumblineError | None, response: pb.Response | None
    ) -> Verdict | None:
        if error is None:
            assert response is not None
            try:
                self.entry, self.data = self._recovery.decode(response, self.entry_id)
            except CorruptionError as corrupt:
                error = corrupt
        return self.tally.on_answer(index, answer_kind_of(error))

    async def wait_verdict(self) -> Verdict:
        """Waits for the verdict and records its evidence, since it is acted upon (rule REC-18)."""
        verdict = await self._request.verdict
        self._recovery.context.on_evidence(self.tally.evidence(verdict))
        return verdict


class _Recovery:
    """One attempt. It raises BadVersionError if the metadata was changed meanwhile."""

    def __init__(
        self,
        context: LedgerContext,
        ledger_id: int,
        password: bytes,
        min_regions: int | None,
        confirm: ConfirmEnd | None,
    ) -> None:
        self.context = context
        self._confirm = confirm
        self._is_fenced = True
        self._is_end_proven = True
        self._highest_seen = NO_ENTRY
        self._silent: dict[BookieId, None] = {}
        self._ledger_id = ledger_id
        self._password = password
        self._min_regions = min_regions
        self._key = master_key(password)

    async def run(self) -> LedgerMetadata:
        """Runs the attempt and returns the closed metadata."""
        context = self.context
        metadata, version = await context.ledgers.read(self._ledger_id)
        if metadata.password != self._password:
            raise UnauthorizedError(f"ledger {self._ledger_id}: wrong password")
        self._digest = EntryDigest(metadata.digest_type, metadata.password)
        if metadata.state is LedgerState.CLOSED:
            return metadata
        if self._min_regions is not None:  # refused before anything is fenced or changed
            wanted = metadata.possible_r(self._min_regions)
            replace(metadata.quorum_at(0), min_regions=wanted)
        if metadata.state is LedgerState.OPEN:
            metadata = metadata.in_recovery()
            version = await context.ledgers.write(metadata, version)
        # Other recoveries may work on the same version: the first final write wins.
        return await self._recover(metadata, version)

    async def _recover(self, snapshot: LedgerMetadata, version: Version) -> LedgerMetadata:
        confirmed = await self._fence(snapshot)
        adds = RecoveryAdds(self.context, snapshot, confirmed + 1, self._key, self._min_regions)
        await adds.open()
        last, length = await self._copy_tail(snapshot, confirmed, adds)
        await adds.wait_pending(0)
        audit = None
        if self._confirm is not None and not (self._is_end_proven and self._is_fenced):
            audit = await self._confirm(await self._provable_end(snapshot, last, confirmed))
        closed = closed_by_recovery(
            snapshot,
            adds.fragments,
            last_entry_id=last,
            length=length,
            min_regions=adds.recorded_min_regions,
            provable_end=audit,
        )
        try:
            await self.context.ledgers.write(closed, version)
        except BadVersionError:
            stored, _ = await self.context.ledgers.read(self._ledger_id)
            if stored.state is not LedgerState.CLOSED:
                raise  # the fragments were changed: the decisions may be out of date
            return stored
        return closed

    async def _provable_end(
        self, snapshot: LedgerMetadata, last: int, confirmed: int
    ) -> ProvableEnd:
        regions = await self.context.regions_of(list(self._silent))
        return ProvableEnd(
            last_entry_id=last,
            confirmed=confirmed,
            highest_seen=max(last, self._highest_seen),
            doubtful_from=last + 1,
            silent=tuple(map(silent_bookie, self._silent, regions)),
            is_writer_fenced=self._is_fenced,
        )

    # --- requests -------------------------------------------------------------------------------

    def fencing_read(
        self,
        fragment: Fragment,
        members: Iterable[int],
        entry_id: int,
        tally: Callable[[int, RhumblineError | None, pb.Response | None], Verdict | None],
    ) -> EnsembleRequest[Verdict]:
        """Sends reads that fence and have priority, as all reads of a recovery do (rule REC-3).

        A bookie that cannot be reached counts as the answer UNKNOWN.
        """
        request = v3.read_request(
            0, self._ledger_id, entry_id, fence_key=self._key, priority=v3.HIGH_PRIORITY
        )
        return EnsembleRequest(self.context.pool, fragment.bookies, members, request, tally)

    def decode(self, response: pb.Response, entry_id: int) -> tuple[Entry, bytes]:
        """Returns the entry in a response and its bytes. Raises CorruptionError."""
        return entry_in(response, self._digest, self._ledger_id, entry_id)

    # --- steps ----------------------------------------------------------------------------------

    async def _fence(self, snapshot: LedgerMetadata) -> int:
        """Fences the last fragment (rule REC-4).

        Returns an entry id up to which all entries are confirmed (rule REC-6).
        """
        fragment = snapshot.last_fragment
        views = [
            await self.context.view_of(fragment, quorum)
            for quorum in quorums_from(snapshot, fragment.first_entry_id)
        ]
        tally = FenceTally(self._ledger_id, fragment, views)

        def on_answer(
            index: int, error: RhumblineError | None, response: pb.Response | None
        ) -> Verdict | None:
            kind = answer_kind_of(error)
            if kind is AnswerKind.HAVE:
                assert response is not None
                self._highest_seen = max(self._highest_seen, response.read_response.entry_id)
                lac = lac_in_last_entry(response, self._digest, self._ledger_id)
                verdict = tally.on_answer(index, kind, lac)
            else:
                verdict = tally.on_answer(index, kind)
            if verdict is not None:
                self.context.on_evidence(tally.evidence(verdict))
            return verdict

        members = range(len(fragment.bookies))
        request = self.fencing_read(fragment, members, NO_ENTRY, on_answer)
        if await request.verdict is not Verdict.COMPLETE:
            self._is_fenced = False
            self._note_silent(tally.evidence(Verdict.INCOMPLETE))
        if not self._is_fenced and self._confirm is None:
            raise RecoveryIncompleteError(
                f"ledger {self._ledger_id}: too few of {', '.join(fragment.bookies)} were fenced"
            )
        return tally.lac

    async def _start_read(self, snapshot: LedgerMetadata, entry_id: int) -> _EntryRead:
        """Starts to read an entry from the ensemble in the snapshot, not a newer one (bug B3)."""
        fragment = snapshot.fragment_of(entry_id)
        quorum = snapshot.quorum_at(entry_id)
        view = await self.context.view_of(fragment, quorum)
        tally = EntryTally(self._ledger_id, entry_id, fragment, view)
        return _EntryRead(self, fragment, quorum.write_set(entry_id), tally)

    async def _copy_tail(
        self, snapshot: LedgerMetadata, confirmed: int, adds: RecoveryAdds
    ) -> tuple[int, int]:
        """Reads and re-adds entries above the confirmed ones until one does not exist.

        Returns the last entry id and the length up to it. The last confirmed entry is read as well,
        for its length, in case no entry follows it.
        """
        last = confirmed
        length = 0
        length_read = await self._start_read(snapshot, confirmed) if confirmed >= 0 else None
        reads: deque[_EntryRead] = deque()
        next_id = confirmed + 1
        window = 1
        while True:
            while len(reads) < window:
                reads.append(await self._start_read(snapshot, next_id))
                next_id += 1
            read = reads.popleft()
            verdict = await read.wait_verdict()
            if verdict is Verdict.ABSENT:
                break  # the first proven gap ends the ledger (rule REC-11)
            if verdict is Verdict.INCOMPLETE:
                self._note_silent(read.tally.evidence(verdict))
                if self._confirm is not None:
                    self._is_end_proven = False
                    break
                raise RecoveryIncompleteError(
                    f"ledger {self._ledger_id}: entry {read.entry_id} may exist, but no bookie "
                    "that could hold it responds"
                )
            assert read.entry is not None
            await adds.add(read.entry_id, read.data)
            last, length = read.entry_id, read.entry.length
            # Usually few entries follow, so the window starts small and doubles.
            affordable = max(1, self.context.config.recovery_window_bytes // len(read.data))
            window = min(2 * window, affordable, self.context.config.recovery_window)
        if last == confirmed and length_read is not None:
            verdict = await length_read.wait_verdict()
            while verdict is not Verdict.RECOVER:
                self._note_silent(length_read.tally.evidence(verdict))
                if self._confirm is None:
                    raise RecoveryIncompleteError(
                        f"ledger {self._ledger_id}: its last entry {last} cannot be read now"
                    )
                self._is_end_proven = False  # acknowledged, but no copy is left: go down
                last -= 1
                if last == NO_ENTRY:
                    return last, 0
                length_read = await self._start_read(snapshot, last)
                verdict = await length_read.wait_verdict()
            assert length_read.entry is not None
            length = length_read.entry.length
        return last, length

    def _note_silent(self, evidence: Evidence) -> None:
        """Remember the bookies whose responses are missing in a decision that was not possible."""
        answered = {a.index for a in evidence.answers if a.kind is not AnswerKind.UNKNOWN}
        quorum = evidence.quorums[0]
        asked = (
            range(quorum.ensemble_size)
            if evidence.entry_id is None
            else quorum.write_set(evidence.entry_id)
        )
        for index in asked:
            if index not in answered:
                self._silent[evidence.fragment.bookies[index]] = None
