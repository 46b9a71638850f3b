"""Fake ledgers in memory with acknowledgements, LAC, fencing, recovery and long polls.

A ``FakeLedgers`` is a cluster, and each ``client()`` is a process. As with real bookies, a reader
knows only the LAC that was sent with a later entry, by an explicit LAC or by the close.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rhumbline.core.log.ledger_interface import ConfirmEnd, OnDone
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    BookieUnavailableError,
    ClosedError,
    LedgerClosedError,
    LedgerFencedError,
    LimitExceededError,
    NoSuchLedgerError,
    RecordTooLargeError,
    RecoveryIncompleteError,
    RhumblineError,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum


class FakeEntry(NamedTuple):
    entry_id: int
    payload: bytes


@dataclass
class Ledger:
    metadata: LedgerMetadata
    entries: list[bytes] = field(default_factory=list)
    acked: int = -1
    known_lac: int = -1
    is_fenced: bool = False
    waiters: list[asyncio.Future[None]] = field(default_factory=list)

    @property
    def is_closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    def wake(self) -> None:
        waiters, self.waiters = self.waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def close(self, last: int) -> None:
        del self.entries[last + 1 :]
        self.metadata = self.metadata.closed(last, sum(map(len, self.entries)))
        self.known_lac = last
        self.wake()


class FakeLedgers:
    """The cluster. Tests set its public attributes to inject faults."""

    def __init__(self) -> None:
        self.ledgers: dict[int, Ledger] = {}
        self.next_id = 1
        self.are_acks_held = False
        self.is_recovery_refused = False
        self.is_lac_refused = False
        self.keeps_unacked = True
        """True if recovery finds entries that were sent but not acknowledged."""
        self.create_error: RhumblineError | None = None
        self.pending_entries_max = 16_384
        self.entry_bytes_max = 3_670_016
        self.read_error: RhumblineError | None = None
        self.refresh_errors: list[RhumblineError] = []
        """Errors of the next queries of a LAC that read the current metadata of the ledger."""
        self.lac_queries: list[bool] = []
        """For each query of a LAC: True if a quorum had to respond, False if one bookie did."""
        self.delay_s: Callable[[], float] = lambda: 0.0
        self.entries_sent = 0
        self.batch_entries_max = 8
        self.reads = 0
        self.writers: list[FakeLedgerWriter] = []

    async def pause(self) -> None:
        """Wait for the duration of a request: one turn of the loop unless a test sets
        ``delay_s``."""
        await asyncio.sleep(self.delay_s())

    def client(self) -> "FakeLedgerClient":
        return FakeLedgerClient(self)

    def release_acks(self, count: int | None = None) -> None:
        """Acknowledge held entries: the first ``count`` of each writer, or all."""
        for writer in self.writers:
            writer.ack(count)

    def open_writers(self) -> list[int]:
        """Return the ledgers whose writers have not ended."""
        return [writer.ledger_id for writer in self.writers if writer.failure is None]

    def fail_writers(self, error: RhumblineError | None = None) -> None:
        """Fail every open ledger writer and its pending entries."""
        for writer in self.writers:
            writer.fail(error or BookieUnavailableError("injected by the test"))


class FakeLedgerWriter:
    def __init__(self, cluster: FakeLedgers, ledger: Ledger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._pending: deque[tuple[int, OnDone]] = deque()
        self._is_scheduled = False
        self.failure: RhumblineError | None = None
        self.on_failure: Callable[[RhumblineError], None] | None = None
        self.on_drain_requested: Callable[[], None] | None = None
        self.lac_publications = 0
        self._room_callbacks: list[Callable[[], None]] = []
        cluster.writers.append(self)

    @property
    def ledger_id(self) -> int:
        return self._ledger.metadata.ledger_id

    @property
    def last_add_confirmed(self) -> int:
        return self._ledger.acked

    def add(self, payload: bytes, on_done: OnDone, traces: Sequence[str] = ()) -> int:
        if self.failure is not None:
            raise self.failure
        ledger = self._ledger
        if len(payload) > self._cluster.entry_bytes_max:
            raise RecordTooLargeError("an entry above the ledger's limit")
        if len(self._pending) >= self._cluster.pending_entries_max:
            raise LimitExceededError("too many entries are pending")
        entry_id = (self._pending[-1][0] if self._pending else ledger.acked) + 1
        self._cluster.entries_sent += 1
        self._pending.append((entry_id, on_done))
        if not ledger.is_fenced:
            assert entry_id == len(ledger.entries)
            ledger.entries.append(payload)
            if ledger.acked > ledger.known_lac:
                ledger.known_lac = ledger.acked
                ledger.wake()
        if not self._is_scheduled and not self._cluster.are_acks_held:
            self._is_scheduled = True
            asyncio.get_running_loop().call_later(self._cluster.delay_s(), self._acknowledge)
        return entry_id

    def _acknowledge(self) -> None:
        self._is_scheduled = False
        if not self._cluster.are_acks_held:
            self.ack(None)

    def ack(self, count: int | None) -> None:
        if self._ledger.is_fenced and self._pending:
            self.fail(LedgerFencedError(f"ledger {self.ledger_id} is fenced"))
            return
        left = len(self._pending) if count is None else count
        while self._pending and left > 0:
            entry_id, on_done = self._pending.popleft()
            self._ledger.acked = entry_id
            on_done(entry_id, None, ("north", "south"))
            left -= 1
        if len(self._pending) < self._cluster.pending_entries_max:
            self._call_room_callbacks()

    def on_room(self, callback: Callable[[], None]) -> None:
        self._room_callbacks.append(callback)

    def _call_room_callbacks(self) -> None:
        wanted, self._room_callbacks = self._room_callbacks, []
        for callback in wanted:
            callback()

    def fail(self, error: RhumblineError) -> None:
        if self.failure is None:
            self.failure = error
            pending, self._pending = self._pending, deque()
            unknown = AppendOutcomeUnknownError(str(error))
            unknown.__cause__ = error
            for entry_id, on_done in pending:
                on_done(entry_id, unknown, ())
            self._call_room_callbacks()
            if self.on_failure is not None and not isinstance(error, ClosedError):
                self.on_failure(error)

    def abandon(self) -> None:
        self.fail(ClosedError(f"the writer of ledger {self.ledger_id} was stopped"))

    async def introduce(self) -> None:
        await asyncio.sleep(0)

    async def close(self) -> LedgerMetadata:
        await self._cluster.pause()
        self.fail(ClosedError(f"ledger {self.ledger_id} was closed here"))
        if self._ledger.is_fenced or self._ledger.is_closed:
            if self._ledger.is_closed and self._ledger.metadata.last_entry_id == self._ledger.acked:
                return self._ledger.metadata
            raise LedgerClosedError(f"ledger {self.ledger_id} was closed by another client")
        self._ledger.close(self._ledger.acked)
        return self._ledger.metadata

    def send_explicit_lac(self, on_done: Callable[[bool], None]) -> bool:
        if self.failure is not None:
            return False
        loop, lac = asyncio.get_running_loop(), self._ledger.acked
        loop.call_later(self._cluster.delay_s(), self._take_lac, lac, on_done)
        return True

    def _take_lac(self, lac: int, on_done: Callable[[bool], None]) -> None:
        is_taken = not self._cluster.is_lac_refused
        if is_taken:
            self.lac_publications += 1
            self._ledger.known_lac = max(self._ledger.known_lac, lac)
            self._ledger.wake()
        on_done(is_taken)


class FakeLedgerReader:
    def __init__(self, cluster: FakeLedgers, ledger: Ledger) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._lac = ledger.known_lac
        self._sees_close = ledger.is_closed
        self.batch_entries_max = cluster.batch_entries_max

    @property
    def ledger_id(self) -> int:
        return self._ledger.metadata.ledger_id

    @property
    def last_add_confirmed(self) -> int:
        return self._lac

    @property
    def is_closed(self) -> bool:
        return self._sees_close

    def _existing_ledger(self) -> Ledger:
        if self.ledger_id not in self._cluster.ledgers:
            raise NoSuchLedgerError(f"ledger {self.ledger_id}")
        return self._ledger

    def _refresh(self) -> None:
        self._lac = max(self._lac, self._ledger.known_lac)
        self._sees_close = self._ledger.is_closed

    async def read(self, first: int, last: int, ahead_bytes: int = 0) -> Sequence[FakeEntry]:
        del ahead_bytes
        self._cluster.reads += 1
        await self._cluster.pause()
        if self._cluster.read_error is not None:
            raise self._cluster.read_error
        assert 0 <= first <= last <= self._lac
        ledger = self._existing_ledger()
        last = min(last, first + self.batch_entries_max - 1)
        return [FakeEntry(n, ledger.entries[n]) for n in range(first, last + 1)]

    async def update_last_add_confirmed(self, fresh: bool) -> int:
        if fresh and self._cluster.refresh_errors:
            raise self._cluster.refresh_errors.pop(0)
        self._cluster.lac_queries.append(fresh)
        await self._cluster.pause()
        self._existing_ledger()
        self._refresh()
        return self._lac

    async def wait(self, beyond: int, timeout_ms: int) -> Sequence[FakeEntry]:
        loop = asyncio.get_running_loop()
        ledger = self._existing_ledger()
        self._refresh()
        if self._lac <= beyond and not self._sees_close:
            waiter: asyncio.Future[None] = loop.create_future()
            ledger.waiters.append(waiter)
            timer = loop.call_later(timeout_ms / 1000, ledger.wake)
            try:
                await waiter
            finally:
                timer.cancel()
            self._existing_ledger()
            self._refresh()
        if self._lac <= beyond:
            return []
        if self._cluster.read_error is not None:
            raise self._cluster.read_error
        last = min(self._lac, beyond + self.batch_entries_max)
        return [FakeEntry(n, ledger.entries[n]) for n in range(beyond + 1, last + 1)]

    async def aclose(self) -> None:
        return


class FakeLedgerClient:
    def __init__(self, cluster: FakeLedgers) -> None:
        self.cluster = cluster

    async def create(
        self,
        quorum: Quorum,
        *,
        password: bytes | None = None,
        custom: Mapping[str, bytes] | None = None,
    ) -> FakeLedgerWriter:
        await self.cluster.pause()
        cluster = self.cluster
        if cluster.create_error is not None:
            raise cluster.create_error
        ledger_id, cluster.next_id = cluster.next_id, cluster.next_id + 1
        bookies = tuple(BookieId(f"bookie-{n}") for n in range(quorum.ensemble_size))
        metadata = LedgerMetadata(
            ledger_id,
            quorum.ensemble_size,
            quorum.write_quorum,
            quorum.ack_quorum,
            (Fragment(0, bookies),),
            custom=dict(custom or {}),
        )
        ledger = cluster.ledgers[ledger_id] = Ledger(metadata)
        return FakeLedgerWriter(cluster, ledger)

    def _ledger(self, ledger_id: int) -> Ledger:
        if ledger_id not in self.cluster.ledgers:
            raise NoSuchLedgerError(f"ledger {ledger_id}")
        return self.cluster.ledgers[ledger_id]

    async def open(
        self, ledger_id: int, password: bytes | None = None, *, stale_ok: bool = False
    ) -> FakeLedgerReader:
        await self.cluster.pause()
        return FakeLedgerReader(self.cluster, self._ledger(ledger_id))

    async def recover(
        self,
        ledger_id: int,
        password: bytes | None = None,
        *,
        min_regions: int | None = None,
        confirm: ConfirmEnd | None = None,
    ) -> LedgerMetadata:
        await self.cluster.pause()
        ledger = self._ledger(ledger_id)
        if ledger.is_closed:
            return ledger.metadata
        if self.cluster.is_recovery_refused:
            raise RecoveryIncompleteError("injected by the test")
        ledger.is_fenced = True
        await self.cluster.pause()
        if not ledger.is_closed:
            last = len(ledger.entries) - 1 if self.cluster.keeps_unacked else ledger.acked
            ledger.close(last)
        return ledger.metadata

    async def open_recovered(self, metadata: LedgerMetadata) -> FakeLedgerReader:
        assert metadata.state is LedgerState.CLOSED
        return await self.open(metadata.ledger_id)

    async def fence(self, ledger_id: int, password: bytes | None = None) -> None:
        await self.cluster.pause()
        ledger = self._ledger(ledger_id)
        if self.cluster.is_recovery_refused and not ledger.is_closed:
            raise RecoveryIncompleteError("injected by the test")
        ledger.is_fenced = True

    async def delete(self, ledger_id: int) -> None:
        await self.cluster.pause()
        ledger = self.cluster.ledgers.pop(ledger_id, None)
        if ledger is not None:
            ledger.wake()
