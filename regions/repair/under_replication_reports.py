"""Reports copies that writers know to be missing, without waiting for the next audit (RPR-7).

When a fragment or a ledger ends, its writer reports each bookie that lacks entries which others
confirmed. For bookies that are registered, a repair task is made; the others are left to the
auditor, which compares lists when they are back or lost. Nothing depends on a report: if it is lost
with its process, or dropped because there are too many, the auditor finds the missing copies.
"""

import asyncio

from ...core.ledger.missing_range import MissingRange
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import RhumblineError
from ...core.runtime.clock import Clock
from ...core.runtime.tasks import Tasks
from ..steered_directory import SteeredDirectory
from .task_store import TaskStore

PENDING_MAX = 10_000
"""Maximum number of ledgers that wait to be reported; more are dropped."""

_SETTLE_S = 1.0  # writers report before their close is recorded; repair needs the closed ledger


class UnderReplicationReports:
    """A callback for each missing range (``on_missing_range`` of ``LedgerClient``).

    Close it before the client.
    """

    def __init__(self, tasks: TaskStore, directory: SteeredDirectory, clock: Clock) -> None:
        self.reported_count = 0
        """Ledgers for which a task was made."""
        self.dropped_count = 0
        """Reports that were dropped: too many waiting, or the metadata store was unavailable."""
        self._store = tasks
        self._directory = directory
        self._clock = clock
        self._tasks = Tasks()
        self._waiting: dict[int, dict[BookieId, None]] = {}
        self._is_running = False

    def __call__(self, missing: MissingRange) -> None:
        """Note a missing range. Never blocks, never raises."""
        if self._tasks.is_closed:
            return
        bookies = self._waiting.get(missing.ledger_id)
        if bookies is None:
            if len(self._waiting) >= PENDING_MAX:
                self.dropped_count += 1
                return
            bookies = self._waiting[missing.ledger_id] = {}
        bookies[missing.bookie] = None
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._report(), "report missing copies")

    async def aclose(self) -> None:
        """Stop reporting. Safe to repeat."""
        await self._tasks.aclose()

    async def _report(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(_SETTLE_S)
                waiting, self._waiting = self._waiting, {}
                try:
                    await self._report_all(waiting)
                except RhumblineError:
                    self.dropped_count += len(waiting)
        finally:
            self._is_running = False

    async def _report_all(self, waiting: dict[int, dict[BookieId, None]]) -> None:
        up = set(await self._directory.up())
        for ledger_id, bookies in waiting.items():
            missing = [bookie for bookie in bookies if bookie in up]
            if missing:
                reason = f"its writer knows that {', '.join(missing)} missed entries"
                is_new = await self._store.add(ledger_id, reason, self._clock.wall_ms())
                self.reported_count += is_new
