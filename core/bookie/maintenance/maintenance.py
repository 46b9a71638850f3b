"""What a bookie does beside serving: checkpoints, sorting, garbage collection, leaving limbo.

One task does one thing at a time, so none of them has to mind another. A step that fails because
the disk or the metadata store is not usable now is tried again at the next turn.
"""

import asyncio
from collections.abc import Awaitable, Callable

from ...protocol.errors import MetadataError, RhumblineError
from ..config import BookieConfig
from ..storage import Storage
from .compactor import Compactor
from .duty_cycle import DutyCycle
from .garbage_collector import GarbageCollector
from .limbo_recovery import LimboRecovery

_QUIET_S = 0.1
_SHARE_WHEN_QUIET = 0.5


class Maintenance:
    """The steps in turn; ``run`` for the life of a bookie, ``step`` for tests."""

    def __init__(
        self,
        storage: Storage,
        collector: GarbageCollector,
        limbo: LimboRecovery,
        config: BookieConfig,
        instance_ids: tuple[Callable[[], Awaitable[str]], str],
    ) -> None:
        self._storage = storage
        self._collector = collector
        self._limbo = limbo
        self._config = config
        self._ask_instance, self._expected_instance = instance_ids
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._collected_s: float | None = None
        self._damaged: set[int] = set()
        self._worn: dict[int, None] = {}
        self.sorter = Compactor(storage, DutyCycle(self._share, self._checkpoint))
        self._seen_bytes = 0
        self._busy_until_s = 0.0
        self.failed_count = 0
        self.last_failure: RhumblineError | None = None
        self.may_delete_many = False
        """Set by an operator; the next collection has no limit, and resets it."""
        storage.on_tasks_due = self._wake.set

    async def run(self) -> None:
        """Turns until cancelled."""
        while True:
            try:
                async with asyncio.timeout(self._config.maintenance_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass  # a turn is due anyway
            self._wake.clear()
            await self.step()

    async def step(self) -> None:
        """One turn of everything that is due."""
        async with self._turn:
            await self._step()

    async def _step(self) -> None:
        for work in (self._checkpoint, self._limbo.step, self._collect, self._sort, self._compact):
            try:
                await work()
            except (RhumblineError, MetadataError) as error:
                self.failed_count += 1
                self.last_failure = error

    async def _checkpoint(self) -> None:
        storage = self._storage
        sealed = storage.sealed_logs
        is_behind = bool(sealed) and storage.index.store.covered_log <= sealed[-1]
        if is_behind or storage.index.recent.row_count >= self._config.index_rows_max:
            await storage.checkpoint()

    async def _collect(self) -> None:
        now_s = asyncio.get_running_loop().time()
        due_s = (self._collected_s or 0) + self._config.collect_ms / 1000
        if self._collected_s is not None and now_s < due_s and not self.may_delete_many:
            return
        self._collected_s = now_s
        is_unlimited, self.may_delete_many = self.may_delete_many, False
        await self._collector.collect(
            await self._ask_instance(), self._expected_instance, is_unlimited=is_unlimited
        )

    @property
    def _backlog(self) -> int:
        """Sealed logs beyond those that are kept as they are."""
        return len(self._storage.sealed_logs) - self._config.sealed_logs_kept

    def _share(self) -> float:
        """How much of the time rewriting may take.

        Half while nobody adds. Otherwise a part that grows with the backlog: in the long run as
        much is sorted as is added, and after a burst clients come first.
        """
        now_s = asyncio.get_running_loop().time()
        written = self._storage.log.written_bytes
        if written != self._seen_bytes:
            self._seen_bytes = written
            self._busy_until_s = now_s + _QUIET_S
        if now_s >= self._busy_until_s:
            return _SHARE_WHEN_QUIET
        return min(1.0, max(1, self._backlog) / max(1, self._config.sort_backlog_logs))

    async def _sort(self) -> None:
        """Oldest log first; what else is due has its turn when a turn's time is over."""
        storage = self._storage
        loop = asyncio.get_running_loop()
        end_s = loop.time() + self._config.maintenance_ms / 1000
        while self._backlog > 0:
            if loop.time() > end_s:
                self._wake.set()
                return
            number = storage.sealed_logs[0]
            if number in self._damaged or number >= storage.index.store.covered_log:
                return
            if not await self.sorter.sort_log(number):
                self._damaged.add(number)  # stays until scrub has repaired it
                return

    async def _compact(self) -> None:
        """A damaged sorted file, or the one with most garbage, if that is worth the copying."""
        storage = self._storage
        live = storage.states.ledgers
        worst, worst_share = self._next_worn(), self._config.compact_below_percent / 100
        for number, known in storage.sorted.items() if worst is None else ():
            total = known.entry_bytes
            share = known.live_bytes(live) / total if total else 0.0
            if share < worst_share and number not in self._damaged:
                worst, worst_share = number, share
        if worst is not None and not await self.sorter.compact(worst):
            self._damaged.add(worst)

    def _next_worn(self) -> int | None:
        """A damaged file that is no longer needed, or hardly: what is good in it moves out."""
        while self._worn:
            number = next(iter(self._worn))
            del self._worn[number]
            if number in self._storage.sorted:
                return number
        return None

    def repaired(self, numbers: list[int]) -> None:
        """Scrub has found damage in these files, and repaired what it could: they may go now."""
        self._damaged.clear()
        self._worn.update(dict.fromkeys(numbers))
        self._wake.set()
