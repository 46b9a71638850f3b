"""Keeps the Iceberg tables of a namespace equal to its archives, in a task of its own.

Any number of processes may do this for one namespace: a table changes by compare-and-set, and one
that another process has changed is read again. Archiving never waits for tables. After a failure
the next pass continues where the table says that it is (rules ARC-40 to ARC-43).
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from ...core.protocol.errors import CorruptionError, RhumblineError
from ...core.runtime.clock import Clock
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.event_log import EventLog, LogLimit
from ..archive.archive_folder import ArchiveFolder, MergedName, TipName, parse_chain_key
from ..archive.catalog import read_manifest
from ..archive.manifest import Manifest
from ..archive.relocation import Relocations
from ..proof.chain_tip import lost_tip_error
from ..proof.erasure_chain import stored_relocations
from .iceberg_tables import IcebergTables
from .part_footers import part_footers
from .registration import Remove, Replace, Step, TableState, next_step, waiting_segments

_LOG = EventLog(__name__)

STEPS_PER_PASS_MAX = 100
"""Maximum number of commits to one table in a pass, so that no table keeps others waiting."""


@dataclass(slots=True)
class TablePass:
    """The result of one pass over the archives of a namespace."""

    registered: int = 0
    """Number of segments that were added to tables."""
    removed: int = 0
    """Number of commits that removed segments whose archives were deleted."""
    expired: int = 0
    """Number of snapshots that were removed because they were too old."""
    replaced: int = 0
    """Number of commits that replaced files of segments that were moved."""
    waiting: dict[ArchiveFolder, int] = field(default_factory=dict)
    """Archived segments that a table does not have, by archive; archives without any are absent."""
    faults: dict[ArchiveFolder, str] = field(default_factory=dict)
    """Error message by archive."""


@dataclass(slots=True)
class TableCounts:
    """Counters for metrics, since the start."""

    passes: int = 0
    registered: int = 0
    removed: int = 0
    expired: int = 0
    failures: int = 0
    """Tables for which a pass failed, and passes that failed as a whole."""


class TableRegistrar:
    """Registers the archived segments of one namespace in its tables."""

    def __init__(
        self,
        cold: ColdStore,
        namespace: str,
        tables: IcebergTables,
        clock: Clock,
        *,
        pause_ms: int = 10_000,
        snapshots_kept_ms: int | None = None,
        on_pass: Callable[[TablePass], None] | None = None,
    ) -> None:
        self.counts = TableCounts()
        self._cold = cold
        self._namespace = namespace
        self._tables = tables
        self._clock = clock
        self._pause_s = pause_ms / 1000
        self._snapshots_kept_ms = snapshots_kept_ms
        self._on_pass = on_pass
        self._log_limit = LogLimit()
        self._states: dict[ArchiveFolder, TableState | None] = {}
        self._relocations: dict[ArchiveFolder, list[int]] = {}
        """The numbers of the relocations that the newest listing has."""
        self._last = TablePass()
        self._behind_since_ms: dict[ArchiveFolder, int] = {}

    def statistics(self) -> dict[str, Any]:
        """Return counters for metrics.

        ``behind_ms`` is the time for which the table that is behind longest has lacked an archived
        segment; it also rises while passes fail.
        """
        since = self._behind_since_ms.values()
        behind_ms = max((self._clock.wall_ms() - one for one in since), default=0)
        return {
            **asdict(self.counts),
            "waiting_segments": sum(self._last.waiting.values()),
            "behind_ms": max(0, behind_ms),
        }

    async def run(self) -> None:
        """Run passes until cancelled. Report errors, and continue after the pause."""
        while True:
            try:
                result = await self.run_once()
            except RhumblineError as error:
                self.counts.failures += 1
                self._warn("", str(error))
            else:
                for folder, fault in result.faults.items():
                    self._warn(folder.stream, fault)
                if self._on_pass is not None:
                    self._on_pass(result)
            await asyncio.sleep(self._pause_s)

    async def run_once(self) -> TablePass:
        """Bring every table as close to its archive as one pass may. Safe to repeat.

        Raises the errors of the cold store if listing fails.
        """
        archived = await self.archived()
        result = TablePass()
        for folder in sorted({*archived, *self._states}):
            lssns = archived.get(folder)
            try:
                if lssns is None:
                    raise lost_tip_error(folder)
                await self._follow(folder, lssns, result)
            except RhumblineError as error:
                self._states.pop(folder, None)  # what the table has is read again
                result.faults[folder] = str(error)
                result.waiting.setdefault(folder, len(lssns or ()))
        self._count(result)
        return result

    async def run_until_even(self) -> TablePass:
        """Run passes until one changes nothing, and return their sum with the last one's faults."""
        total = TablePass()
        while True:
            done = await self.run_once()
            total.registered += done.registered
            total.removed += done.removed
            total.expired += done.expired
            total.replaced += done.replaced
            total.waiting, total.faults = done.waiting, done.faults
            if not done.registered and not done.removed and not done.replaced:
                return total

    async def archived(self) -> dict[ArchiveFolder, list[int] | None]:
        """Return the LSSNs of the segments of each archive, ascending, from one listing.

        They include those that the tip of the chain covers, even if their manifests are missing.
        For an archive without a tip, which is damaged, the value is None.
        """
        lssns: dict[ArchiveFolder, set[int]] = defaultdict(set)
        tips: dict[ArchiveFolder, list[TipName]] = defaultdict(list)
        moved: dict[ArchiveFolder, list[int]] = defaultdict(list)
        for key in map(parse_chain_key, await self._cold.list(self._namespace)):
            if key is not None and key.lssn is not None:
                lssns[key.folder].add(key.lssn)
            elif key is not None and key.tip is not None:
                tips[key.folder].append(key.tip)
                moved[key.folder].append(key.tip.erasure)  # 0: none
            elif key is not None and key.relocation is not None:
                moved[key.folder].append(key.relocation)
        self._relocations = moved
        for folder, names in tips.items():
            first = max(name.first_lssn for name in names)
            lssns[folder].update(range(first, max(name.last_lssn for name in names) + 1))
        return {
            folder: sorted(found) if folder in tips else None for folder, found in lssns.items()
        }

    async def _follow(self, folder: ArchiveFolder, archived: list[int], result: TablePass) -> None:
        if folder not in self._states:
            self._states[folder] = await self._tables.state(folder)
        state, is_changed = self._states[folder], False
        for _ in range(STEPS_PER_PASS_MAX):
            waiting = waiting_segments(state, archived)
            if waiting:
                result.waiting[folder] = waiting
            else:
                result.waiting.pop(folder, None)
            relocation = max(self._relocations.get(folder, ()), default=0)
            step = next_step(state, archived, relocation)
            if step is None:
                break
            state = self._states[folder] = await self._take(step, folder, state, result)
            is_changed = True
        if is_changed and self._snapshots_kept_ms is not None:
            before_ms = self._clock.wall_ms() - self._snapshots_kept_ms
            result.expired += await self._tables.expire_snapshots(folder, before_ms)

    async def _take(
        self, step: Step, folder: ArchiveFolder, state: TableState | None, result: TablePass
    ) -> TableState:
        if isinstance(step, Remove):
            assert state is not None
            removal = await self._tables.remove(folder, step.below, state)
            result.removed += removal.was_made
            return removal.state
        numbers = set(self._relocations.get(folder, [])) - {0}
        relocations = await stored_relocations(self._cold, folder, listed=numbers)
        if isinstance(step, Replace):
            assert state is not None
            return await self._replace(folder, relocations, state, result)
        manifests = await self._sharing_a_file(folder, step.lssn, state, relocations)
        change = await self._tables.register(
            manifests, await part_footers(self._cold, manifests), state
        )
        if change.was_made:
            result.registered += sum(1 for one in manifests if one.lssn >= step.lssn)
            _LOG.info(
                "segment registered", namespace=folder.namespace, stream=folder.stream,
                segment=manifests[-1].lssn,
            )  # fmt: skip
        return change.state

    async def _replace(
        self, folder: ArchiveFolder, relocations: Relocations, state: TableState, result: TablePass
    ) -> TableState:
        """Replace the files of moved segments by those that hold their records now."""
        keys: dict[str, Manifest] = {}
        for lssn in range(state.first_lssn, state.last_lssn + 1):
            manifest = await read_manifest(self._cold, folder, lssn)
            if manifest is not None:
                now = relocations.apply(manifest)
                keys.update((now.part_key(part), now) for part in now.parts)
        held = await self._tables.file_keys(folder)
        new = [keys[key] for key in sorted(keys.keys() - held)]
        footers = [one for one in await part_footers(self._cold, new) if one.key not in held]
        change = await self._tables.replace(
            folder, held - keys.keys(), footers, relocations.last_number, state
        )
        result.replaced += change.was_made
        return change.state

    async def _sharing_a_file(
        self, folder: ArchiveFolder, lssn: int, state: TableState | None, relocations: Relocations
    ) -> list[Manifest]:
        """Return the manifests of a segment and of those that share its file, in order."""
        manifest = relocations.apply(await self._manifest(folder, lssn, state))
        name = MergedName.parse(manifest.parts[0].name) if manifest.parts else None
        if name is None:
            return [manifest]
        found: list[Manifest] = []
        for other in range(name.first_lssn, name.last_lssn + 1):
            one = await self._manifest(folder, other, state if other == lssn else None)
            if found and not one.follows(found[-1]):
                raise CorruptionError(f"{one.key} does not follow segment {other - 1}")
            found.append(relocations.apply(one))
        return found

    async def _manifest(
        self, folder: ArchiveFolder, lssn: int, state: TableState | None
    ) -> Manifest:
        manifest = await read_manifest(self._cold, folder, lssn)
        if manifest is None:
            raise CorruptionError(f"{folder.manifest(lssn)}: the manifest is missing")
        is_next = state is not None and state.last_link and state.next_lssn == lssn
        if is_next and state is not None and manifest.previous_link != state.last_link:
            raise CorruptionError(
                f"{manifest.key} does not follow the segment that was registered last: the archive "
                "was exchanged"
            )
        return manifest

    def _count(self, result: TablePass) -> None:
        self._last = result
        now_ms = self._clock.wall_ms()
        since = self._behind_since_ms
        self._behind_since_ms = {one: since.get(one, now_ms) for one in result.waiting}
        self.counts.passes += 1
        self.counts.registered += result.registered
        self.counts.removed += result.removed
        self.counts.expired += result.expired
        self.counts.failures += len(result.faults)

    def _warn(self, stream: str, error: str) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time(), stream)
        if dropped is not None:
            _LOG.warning(
                "registering failed", namespace=self._namespace, stream=stream, error=error,
                dropped=dropped or None,
            )  # fmt: skip
