"""Recovers a ledger that another writer left open: fence, find the end, copy the tail, close.

It implements rules REC-1 to REC-18 and REC-20. Any number of recoveries may race with each other
and with the writer: nothing that they do before the final compare-and-set does harm, and only one
of these succeeds. A recovery that cannot decide an entry changes nothing and leaves the ledger in
recovery: the end is then unavailable, but never wrong.

``recovery_state`` decides; the code here sends requests and waits.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from hmac import compare_digest
from typing import TypeVar

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
)
from ...runtime.event_log import EventLog
from ...runtime.metadata_store import Version
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import Entry, EntryDigest, master_key
from ..connection.ensemble_request import EnsembleRequest
from ..connection.v3_responses import answer_kind_of, entry_in, lac_in_last_entry
from ..context import LedgerContext
from ..copy_renewal import renew_copies
from .recovery_adds import RecoveryAdds
from .recovery_state import RecoveryState

_LOG = EventLog(__name__)

T = TypeVar("T")

ConfirmEnd = Callable[[ProvableEnd], Awaitable[ProvableEnd]]
"""Shows what is provable to an operator, and returns the audit record once it was confirmed."""


async def recover_ledger(
    context: LedgerContext,
    ledger_id: int,
    password: bytes | None,
    *,
    min_regions: int | None = None,
    confirm: ConfirmEnd | None = None,
) -> LedgerMetadata:
    """Closes the ledger, unless it is closed, and returns the closed metadata. Safe to repeat.

    ``min_regions``: the R for writing the ledger's tail again, if it differs from the ledger's own
    (the stream's policy was changed meanwhile, for example after the loss of a region). It is
    limited to what the ledger's AQ and its allowed regions permit. Whether an entry exists is
    always decided by the R that the writer had (rule REC-17). Raises UnauthorizedError for a wrong
    password, PermissionDeniedError if bookies refuse this client (rule SEC-32), IllegalQuorumError
    if ``min_regions`` is below 1, and at the deadline RecoveryIncompleteError,
    NotEnoughBookiesError or what the metadata store raises.

    Without ``password`` the one in the ledger's metadata is used.

    ``confirm``: for operators only (rule REC-19). If the end cannot be proven, it is called with
    the findings and awaited, and the ledger is closed at the provable end with the record that
    it returns. It raises to give up, and may be called again with other findings.
    """
    now = asyncio.get_running_loop().time
    state = RecoveryState(ledger_id, may_ask=confirm is not None, now=now)

    def attempt() -> Awaitable[LedgerMetadata]:
        return _Recovery(context, state, ledger_id, password, min_regions, confirm).run()

    return await _repeat(context, state, ledger_id, attempt)


async def fence_ledger(context: LedgerContext, ledger_id: int, password: bytes | None) -> None:
    """Makes sure that no add to the ledger is acknowledged any more, but does not find its end.

    It does the first steps of a recovery (rule REC-20), so less must be reachable than for all of
    it. Safe to repeat. Raises as ``recover_ledger``.
    """
    state = RecoveryState(ledger_id, may_ask=False, now=asyncio.get_running_loop().time)

    def attempt() -> Awaitable[None]:
        return _Recovery(context, state, ledger_id, password, None, None).fence()

    await _repeat(context, state, ledger_id, attempt)


async def _repeat(
    context: LedgerContext,
    state: RecoveryState,
    ledger_id: int,
    attempt: Callable[[], Awaitable[T]],
) -> T:
    """Repeats attempts after errors that may pass, up to the deadline."""
    backoff = context.backoff(context.config.recovery_timeout_ms)
    while True:
        try:
            return await attempt()
        except BadVersionError as error:
            if backoff.is_over:
                raise RecoveryIncompleteError(
                    f"ledger {ledger_id}: its metadata changed in every attempt"
                ) from None
            state.retry(error)
        except (UnavailableError, IndeterminateError) as error:
            if backoff.is_over:
                _LOG.warning(
                    "ledger recovery failed", machine=state.machine, ledger=ledger_id, error=error
                )
                raise
            state.retry(error)
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

    async def wait_evidence(self) -> Evidence:
        """Waits for the verdict and records its evidence, since it is acted upon (rule REC-18)."""
        evidence = self.tally.evidence(await self._request.verdict)
        self._recovery.context.on_evidence(evidence)
        return evidence


class _Recovery:
    """One attempt. It raises BadVersionError if the metadata was changed meanwhile."""

    def __init__(
        self,
        context: LedgerContext,
        state: RecoveryState,
        ledger_id: int,
        password: bytes | None,
        min_regions: int | None,
        confirm: ConfirmEnd | None,
    ) -> None:
        self.context = context
        self._state = state
        self._confirm = confirm
        self._ledger_id = ledger_id
        self._password = password
        self._min_regions = min_regions
        self._key = b""

    async def run(self) -> LedgerMetadata:
        """Runs the attempt and returns the closed metadata."""
        metadata, version = await self._start()
        if metadata.state is LedgerState.CLOSED:
            return metadata
        # Other recoveries may work on the same version: the first final write wins.
        return await self._recover(metadata, version)

    async def fence(self) -> None:
        """Runs the attempt up to the point at which no writer can be acknowledged any more."""
        metadata, _ = await self._start()
        if metadata.state is not LedgerState.CLOSED:
            self._state.begin()
            await self._fence(metadata)

    async def _start(self) -> tuple[LedgerMetadata, Version]:
        """Reads the metadata, and records that the ledger is in recovery unless it is closed."""
        context = self.context
        metadata, version = await context.ledgers.read(self._ledger_id)
        given = self._password
        if given is not None and not compare_digest(metadata.password, given):
            raise UnauthorizedError(f"ledger {self._ledger_id}: wrong password")
        self._digest = EntryDigest(metadata.digest_type, metadata.password)
        self._key = master_key(metadata.password)
        if metadata.state is LedgerState.CLOSED:
            self._state.find_closed()
            return metadata, version
        if self._min_regions is not None:  # refused before anything is fenced or changed
            wanted = metadata.possible_r(self._min_regions)
            replace(metadata.quorum_at(0), min_regions=wanted)
        if metadata.state is LedgerState.OPEN:
            metadata = metadata.in_recovery()
            version = await context.ledgers.write(metadata, version)
            _LOG.info("ledger recovery began", ledger=self._ledger_id)
        return metadata, version

    async def _recover(self, snapshot: LedgerMetadata, version: Version) -> LedgerMetadata:
        state = self._state
        state.begin()
        await self._fence(snapshot)
        first = state.confirmed + 1
        adds = RecoveryAdds(self.context, snapshot, first, self._key, self._min_regions)
        await adds.open()
        await self._copy_tail(snapshot, adds)
        await adds.wait_pending(0)
        audit = None
        if state.must_ask:
            assert self._confirm is not None
            regions = await self.context.regions_of(list(state.silent))
            audit = await self._confirm(state.ask(regions))
        closed = closed_by_recovery(
            snapshot,
            adds.fragments,
            last_entry_id=state.last,
            length=state.length,
            min_regions=adds.recorded_min_regions,
            provable_end=audit,
        )
        state.close(is_confirmed=audit is not None)
        try:
            await self.context.ledgers.write(closed, version)
        except BadVersionError:
            closed, _ = await self.context.ledgers.read(self._ledger_id)
            if closed.state is not LedgerState.CLOSED:
                raise  # the fragments were changed: the decisions may be out of date
            state.end(is_adopted=True)
        else:
            state.end(is_adopted=False)
            _LOG.info("ledger recovered", ledger=self._ledger_id, last_entry=closed.last_entry_id)
        if adds.recorded_min_regions is not None and not self.context.tasks.is_closed:
            self._renew_copies(closed)
        return closed

    def _renew_copies(self, closed: LedgerMetadata) -> None:
        """Makes the bookies of the tail read where the ledger ends, because its R has changed.

        Nothing waits for them, since the end is decided (rule BAK-11).
        """
        context, bookies = self.context, closed.last_fragment.bookies
        renewal = renew_copies(context.pool, self._ledger_id, bookies, self._digest, self._key)
        context.tasks.spawn(renewal, f"renew the copies of ledger {self._ledger_id}")

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

    async def _fence(self, snapshot: LedgerMetadata) -> None:
        """Fences the last fragment (rule REC-4)."""
        state = self._state
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
                state.highest_seen = max(state.highest_seen, response.read_response.entry_id)
                lac = lac_in_last_entry(response, self._digest, self._ledger_id)
                verdict = tally.on_answer(index, kind, lac)
            else:
                if isinstance(error, UnauthorizedError):
                    state.refusal = error
                verdict = tally.on_answer(index, kind)
            if verdict is not None:
                self.context.on_evidence(tally.evidence(verdict))
            return verdict

        members = range(len(fragment.bookies))
        request = self.fencing_read(fragment, members, NO_ENTRY, on_answer)
        state.on_fenced(tally.evidence(await request.verdict))

    async def _start_read(self, snapshot: LedgerMetadata, entry_id: int) -> _EntryRead:
        """Starts to read an entry from the ensemble in the snapshot, not a newer one (bug B3)."""
        fragment = snapshot.fragment_of(entry_id)
        quorum = snapshot.quorum_at(entry_id)
        view = await self.context.view_of(fragment, quorum)
        tally = EntryTally(self._ledger_id, entry_id, fragment, view)
        return _EntryRead(self, fragment, quorum.write_set(entry_id), tally)

    async def _copy_tail(self, snapshot: LedgerMetadata, adds: RecoveryAdds) -> None:
        """Reads and re-adds entries above the confirmed ones until one does not exist.

        The last confirmed entry is read as well, for its length, in case no entry follows it.
        """
        state = self._state
        confirmed = state.confirmed
        length_read = await self._start_read(snapshot, confirmed) if confirmed >= 0 else None
        reads: deque[_EntryRead] = deque()
        next_id = confirmed + 1
        window = 1
        while True:
            while len(reads) < window:
                reads.append(await self._start_read(snapshot, next_id))
                next_id += 1
            read = reads.popleft()
            if not state.on_entry(await read.wait_evidence()):
                break
            assert read.entry is not None
            await adds.add(read.entry_id, read.data)
            state.on_copied(read.entry_id, read.entry.length)
            # Usually few entries follow, so the window starts small and doubles.
            affordable = max(1, self.context.config.recovery_window_bytes // len(read.data))
            window = min(2 * window, affordable, self.context.config.recovery_window)
        if state.last == confirmed and length_read is not None:
            await self._read_length(snapshot, length_read)

    async def _read_length(self, snapshot: LedgerMetadata, read: _EntryRead) -> None:
        """Takes the length from the last entry, or from one before it if no copy is left."""
        state = self._state
        while not state.on_last_entry(await read.wait_evidence()):
            if state.last == NO_ENTRY:
                return
            read = await self._start_read(snapshot, state.last)
        assert read.entry is not None
        state.length = read.entry.length
