"""Executes a rebalance request in the process that is elected as auditor (rule RPR-19)."""

import asyncio
from collections.abc import Callable

from ...core.protocol.errors import RhumblineError, SessionLostError
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import Session
from ...core.runtime.primitives.wakeup import Wakeup
from .order_store import RebalanceProgress, RebalanceStatus
from .round import RebalanceParts, RebalanceRound

_LOG = EventLog(__name__)


class RebalanceRunner:
    """One task, which sleeps until there is an order and this process is the auditor."""

    def __init__(self, parts: RebalanceParts) -> None:
        self._parts = parts
        self._loop = asyncio.get_running_loop()
        self._progress = RebalanceProgress(0)
        self._log_limit = LogLimit()

    def statistics(self) -> dict[str, int]:
        """Return counters of the last order that this process has worked on."""
        found = self._progress
        return {
            "moved_copies": found.moved_copies,
            "moved_bytes": found.moved_bytes,
            "left_bytes": found.left_bytes,
        }

    async def run(self, session: Session, owner: str, is_auditor: Callable[[], bool]) -> None:
        """Execute orders until the session is lost."""
        parts = self._parts
        wakeup = Wakeup()
        watch = parts.orders.watch(wakeup.wake)
        pause_s = parts.config.audit_interval_ms / 1000
        try:
            while not session.is_lost:
                try:
                    order = await parts.orders.read() if is_auditor() else None
                    if order is not None and order.status is RebalanceStatus.RUNNING:
                        work = RebalanceRound(
                            parts, session, owner, is_auditor, order, self._on_progress
                        )
                        if await work.run():
                            continue
                except SessionLostError:
                    return
                except RhumblineError as error:
                    dropped = self._log_limit.admit(self._loop.time())
                    if dropped is not None:
                        _LOG.warning("rebalance interrupted", error=error, dropped=dropped or None)
                await wakeup.wait(pause_s)
        finally:
            watch.close()

    def _on_progress(self, progress: RebalanceProgress) -> None:
        self._progress = progress
