"""Repair in one process: a candidate for the auditor's role, and repairs (rule RPR-14).

Any number of processes may run it: one of them audits and runs retention, all of them repair. If a
process ends, the others take over its role and its tasks.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from ...core.ledger.client import LedgerClient
from ...core.log.metadata.ledger_policies import LedgerPolicies
from ...core.log.namespace import Namespace
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import NoSuchLedgerError, RhumblineError, SessionLostError
from ...core.protocol.ledger_metadata import LedgerState
from ...core.protocol.placement import PlacementPolicy
from ...core.runtime.event_log import EventLog, LogLimit
from ...core.runtime.metadata_store import MetadataStore, Session
from ...core.runtime.primitives.backoff import Backoff
from ...core.runtime.primitives.wakeup import Wakeup
from ...core.runtime.runtime import Runtime
from ...core.runtime.tasks import Tasks
from ..durability.monitor import DurabilityMonitor
from ..ownerless.ownerless_ledgers import OwnerlessLedgers, Takeover
from ..rebalance.order_store import OrderStore
from ..rebalance.round import RebalanceParts
from ..rebalance.runner import RebalanceRunner
from ..steered_directory import SteeredDirectory
from ..subscriptions.lag_runner import SubscriptionLags
from ..usage.stored_bytes import publish
from .auditor import Auditor
from .config import RepairConfig
from .errors import NoCopyError, RepairStuckError, WaitingForWriterError
from .ledger_repairer import LedgerRepairer
from .liveness import LivenessMonitor
from .orphan_ledgers import OrphanLedgers
from .retention_runner import RetentionRunner
from .task_store import TaskStore

_LOG = EventLog(__name__)

_SETTLE_S = 1.0
"""Delay of an audit after a bookie registered or disappeared, because others may follow."""

_STAGGER_S = 1.0
"""Maximum delay of a listing of tasks after they changed. Each process draws another one, so that
they do not all try to lock the same new task, and several new tasks are listed together."""


@dataclass(slots=True)
class _Retry:
    """The next attempt of a ledger whose repair is stuck."""

    backoff: Backoff
    due: float = 0.0


class RepairService:
    """The repair of one process. Call ``start`` once, and ``aclose`` in the end."""

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        client: LedgerClient,
        directory: SteeredDirectory,
        placement: PlacementPolicy,
        config: RepairConfig | None = None,
        *,
        open_namespace: Callable[[str], Namespace] | None = None,
        on_takeover: Callable[[Takeover], None] = lambda _: None,
        lags: SubscriptionLags | None = None,
        publishes_stored_bytes: bool = False,
    ) -> None:
        """``open_namespace`` opens namespaces for retention and for takeovers of streams.

        By default they have no archives. ``on_takeover`` receives each decision to take a stream
        over from a writer that is gone. ``lags`` is measured by the auditing process.
        With ``publishes_stored_bytes`` it tells proxies what namespaces store, for quotas.
        """
        self.config = config or RepairConfig()
        self.tasks = TaskStore(store)
        self.is_auditor = False
        self.is_working = False
        """True if the service has a session in the metadata store, so that it may audit and
        repair."""
        self.last_error = ""
        self._log_limit = LogLimit()
        self._backoff = Backoff(runtime.random, self.config.retry_ms_min, self.config.retry_ms_min)
        self._runtime = runtime
        self._store = store
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._ledgers = LedgerStore(store)
        self._liveness_monitor = LivenessMonitor(directory, self.config.lost_after_ms)
        self._orphans = OrphanLedgers(store, client)
        self._durability = DurabilityMonitor(
            directory,
            interval_ms=self.config.durability_interval_ms,
            stale_after_ms=max(
                self.config.durability_stale_after_ms, 2 * self.config.audit_interval_ms
            ),
        )
        self._auditor = Auditor(
            runtime,
            client,
            self._ledgers,
            directory,
            self.tasks,
            self._orphans,
            LedgerPolicies(store),
            self._durability,
            config=self.config,
        )
        open_namespace = open_namespace or (lambda name: Namespace(runtime, store, client, name))
        self._ownerless = OwnerlessLedgers(
            runtime,
            store,
            client,
            directory,
            open_namespace,
            self.config.ownerless_grace_ms,
            on_takeover,
        )
        self._repairer = LedgerRepairer(
            runtime, client, store, directory, placement, config=self.config
        )
        self._rebalance = RebalanceRunner(
            RebalanceParts(
                runtime,
                store,
                client,
                directory,
                placement,
                self._liveness_monitor,
                self.tasks,
                OrderStore(store),
                self.config,
            )
        )
        self._lags = lags
        self._publishes_stored_bytes = publishes_stored_bytes
        self._retention = RetentionRunner(store, open_namespace, self.config)
        self._own = Tasks()
        self._audit_wakeup = Wakeup()
        self._work_wakeup = Wakeup()
        self._hurry = Wakeup()  # ends the delay of at most ``_STAGGER_S``
        self._busy: dict[int, None] = {}
        self._own_locks: dict[int, None] = {}  # ledgers whose lock this process may hold
        self._retries: dict[int, _Retry] = {}

    def start(self) -> None:
        """Start the service. Call this once."""
        self._own.spawn(self._run(), "repair")

    async def aclose(self) -> None:
        """Stop. Unfinished copies are made again by the next worker. Safe to repeat."""
        await self._own.aclose()

    def statistics(self) -> dict[str, Any]:
        """Return counters for metrics."""
        counts = self._auditor.counts
        entries_at_risk, streams_at_risk = self._durability.region_losses()
        return {
            "auditor": self.is_auditor,
            "working": self.is_working,
            "audits": counts.audits,
            "ledgers": counts.ledgers,
            "under_replicated": counts.tasks_added,
            "lists_compared": counts.lists_compared,
            "region_violations": counts.region_violations,
            "unreadable_ledgers": counts.unreadable,
            "unreferenced_removed": self._orphans.removed_count,
            "ownerless_ended": self._ownerless.ended_count,
            "fragile_fragments": counts.fragile,
            "entries_at_risk": entries_at_risk,
            "streams_at_risk": streams_at_risk,
            "durability": self._durability.statistics(),
            "writable_bookies": (
                self._liveness_monitor.writable_by_region if self.is_auditor else {}
            ),
            "repaired": asdict(self._repairer.counts),
            "rebalance": self._rebalance.statistics(),
            "retention": self._retention.statistics(),
            "subscriptions": {} if self._lags is None else self._lags.statistics(),
            "stuck": len(self._retries),
            "last_error": self.last_error,
        }

    # --- sessions -------------------------------------------------------------------------------

    async def _run(self) -> None:
        """Work with one session after another; losing a session ends the role and the locks."""
        while True:
            try:
                session = await self._store.session(self.config.session_ttl_ms)
            except RhumblineError as error:
                await self._pause(error)
                continue
            session_tasks = Tasks(on_failure=self._on_bug)
            lost = Wakeup()
            session.on_lost(lost.wake)
            owner = f"repair-{self._runtime.random_bytes(8).hex()}"
            try:
                session_tasks.spawn(self._audit(session, owner), "audit")
                session_tasks.spawn(
                    self._durability.run(lambda: self.is_auditor, self._given_up), "durability"
                )
                session_tasks.spawn(
                    self._rebalance.run(session, owner, lambda: self.is_auditor), "rebalance"
                )
                session_tasks.spawn(self._retention.run(lambda: self.is_auditor), "retention")
                if self._lags is not None:
                    session_tasks.spawn(self._lags.run(lambda: self.is_auditor), "lags")
                session_tasks.spawn(self._work(session, owner), "repair ledgers")
                self.is_working = True
                while not session.is_lost:
                    await lost.wait(self.config.session_ttl_ms / 1000)
            finally:
                if session.is_lost:
                    _LOG.warning("repair session lost", owner=owner)
                self._set_auditor(False, owner)
                self.is_working = False
                try:
                    await session_tasks.aclose()
                finally:
                    with suppress(RhumblineError):
                        await session.close()

    def _on_bug(self, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": "repair failed", "exception": error})

    async def _pause(self, error: RhumblineError) -> None:
        self.last_error = f"{type(error).__name__}: {error}"
        dropped = self._log_limit.admit(self._loop.time())
        if dropped is not None:
            _LOG.warning("repair interrupted", error=error, dropped=dropped or None)
        await self._backoff.pause()

    # --- auditing -------------------------------------------------------------------------------

    def _set_auditor(self, is_auditor: bool, owner: str) -> None:
        if is_auditor and not self.is_auditor:
            _LOG.info("auditor elected", owner=owner)
        elif self.is_auditor and not is_auditor:
            _LOG.info("auditor role ended", owner=owner)
            self._durability.forget()
        self.is_auditor = is_auditor

    async def _given_up(self) -> Mapping[BookieId, None]:
        """Return the bookies that count as lost now (rule RPR-4)."""
        return (await self._liveness_monitor.snapshot()).lost

    async def _audit(self, session: Session, owner: str) -> None:
        watches = [
            self._directory.watch(self._audit_wakeup.wake),
            self._directory.states.watch(self._retry_now),
            self.tasks.watch_auditor(self._audit_wakeup.wake),
        ]
        try:
            while not session.is_lost:
                try:
                    self._set_auditor(await self.tasks.try_elect(session, owner), owner)
                    if self.is_auditor:
                        await self._auditor.audit(self._liveness_monitor)
                        if self._publishes_stored_bytes:
                            await publish(self._store, self._auditor.stored_bytes)
                        await self._ownerless.withdraw_done()
                        self.last_error = self._auditor.counts.last_unreadable or self.last_error
                    else:  # its repairs must know since when each bookie is absent
                        await self._liveness_monitor.snapshot()
                except SessionLostError:
                    return
                except RhumblineError as error:
                    await self._pause(error)
                    continue
                left_s = self._liveness_monitor.next_loss_s() if self.is_auditor else None
                pause_s = self.config.audit_interval_ms / 1000
                if await self._audit_wakeup.wait(min(pause_s, left_s or pause_s) + 0.001):
                    await asyncio.sleep(_SETTLE_S)
        finally:
            for watch in watches:
                watch.close()

    def _retry_now(self) -> None:
        """Audit, and retry ledgers that are stuck: they may wait for what an operator did."""
        self._audit_wakeup.wake()
        for retry in self._retries.values():
            retry.due = 0.0
        self._hurry.wake()
        self._work_wakeup.wake()

    # --- repairing ------------------------------------------------------------------------------

    async def _work(self, session: Session, owner: str) -> None:
        """Repair ledgers, at most ``worker_count`` at a time. A long repair delays no other one."""
        free = asyncio.Semaphore(self.config.worker_count)
        repairs = Tasks(on_failure=self._on_bug)
        watch = self.tasks.watch(self._work_wakeup.wake)

        async def repair(ledger_id: int) -> None:
            try:
                await self._repair_if_free(session, ledger_id, owner)
            finally:
                del self._busy[ledger_id]
                free.release()

        async def begin(ledger_id: int) -> None:
            await free.acquire()
            self._busy[ledger_id] = None
            repairs.spawn(repair(ledger_id), f"repair ledger {ledger_id}")

        try:
            while not session.is_lost:
                try:
                    await self._for_each_due(begin)
                except RhumblineError as error:
                    await self._pause(error)
                    continue
                if await self._work_wakeup.wait(self._next_retry_s()):
                    await self._hurry.wait(self._runtime.random.uniform(0.0, _STAGGER_S))
        finally:
            watch.close()
            await repairs.aclose()

    def _next_retry_s(self) -> float:
        now = self._loop.time()
        pause_s = self.config.audit_interval_ms / 1000
        due = min((retry.due for retry in self._retries.values()), default=now + pause_s)
        return min(max(due - now, self.config.retry_ms_min / 1000), pause_s)

    async def _for_each_due(self, begin: Callable[[int], Awaitable[None]]) -> None:
        """Begin with each ledger that has a task, unless it is in work or to be tried later.

        Other processes go through the same tasks. So a few ledgers are chosen at random, and then
        the tasks are listed again.
        """
        missing = dict.fromkeys(self._retries)
        after: int | None = None
        while page := await self.tasks.ids(after):
            for ledger_id in page:
                missing.pop(ledger_id, None)
            locked = dict.fromkeys(await self.tasks.locked_ids(after))
            for ledger_id in self._own_locks:
                locked.pop(ledger_id, None)
            due = [id_ for id_ in page if id_ not in locked and self._is_due(id_)]
            if not due:
                after = page[-1]
            count = min(len(due), self.config.worker_count)
            for ledger_id in self._runtime.random.sample(due, count):
                await begin(ledger_id)
        for ledger_id in missing:
            self._retries.pop(ledger_id, None)  # another process has repaired it

    def _is_due(self, ledger_id: int) -> bool:
        retry = self._retries.get(ledger_id)
        is_postponed = retry is not None and self._loop.time() < retry.due
        return ledger_id not in self._busy and not is_postponed

    async def _repair_if_free(self, session: Session, ledger_id: int, owner: str) -> None:
        """Repair a ledger, unless another process does or has done so since the listing."""
        try:
            if await self._try_lock(session, ledger_id, owner):
                await self._repair(session, ledger_id)
        except SessionLostError:
            return  # ``_run`` begins again with a new session
        except RhumblineError as error:
            await self._pause(error)
            self._work_wakeup.wake()

    async def _try_lock(self, session: Session, ledger_id: int, owner: str) -> bool:
        """Lock a ledger; False if another process repairs it, or has done so since the listing."""
        self._own_locks[ledger_id] = None
        if not await self.tasks.try_lock(session, ledger_id, owner):
            del self._own_locks[ledger_id]
            return False
        if await self.tasks.get(ledger_id) is not None:
            return True
        await self._unlock(ledger_id)
        return False

    async def _unlock(self, ledger_id: int) -> None:
        """Release a lock. If that is not possible now, the next attempt of this process may."""
        with suppress(RhumblineError):
            await self.tasks.unlock(ledger_id)
            del self._own_locks[ledger_id]

    async def _repair(self, session: Session, ledger_id: int) -> None:
        """Repair a ledger, which this session has locked."""
        if ledger_id not in self._retries:
            _LOG.info("repair began", ledger=ledger_id)
        is_locked = True
        try:
            if await self._try_repair(ledger_id):
                await self._finish(session, ledger_id)
                is_locked = False
        finally:
            if is_locked and not session.is_lost and not self._own.is_closed:
                await self._unlock(ledger_id)

    async def _try_repair(self, ledger_id: int) -> bool:
        """Return whether nothing is left to repair. If the ledger is stuck, the others continue."""
        try:
            await self._repair_ledger(ledger_id)
        except NoSuchLedgerError:
            return True
        except SessionLostError:
            raise
        except RhumblineError as error:
            await self._postpone(ledger_id, error)
            return False
        return True

    async def _repair_ledger(self, ledger_id: int) -> None:
        """End the ledger if it must end, and repair what is settled in any case."""
        liveness = await self._liveness_monitor.recent()
        metadata, version = await self._ledgers.read(ledger_id)
        self._liveness_monitor.note_members(metadata.bookies(), liveness)
        waiting: RepairStuckError | None = None
        if metadata.state is LedgerState.OPEN:
            try:
                await self._ownerless.end_leaving(metadata, version, liveness)
            except RepairStuckError as error:
                waiting = error
            metadata, version = await self._ledgers.read(ledger_id)
        await self._repairer.repair(metadata, version, liveness)
        if waiting is not None:
            raise waiting
        self._repairer.counts.ledgers += 1

    async def _finish(self, session: Session, ledger_id: int) -> None:
        self._retries.pop(ledger_id, None)
        if session.is_lost:
            await self.tasks.remove(ledger_id)  # the lock may be another's by now
        else:
            await self.tasks.finish(ledger_id)
        del self._own_locks[ledger_id]
        _LOG.info("repair done", ledger=ledger_id)

    async def _postpone(self, ledger_id: int, error: RhumblineError) -> None:
        retry = self._retries.get(ledger_id)
        if retry is None:
            config = self.config
            backoff = Backoff(self._runtime.random, config.retry_ms_min, config.retry_ms_max)
            retry = self._retries[ledger_id] = _Retry(backoff)
            _LOG.warning("repair stuck", ledger=ledger_id, error=error)
        pause_s = retry.backoff.next_s()
        if isinstance(error, WaitingForWriterError):
            pause_s = min(pause_s, error.left_ms / 1000)
        retry.due = self._loop.time() + pause_s
        await self.tasks.mark_stuck(
            ledger_id, str(error), is_hopeless=isinstance(error, NoCopyError)
        )
