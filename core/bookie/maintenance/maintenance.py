"""The maintenance task: index files, compaction, garbage collection, limbo recovery.

One task runs one kind of work at a time, so none of them needs to handle another. Work that fails
because the disk or the metadata store is unavailable is retried in the next round.

Garbage goes first in each round, because removing it needs no space. Work that finds no space gets
the maintenance reserve (rule BKE-29). While space is short, garbage is collected more often, and
whatever contains garbage is compacted (rule BKE-30).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import compress
from typing import Any, NamedTuple

from ...protocol.errors import DiskFullError, MetadataError, RhumblineError
from ...runtime.event_log import EventLog, LogLimit
from ...runtime.primitives.wakeup import Wakeup
from ..config import BookieConfig
from ..free_space import FreeSpaceMonitor
from ..log.sorted_file import SortedFile
from ..start.startup import read_ledger_bytes
from ..storage import Storage
from .compactor import Compactor
from .disk_reserve import DiskReserve
from .duty_cycle import DutyCycle, do_nothing
from .garbage_collector import GarbageCollector
from .garbage_files import GarbageFiles
from .garbage_logs import LIVE_PERCENT_WHEN_SHORT, GarbageLogs
from .limbo_recovery import LimboRecovery
from .metadata_copies import MetadataCopies
from .space_recovery import SpaceRecovery, SpaceState
from .surplus_copies import SurplusCopies

_LOG = EventLog(__name__)

_IDLE_S = 0.1
_SHARE_WHEN_IDLE = 0.5
_URGENT_BACKLOGS = 4
"""At so many times ``compaction_backlog_logs``, compaction no longer yields to commits."""
_LEDGERS_PER_STEP = 10_000
_REMOVE_GARBAGE = "remove garbage files"
_COLLECTIONS_WHEN_SHORT = 10
"""Garbage collections in the time of one, while space is short."""


class CollectorOfStore(NamedTuple):
    """A garbage collector, and the function that reads the instance id of its metadata store."""

    collector: GarbageCollector
    read_instance_id: Callable[[], Awaitable[str]]


class Maintenance:
    """Runs all maintenance work in rounds: ``run`` for a serving bookie, ``step`` for tests."""

    def __init__(
        self,
        storage: Storage,
        space: FreeSpaceMonitor,
        collectors: Sequence[CollectorOfStore],
        limbo: LimboRecovery,
        surplus: SurplusCopies,
        copies: MetadataCopies,
        config: BookieConfig,
        instance_id: str,
    ) -> None:
        """``instance_id`` is that of the storage."""
        self._storage = storage
        self._space = space
        self.reserve = DiskReserve(storage.files.disk, space)
        self.recovery = SpaceRecovery(storage.bookie, asyncio.get_running_loop().time)
        self.collectors = collectors
        """The garbage collectors, one for each metadata store."""
        self._limbo = limbo
        self.surplus = surplus
        self.copies = copies
        self._config = config
        self._expected_instance = instance_id
        self._wakeup = Wakeup()
        self._step_lock = asyncio.Lock()
        self._collected_s: float | None = None
        self._copied_s = asyncio.get_running_loop().time()
        self._damaged: set[int] = set()
        self._retired_files: dict[int, None] = {}
        self.compactor = Compactor(storage, DutyCycle(self._share, self._write_indexes))
        self._indexing = DutyCycle(lambda: _SHARE_WHEN_IDLE)
        self._garbage_logs = GarbageLogs(storage, self._indexing.pause)
        self.garbage_files = GarbageFiles(storage, self.compactor, self._indexing.pause)
        self._has_collected = False
        """True if a garbage collection has succeeded since space is short."""
        self._was_short = False
        self._without_space: dict[str, tuple[int, int]] = {}
        """Deletions, and free bytes beyond the reserve, when work did not fit, by its name."""
        self._seen_bytes = 0
        self._busy_until_s = 0.0
        self.failed_count = 0
        self._log_limit = LogLimit()
        self.last_failure: RhumblineError | None = None
        storage.on_maintenance_due = self._wakeup.wake
        storage.on_space_needed = self._lend_to_log

    async def run(self) -> None:
        """Runs rounds until cancelled."""
        await self._attempt("reserve space", do_nothing)
        while True:
            await self._wakeup.wait(self._config.maintenance_ms / 1000)
            await self.step()

    def space_changed(self) -> None:
        """Begins a round at once if space has become short."""
        if self.is_short and not self._was_short:
            self._has_collected = False
            self._collected_s = None
            self._wakeup.wake()
        self._was_short = self.is_short

    @property
    def is_short(self) -> bool:
        """True if there is no space for plain adds."""
        return not self._space.has_room

    def statistics(self) -> dict[str, Any]:
        """Return the counters and gauges by name."""
        recovery = self.recovery
        return {
            "maintenance_reserve_missing_bytes": self.reserve.missing_bytes,
            "maintenance_obstacles": len(recovery.obstacles),
            "maintenance_failures": self.failed_count,
            "space": recovery.state.name.lower(),
            "space_short": self.is_short,
            "space_blocked": recovery.state is SpaceState.BLOCKED,
            "space_exhausted": recovery.state is SpaceState.EXHAUSTED,
            "space_obstacles": [f"{work}: {why}" for work, why in recovery.obstacles.items()],
            "garbage_files_removed": self.garbage_files.removed_count,
            "sorted_bytes": self.compactor.written_bytes,
            "deleted_ledgers": sum(c.deleted_count for c, _ in self.collectors),
            "ledgers_held_back": sum(c.held_back_count for c, _ in self.collectors),
            "ledgers_returned": self.surplus.counts.returned,
            "ledgers_surplus": self.surplus.counts.waiting,
        }

    async def step(self) -> None:
        """Runs one round of all work that is due."""
        async with self._step_lock:
            await self._step()

    async def _step(self) -> None:
        removed = self.compactor.removed_count
        self._indexing.begin()
        for name, work in (
            ("collect garbage", self._collect),
            (_REMOVE_GARBAGE, self._remove_garbage_files),
            ("write indexes", self._write_indexes),
            ("end limbo", self._limbo.step),
            ("copy metadata", self._copy_metadata),
            ("compact logs", self._compact_logs),
            ("compact sorted files", self._compact_sorted_files),
            ("seal the log", self._seal_garbage),
        ):
            await self._attempt(name, work)
        await self._end_round(self.compactor.removed_count > removed)

    async def _attempt(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Does one kind of work, in the reserve if there is no other space for it.

        Work that did not fit is not repeated before there is more garbage or more space.
        """
        if self._lacks_space(name):
            return
        self._without_space.pop(name, None)
        try:
            while True:
                try:
                    await work()
                    break
                except DiskFullError:
                    if not await self.reserve.lend(for_records=name == _REMOVE_GARBAGE):
                        raise
            await self.reserve.fill()
        except (RhumblineError, MetadataError) as error:
            self.failed_count += 1
            self.last_failure = error
            self.recovery.obstacles[name] = str(error)
            self._log_failure(name, error)
            if isinstance(error, DiskFullError):
                await self._note_no_space(name)
        else:
            self.recovery.obstacles.pop(name, None)

    async def _note_no_space(self, name: str) -> None:
        """Records that work did not fit, after the reserve was filled as far as possible."""
        try:
            await self.reserve.fill()
            await self._space.check()
        except RhumblineError as error:
            self._log_failure(name, error)
            return
        deleted = self._storage.states.deletion_count
        self._without_space[name] = deleted, self._space.free_bytes - self.reserve.missing_bytes

    def _lacks_space(self, name: str) -> bool:
        deleted, spare = self._without_space.get(name, (-1, 0))
        found = self._space.free_bytes - self.reserve.missing_bytes
        return deleted == self._storage.states.deletion_count and found <= spare

    async def _lend_to_log(self) -> bool:
        """Lends space for state records, which the next round reserves anew."""
        is_lent = await self.reserve.lend(for_records=True)
        if is_lent:
            self._wakeup.wake()
        return is_lent

    async def _end_round(self, has_removed: bool) -> None:
        """Checks the space again if files were removed, and records what the round found out."""
        space, obstacles = self._space, self.recovery.obstacles
        if has_removed:
            await self._attempt("check the free space", space.check)
        damaged = sorted(self._damaged.intersection(self._storage.data_files))
        if damaged:
            numbers = ", ".join(map(str, damaged))
            obstacles["damaged files"] = f"files {numbers} wait for their repair by the scrubber"
        else:
            obstacles.pop("damaged files", None)
        held_back = sum(collector.held_back_count for collector, _ in self.collectors)
        held_back += self.surplus.counts.waiting
        has_work = has_removed or held_back > 0 or not self._has_collected
        self.recovery.end_round(
            is_short=self.is_short, has_work=has_work, free_bytes=space.free_bytes
        )
        if self.is_short and has_removed:
            self._wakeup.wake()

    async def _remove_garbage_files(self) -> None:
        await self.garbage_files.remove(self._damaged)

    def _log_failure(self, work: str, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time(), work)
        if dropped is not None:
            bookie = self._storage.bookie
            _LOG.warning(
                "maintenance failed", bookie=bookie, work=work, error=error, dropped=dropped or None
            )

    async def _write_indexes(self) -> None:
        """Writes the index files of newly sealed logs, and rebuilds damaged ones."""
        storage = self._storage
        self._indexing.begin()
        if storage.index.sealed_tiers:
            await storage.write_indexes(self._indexing.pause)
        if storage.damaged_indexes:
            await storage.rebuild_indexes(self._indexing.pause)

    async def _collect(self) -> None:
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        pause_s = self._config.collect_ms / 1000
        if self.is_short:
            pause_s /= _COLLECTIONS_WHEN_SHORT
        due_s = (self._collected_s or 0) + pause_s
        if self._collected_s is not None and now_s < due_s:
            return
        self._collected_s = now_s
        failure: RhumblineError | None = None
        for collector, read_instance_id in self.collectors:
            try:
                began_s = loop.time()
                report = await collector.collect(await read_instance_id(), self._expected_instance)
                if report.missing:
                    _LOG.info(
                        "garbage collected",
                        bookie=self._storage.bookie,
                        ledgers=report.deleted,
                        held_back=report.held_back,
                        duration_ms=round(1000 * (loop.time() - began_s)),
                    )
            except RhumblineError as error:
                failure = failure or error  # the other store may be available
        if failure is not None:
            self._collected_s = None if self.is_short else now_s
            raise failure
        self._has_collected = self.is_short
        await self.surplus.step(is_unlimited=self.is_short)

    async def _copy_metadata(self) -> None:
        now_s = asyncio.get_running_loop().time()
        if now_s - self._copied_s >= self._config.metadata_copies_ms / 1000:
            self._copied_s = now_s
            await self.copies.refresh()

    @property
    def _backlog(self) -> int:
        """Number of sealed logs that wait for compaction.

        While space is short, these are the logs with garbage and those before them: rewriting a log
        without garbage frees nothing, and may need the reserve.
        """
        if self.is_short:
            return self._garbage_logs.count
        return len(self._storage.sealed_logs) - self._config.sealed_logs_kept

    def _share(self) -> float:
        """Return the share of the time that compaction may take.

        The share is a half while there are no adds. Otherwise it grows with the backlog, and is
        smaller while commits are late (rule BKE-34), unless space is short. A backlog that grows
        all the same raises it again: in the long run compaction keeps up with the adds, and after
        a burst client requests come first.
        """
        now_s = asyncio.get_running_loop().time()
        written = self._storage.log.written_bytes
        if written != self._seen_bytes:
            self._seen_bytes = written
            self._busy_until_s = now_s + _IDLE_S
        if now_s >= self._busy_until_s:
            return _SHARE_WHEN_IDLE
        wanted = self._backlog_share(1)
        if self.is_short:
            return wanted
        pace = self._storage.log.pace
        pace.note_work(now_s)
        return min(wanted, max(pace.share(now_s), self._backlog_share(_URGENT_BACKLOGS) ** 2))

    def _backlog_share(self, backlogs: int) -> float:
        """Return the share that becomes 1 with ``backlogs`` times as many logs as configured."""
        logs_max = backlogs * max(1, self._config.compaction_backlog_logs)
        return min(1.0, max(1, self._backlog) / logs_max)

    async def _compact_logs(self) -> None:
        """Compacts waiting logs, oldest first, until the round's time is over."""
        storage = self._storage
        loop = asyncio.get_running_loop()
        if self.is_short:
            await self._garbage_logs.count_again()
        end_s = loop.time() + self._config.maintenance_ms / 1000
        while self._backlog > 0:
            if loop.time() > end_s:
                self._wakeup.wake()
                return
            number = storage.sealed_logs[0]
            if number in self._damaged or number in storage.index.sealed_tiers:
                return
            if not await self.compactor.compact_log(number):
                self._damaged.add(number)  # skipped until the scrubber has repaired it
                return
            self._garbage_logs.oldest_removed()

    async def _compact_sorted_files(self) -> None:
        """Rewrites a repaired sorted file, or else the one with the most garbage."""
        storage = self._storage
        percent = self._config.compact_below_percent
        if self.is_short:
            percent = max(percent, LIVE_PERCENT_WHEN_SHORT)
        worst, worst_share = self._next_retired_file(), percent / 100
        for number, known in list(storage.sorted.items()) if worst is None else ():
            await self._count_live_bytes(known)
            total = known.entry_bytes
            share = known.live_bytes / total if total else 0.0
            if share < worst_share and number not in self._damaged:
                worst, worst_share = number, share
        if worst is not None and not await self.compactor.compact_sorted_file(worst):
            self._damaged.add(worst)

    async def _seal_garbage(self) -> None:
        """Seals the current log while space is short, if most of it is garbage."""
        storage = self._storage
        end = storage.log.current.end
        if not self.is_short or end <= storage.log.sealable_bytes:
            return
        recent = storage.index.recent
        live_bytes = await self._garbage_logs.live_bytes_in(recent.columns())
        if recent is storage.index.recent and live_bytes * 2 < end:
            storage.log.roll_next()
            await storage.write_manifest()

    async def _count_live_bytes(self, known: SortedFile) -> None:
        """Counts a file's live bytes again if a ledger was deleted since they were counted.

        The bytes of each ledger are read from the file, because in memory they would take 16 bytes
        for each ledger in each file. A file whose head cannot be read keeps the previous count: the
        scrubber reports it.
        """
        states, data_file = self._storage.states, self._storage.data_files.get(known.number)
        if known.counted_at == states.deletion_count or data_file is None:
            return
        count = states.deletion_count
        found = await read_ledger_bytes(self._storage.files, known.number, data_file.generation)
        known.counted_at = count
        if found is None:
            return
        self._indexing.begin()
        live_bytes = 0
        for start in range(0, len(found.ledgers), _LEDGERS_PER_STEP):
            step = slice(start, start + _LEDGERS_PER_STEP)
            is_live = map(states.ledgers.__contains__, found.ledgers[step])
            live_bytes += sum(compress(found.sizes[step], is_live))
            await self._indexing.pause()
        known.live_bytes = live_bytes

    def _next_retired_file(self) -> int | None:
        """Return the next damaged file to rewrite: its good entries move to a new file."""
        while self._retired_files:
            number = next(iter(self._retired_files))
            del self._retired_files[number]
            if number in self._storage.sorted:
                return number
        return None

    def retire_files(self, numbers: list[int]) -> None:
        """Schedules the rewriting of damaged files whose entries the scrubber has repaired."""
        self._damaged.clear()
        self._retired_files.update(dict.fromkeys(numbers))
        self._wakeup.wake()
