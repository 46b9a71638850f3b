"""What writers know to be missing reaches repair at once, not with the next audit.

A writer tells of each bookie that did not take entries which others confirmed, when the fragment or
the ledger ends. Those of bookies that are up are reported, as tasks; the others are the auditor's,
who compares lists when they are back, or lost. So nothing hangs on a report: one that is lost with
its process, or left out because there are too many, is found by the auditor.
"""

import asyncio

from ...core.ledger.write.under_replication import MissingRange
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import RhumblineError
from ...core.runtime.clock import Clock
from ...core.runtime.tasks import Tasks
from ..steered_directory import SteeredDirectory
from .task_store import TaskStore

PENDING_MAX = 10_000
"""Ledgers that wait to be reported; of more nobody is told."""

_SETTLE_S = 1.0  # a writer tells before its close is recorded; repair needs the closed ledger


class UnderReplicationReports:
    """Call it with each hole (``on_hole`` of ``LedgerClient``); close it before the client."""

    def __init__(self, tasks: TaskStore, directory: SteeredDirectory, clock: Clock) -> None:
        self.reported = 0
        """Ledgers for which a task was made."""
        self.left_out = 0
        """Holes that were not reported: too many at once, or the metadata store was away."""
        self._store = tasks
        self._directory = directory
        self._clock = clock
        self._tasks = Tasks()
        self._waiting: dict[int, dict[BookieId, None]] = {}
        self._is_running = False

    def __call__(self, hole: MissingRange) -> None:
        """Takes note of a hole; never blocks, never raises."""
        if self._tasks.is_closed:
            return
        bookies = self._waiting.get(hole.ledger_id)
        if bookies is None:
            if len(self._waiting) >= PENDING_MAX:
                self.left_out += 1
                return
            bookies = self._waiting[hole.ledger_id] = {}
        bookies[hole.bookie] = None
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._report(), "report holes")

    async def aclose(self) -> None:
        """Reports nothing more. Safe to repeat."""
        await self._tasks.aclose()

    async def _report(self) -> None:
        try:
            while self._waiting:
                await asyncio.sleep(_SETTLE_S)
                waiting, self._waiting = self._waiting, {}
                try:
                    await self._report_all(waiting)
                except RhumblineError:
                    self.left_out += len(waiting)
        finally:
            self._is_running = False

    async def _report_all(self, waiting: dict[int, dict[BookieId, None]]) -> None:
        up = {*await self._directory.writable(), *await self._directory.read_only()}
        for ledger_id, bookies in waiting.items():
            missing = [bookie for bookie in bookies if bookie in up]
            if missing:
                why = f"its writer knows that {', '.join(missing)} missed entries"
                is_new = await self._store.want(ledger_id, why, self._clock.wall_ms())
                self.reported += is_new
