"""One real bookie process under continuous adds, reads, fences, deletions, kills and restarts.

Every ledger has this bookie as its only replica, so an acknowledged entry is either there or lost.
The payload of an entry follows from its ids, so that every read can be verified.
"""

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import TypeVar

from rhumbline.chaos.server_processes import BookieProcess
from rhumbline.client.connect import Client
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import IndeterminateError, RhumblineError, UnavailableError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.tasks import Tasks, wait_until_done
from rhumbline.tests.support.processes.process_cluster import ProcessCluster

T = TypeVar("T")

SETTINGS = {
    "RHUMBLINE_BOOKIE__LOG_FILE_BYTES": str(4 << 20),
    "RHUMBLINE_BOOKIE__SEALED_LOGS_KEPT": "1",
    "RHUMBLINE_BOOKIE__INDEX_ROWS_MAX": "2000",
    "RHUMBLINE_BOOKIE__MAINTENANCE_MS": "100ms",
    "RHUMBLINE_BOOKIE__COLLECT_MS": "100ms",
    "RHUMBLINE_BOOKIE__SCRUB_MS": "3s",
    "RHUMBLINE_BOOKIE__SESSION_TTL_MS": "1s",
}
LEDGERS_KEPT = 12
SPACE_BYTES_MAX = 32 << 20
_CLIENT = LedgerConfig(
    connect_timeout_ms=500,
    request_timeout_ms=3_000,
    backoff_ms_max=100,
    recovery_timeout_ms=2_000,
    quorum_timeout_ms=500,
    replacement_wait_ms_max=500,
    pending_entries_max=500,  # a recovery must copy the pending entries between two kills
)
_WRITERS = 3
_ENTRIES_MAX = 3_000
_RETRY_SECONDS = 180
_SKIP_KILLS_AFTER_SECONDS = 15


@dataclass(slots=True)
class Report:
    """Counts of the operations."""

    added_entries: int = 0
    added_bytes: int = 0
    read_entries: int = 0
    fenced_writers: int = 0
    deleted_ledgers: int = 0
    kills: int = 0
    stops: int = 0
    skipped_kills: int = 0
    """Kills that were skipped because a request had been waiting for too long."""
    largest_bytes: int = 0
    left_bytes: int = 0

    @property
    def has_everything(self) -> bool:
        """True if each kind of operation happened; on a slow machine this takes longer."""
        happened = (self.read_entries, self.fenced_writers, self.deleted_ledgers)
        has_restarted = self.kills + self.stops > 3
        return all(happened) and has_restarted and self.added_bytes > SPACE_BYTES_MAX


