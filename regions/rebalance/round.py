"""One round of rebalancing: a plan from the state of all ledgers, and its moves (rule RPR-19)."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, replace

from ...core.ledger.client import LedgerClient
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.errors import NoSuchLedgerError, RhumblineError, SessionLostError
from ...core.protocol.placement import PlacementPolicy
from ...core.runtime.event_log import EventLog
from ...core.runtime.metadata_store import MetadataStore, Session
from ...core.runtime.runtime import Runtime
from ..repair.config import RepairConfig
from ..repair.ledger_repairer import LedgerRepairer
from ..repair.liveness import LivenessMonitor
from ..repair.task_store import TaskStore
from ..steered_directory import SteeredDirectory
from .order_store import OrderStore, RebalanceOrder, RebalanceProgress
from .plan import Move, RebalancePlan
from .survey import Survey

_LOG = EventLog(__name__)

_PROGRESS_INTERVAL_S = 1.0


@dataclass(frozen=True, slots=True)
class RebalanceParts:
    """The parts of a repair process that rebalancing uses."""

    runtime: Runtime
    store: MetadataStore
    client: LedgerClient
    directory: SteeredDirectory
    placement: PlacementPolicy
    monitor: LivenessMonitor
    tasks: TaskStore
    orders: OrderStore
    config: RepairConfig


class RebalanceRound:
    """Makes the moves of one plan. ``on_progress`` is called after each of them."""

    def __init__(
        self,
        parts: RebalanceParts,
        session: Session,
        owner: str,
        is_auditor: Callable[[], bool],
        order: RebalanceOrder,
        on_progress: Callable[[RebalanceProgress], None],
    ) -> None:
        self._parts = parts
        self._session = session
        self._owner = owner
        self._is_auditor = is_auditor
        self._order = order
        self._on_progress = on_progress
        self._loop = asyncio.get_running_loop()
        self._written_at = 0.0
        config = replace(parts.config, bytes_per_second=order.bytes_per_second)
        self._repairer = LedgerRepairer(
            parts.runtime,
            parts.client,
            parts.store,
            parts.directory,
            parts.placement,
            config=config,
        )

    async def run(self) -> bool:
        """Make the moves; return whether another round should follow at once.

        The order is marked as done if there is nothing to move. Raises as the metadata store.
        """
        parts, order = self._parts, self._order
        survey = Survey(parts.client, LedgerStore(parts.store), await self._parts.monitor.recent())
        fills = await survey.fills()
        progress = await parts.orders.read_progress()
        if progress is None or progress.ordered_ms != order.ordered_ms:
            progress = RebalanceProgress(order.ordered_ms)
            _LOG.info("rebalance began", bookies=len(fills))
        copies, size = await self._count(survey, RebalancePlan(fills, order.tolerance_percent))
        progress = replace(progress, left_copies=copies, left_bytes=size)
        await self._note(progress, is_last=True)
        if not copies:
            await parts.orders.finish(order.ordered_ms)
            _LOG.info("rebalance done", copies=progress.moved_copies, bytes=progress.moved_bytes)
            return False
        before = progress.moved_copies
        plan = RebalancePlan(fills, order.tolerance_percent)
        try:
            async with aclosing(survey.copies()) as copies_found:
                async for found in copies_found:
                    for move in plan.moves_of(found):
                        if not await self._is_wanted():
                            return False
                        progress = await self._make(move, progress)
                        await self._note(progress)
        finally:
            self._on_progress(progress)
        await self._note(progress, is_last=True)
        return progress.moved_copies > before

    @staticmethod
    async def _count(survey: Survey, plan: RebalancePlan) -> tuple[int, int]:
        copies = size = 0
        async for found in survey.copies():
            moves = plan.moves_of(found)
            copies += len(moves)
            size += sum(move.bytes for move in moves)
        return copies, size

    async def _note(self, progress: RebalanceProgress, *, is_last: bool = False) -> None:
        """Report the progress, and store it once a second."""
        self._on_progress(progress)
        now = self._loop.time()
        if is_last or now - self._written_at >= _PROGRESS_INTERVAL_S:
            self._written_at = now
            await self._parts.orders.write_progress(progress)

    async def _is_wanted(self) -> bool:
        """Return whether the order still stands and this process still executes it."""
        is_here = self._is_auditor() and not self._session.is_lost
        return is_here and await self._parts.orders.read() == self._order

    async def _make(self, move: Move, progress: RebalanceProgress) -> RebalanceProgress:
        """Make one move and return the progress. A move that fails does not stop the others.

        Ledgers that repair works on are left to the next round.
        """
        tasks = self._parts.tasks
        left = replace(
            progress,
            left_copies=max(0, progress.left_copies - 1),
            left_bytes=max(0, progress.left_bytes - move.bytes),
        )
        if await tasks.get(move.ledger_id) is not None:
            return left
        if not await tasks.try_lock(self._session, move.ledger_id, self._owner):
            return left
        try:
            await self._repairer.move(
                move.ledger_id,
                (move.first_entry_id, move.index),
                (move.source, move.target),
                await self._parts.monitor.recent(),
            )
        except NoSuchLedgerError:
            return left
        except SessionLostError:
            raise
        except RhumblineError as error:
            return replace(left, failed_moves=left.failed_moves + 1, last_error=str(error)[:500])
        finally:
            if not self._session.is_lost:
                await tasks.unlock(move.ledger_id)
        return replace(
            left, moved_copies=left.moved_copies + 1, moved_bytes=left.moved_bytes + move.bytes
        )