def payload_of(ledger_id: int, entry_id: int) -> bytes:
    """Return 100 to 20,000 bytes that are unique to the entry."""
    seed = hashlib.blake2b(b"%d:%d" % (ledger_id, entry_id)).digest()
    size = 100 + int.from_bytes(seed[:4], "big") % (20_000 if seed[4] < 16 else 1_000)
    return (seed * (size // len(seed) + 1))[:size]


@dataclass(slots=True)
class Soak:
    """One soak run. ``run`` returns the report or raises the first failure."""

    cluster: ProcessCluster
    seconds: float
    random: Random
    report: Report = field(default_factory=Report)
    _ledgers: dict[int, int] = field(default_factory=dict)
    """Closed ledgers, and their last entries."""
    _request_starts: list[float] = field(default_factory=list)
    """Start time of each request that is still being retried."""
    _failures: list[BaseException] = field(default_factory=list)

    @property
    def bookie(self) -> BookieProcess:
        """The bookie under test."""
        return self.cluster.bookies[0]

    async def run(self) -> Report:
        """Run the workload and the kills for the given time at least, then the final checks."""
        async with Client(self.cluster.metadata, region="a", ledger=_CLIENT) as client:
            tasks = Tasks(on_failure=self._failures.append)
            end = time.monotonic() + self.seconds
            workers = [
                tasks.spawn(self._write_until(client, end), f"writer {number}")
                for number in range(_WRITERS)
            ]
            workers.append(tasks.spawn(self._read_until(client, end), "reader"))
            await self._kill_until(end)
            for worker in workers:
                await wait_until_done(worker)
            if self._failures:
                raise self._failures[0]
            for ledger_id in self._ledgers:
                await self._check(client, ledger_id)
            for ledger_id in list(self._ledgers):
                await self._delete(client, ledger_id)
            await self._wait_for_space()
        return self.report

    # --- the work -------------------------------------------------------------------------------

    def _is_over(self, end: float) -> bool:
        return bool(self._failures) or (time.monotonic() >= end and self.report.has_everything)

    async def _write_until(self, client: Client, end: float) -> None:
        while not self._is_over(end):
            await self._write_one(client)
            while len(self._ledgers) > LEDGERS_KEPT:
                await self._delete(client, next(iter(self._ledgers)))

    async def _write_one(self, client: Client) -> None:
        """Writes one ledger; half of the writers are fenced by a recovery."""
        writer = await self._retried(lambda: client.ledgers.create(Quorum(1, 1, 1)))
        acknowledged = -1

        def on_done(entry_id: int, error: RhumblineError | None, _: tuple[str, ...]) -> None:
            nonlocal acknowledged
            if error is not None:
                return
            if entry_id != acknowledged + 1:
                self._failures.append(AssertionError(f"{entry_id} after {acknowledged}"))
            acknowledged = entry_id

        count = self.random.randrange(1, _ENTRIES_MAX)
        fenced_at = self.random.choice([count // 2, count + 1])
        recovering: asyncio.Future[int] | None = None
        for number in range(count):
            if number == fenced_at:
                recovering = asyncio.ensure_future(self._recover(client, writer.ledger_id))
            if not await self._add(writer, on_done):
                break
        if recovering is None:
            for _ in range(100):
                if not writer.pending_count or writer.is_failed:
                    break
                await asyncio.sleep(0.01)
            last = await self._recover(client, writer.ledger_id)
        else:
            last = await recovering
            self.report.fenced_writers += 1
        writer.abandon()
        assert acknowledged <= last, f"ledger {writer.ledger_id}: {acknowledged} was lost, {last}"
        self.report.added_entries += last + 1
        self._ledgers[writer.ledger_id] = last

    async def _add(
        self,
        writer: LedgerWriter,
        on_done: Callable[[int, RhumblineError | None, tuple[str, ...]], None],
    ) -> bool:
        if not writer.has_room:
            room = asyncio.Event()
            writer.on_room(room.set)
            await room.wait()
        if writer.last_add_pushed % 20 == 0:
            await asyncio.sleep(0.001)  # so that kills and fences interrupt pending work
        if writer.is_failed:
            return False
        payload = payload_of(writer.ledger_id, writer.last_add_pushed + 1)
        self.report.added_bytes += len(payload)
        writer.add(payload, on_done)
        return True

    async def _recover(self, client: Client, ledger_id: int) -> int:
        return (await self._retried(lambda: client.ledgers.recover(ledger_id))).last_entry_id

    async def _delete(self, client: Client, ledger_id: int) -> None:
        if self._ledgers.pop(ledger_id, None) is not None:
            await self._retried(lambda: client.ledgers.delete(ledger_id))
            self.report.deleted_ledgers += 1

    async def _read_until(self, client: Client, end: float) -> None:
        while not self._is_over(end):
            if self._ledgers:
                await self._check(client, self.random.choice(list(self._ledgers)))
            await asyncio.sleep(0.05)

    async def _check(self, client: Client, ledger_id: int) -> None:
        """Reads and verifies a whole ledger, unless it is deleted meanwhile."""
        last = self._ledgers[ledger_id]
        try:
            reader = await self._retried(lambda: client.ledgers.open(ledger_id))
            at = 0
            while at <= last:
                for entry in await self._retried(partial(reader.read, at, last)):
                    assert entry.entry_id == at
                    assert entry.payload == payload_of(ledger_id, at), (ledger_id, at)
                    at += 1
            await reader.aclose()
        except RhumblineError:
            if ledger_id in self._ledgers:
                raise
            return
        self.report.read_entries += last + 1

    async def _retried(self, request: Callable[[], Awaitable[T]]) -> T:
        """Retries a request while the bookie is down."""
        started = time.monotonic()
        self._request_starts.append(started)
        try:
            while True:
                try:
                    return await request()
                except (UnavailableError, IndeterminateError):
                    if time.monotonic() > started + _RETRY_SECONDS:
                        raise
                await asyncio.sleep(0.1)
        finally:
            self._request_starts.remove(started)

    # --- faults ---------------------------------------------------------------------------------

    async def _kill_until(self, end: float) -> None:
        while not self._is_over(end):
            await asyncio.sleep(self.random.uniform(1.0, 4.0))
            if (
                self._request_starts
                and time.monotonic() > min(self._request_starts) + _SKIP_KILLS_AFTER_SECONDS
            ):
                self.report.skipped_kills += 1
                continue  # on a slow machine no request completes between two kills
            self.report.largest_bytes = max(self.report.largest_bytes, self.space())
            if self.random.random() < 0.75:
                await asyncio.to_thread(self.bookie.kill)
                self.report.kills += 1
            else:
                assert await asyncio.to_thread(self.bookie.stop) == 0
                self.report.stops += 1
            await asyncio.sleep(self.random.uniform(0.0, 0.5))
            await asyncio.to_thread(self.bookie.start)

    def space(self) -> int:
        """Return the bytes of the bookie's log and sorted files."""
        return sum(_size(path) for path in Path(self.bookie.directory).rglob("*.[ls]o*"))

    async def _wait_for_space(self) -> None:
        deadline = time.monotonic() + _RETRY_SECONDS
        while (left := self.space()) > SPACE_BYTES_MAX:
            assert time.monotonic() < deadline, f"{left:,} bytes were not freed"
            await asyncio.sleep(0.2)
        self.report.left_bytes = left


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0  # compacted and removed meanwhile
