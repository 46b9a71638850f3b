"""Audits every ledger and makes tasks for those that need repair (rules RPR-3, RPR-5, RPR-6).

An audit reads the metadata of all ledgers and checks whether members are lost or leaving, whether
the region rule holds, whether copies could be spread better, and whether a segment names the
ledger. A ledger that was not yet found complete in its present version, or of which a bookie says
that it lacks copies (rule DSK-5), is also compared with the whole entry lists of its bookies, never
by first and last entry alone.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ...core.ledger.client import LedgerClient
from ...core.log.metadata.ledger_policies import LedgerPolicies
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import CorruptionError, RhumblineError
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.placement import BookieInfo, SpreadRule
from ...core.protocol.quorum import Quorum, QuorumView
from ...core.runtime.event_log import EventLog
from ...core.runtime.metadata_store import Version
from ...core.runtime.primitives.rate_limiter import RateLimiter
from ...core.runtime.runtime import Runtime
from ...core.runtime.tasks import for_each, run_all
from ...core.wire.availability import Availability
from ...placement.ensemble_improvement import indices_to_move
from ...placement.spread.spread_improvement import move_to_spread
from ..durability.monitor import DurabilityMonitor
from ..ledger_scan import AT_ONCE, all_ledgers
from ..steered_directory import SteeredDirectory
from ..usage.stored_bytes import StoredBytes
from .config import RepairConfig
from .entry_ranges import EntryRange, missing_runs, settled_ranges
from .liveness import Liveness, LivenessMonitor, Standing, by_region
from .orphan_ledgers import OrphanLedgers
from .task_store import TaskStore

_LOG = EventLog(__name__)

_VERIFIED_MAX = 2_000_000
"""Maximum number of ledgers remembered as complete; the others are compared in each audit."""

_PAGE = 16 * AT_ONCE
"""Number of ledgers that are read before they are examined, ``AT_ONCE`` of them at a time."""

_Verified = tuple[Version, tuple[BookieId, ...]]


@dataclass(slots=True)
class AuditCounts:
    """Counters for metrics, of the last complete audit unless noted otherwise."""

    audits: int = 0  # since the start
    ledgers: int = 0
    tasks_added: int = 0  # since the start
    lists_compared: int = 0  # since the start
    region_violations: int = 0
    """Fragments that violate their region rule."""
    unreadable: int = 0
    """Ledgers whose metadata is damaged: they can be neither audited nor repaired."""
    last_unreadable: str = ""
    fragile: int = 0
    """Fragments in which one bookie is in every set that can acknowledge."""


class Auditor:
    """The work of the elected auditor. ``ledgers`` and ``client`` belong to the process."""

    def __init__(
        self,
        runtime: Runtime,
        client: LedgerClient,
        ledgers: LedgerStore,
        directory: SteeredDirectory,
        tasks: TaskStore,
        orphans: OrphanLedgers,
        policies: LedgerPolicies,
        durability: DurabilityMonitor,
        *,
        config: RepairConfig,
    ) -> None:
        self.counts = AuditCounts()
        self.stored_bytes: Mapping[str, int] = {}
        """Payload bytes of closed ledgers by namespace, at the last audit."""
        self._durability = durability
        self._runtime = runtime
        self._client = client
        self._ledgers = ledgers
        self._directory = directory
        self._tasks = tasks
        self._orphans = orphans
        self._policies = policies
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._comparisons = RateLimiter(config.compared_per_second)
        self._verified: dict[int, _Verified] = {}
        self._ensembles: dict[tuple[BookieId, ...], tuple[BookieId, ...]] = {}
        """One object for each ensemble in ``_verified``."""
        self._verified_since = self._loop.time()
        self._present: Mapping[BookieId, object] = {}
        self._recovering_since: dict[int, float] = {}
        self._moves: dict[tuple[Quorum, tuple[str | None, ...]], bool] = {}

    async def audit(self, monitor: LivenessMonitor) -> None:
        """Audit all ledgers once. Unreadable ledger metadata is counted and does not stop the
        audit.

        Raises MetadataUnavailableError, CorruptionError (of other records than a ledger's).
        """
        liveness = await monitor.snapshot()
        self._expire_verified(liveness)
        self._moves.clear()
        self._orphans.begin_audit()
        self._policies.clear()
        counts = AuditCounts(
            self.counts.audits + 1,
            tasks_added=self.counts.tasks_added,
            lists_compared=self.counts.lists_compared,
        )
        self._durability.begin_scan()
        stored = StoredBytes()

        def on_unreadable(error: CorruptionError) -> None:
            counts.unreadable += 1
            counts.last_unreadable = str(error)

        page: list[tuple[LedgerMetadata, Version]] = []
        async for metadata, version in all_ledgers(self._ledgers, on_unreadable):
            monitor.note_members(metadata.bookies(), liveness)
            stored.note(metadata)
            page.append((metadata, version))
            if len(page) == _PAGE:
                await self._audit_page(page, liveness, counts)
                page.clear()
        await self._audit_page(page, liveness, counts)
        self.counts = counts
        self.stored_bytes = stored.largest()
        self._durability.end_scan(counts.unreadable)
        await self._durability.refresh(liveness.lost)

    def _expire_verified(self, liveness: Liveness) -> None:
        """Forget the complete ledgers of bookies that came back, since they may lack entries."""
        back = {b: None for b in liveness.present if b not in self._present}
        if self.counts.audits:
            self._log_presence(liveness, back)
        self._present = liveness.present
        is_old = (
            self._loop.time() - self._verified_since > self._config.full_audit_interval_ms / 1000
        )
        if is_old:
            self._verified.clear()
            self._ensembles.clear()
            self._verified_since = self._loop.time()
        if back:
            self._verified = {
                ledger_id: seen
                for ledger_id, seen in self._verified.items()
                if not any(bookie in back for bookie in seen[1])
            }

    def _log_presence(self, liveness: Liveness, back: Mapping[BookieId, object]) -> None:
        for bookie in self._present:
            if bookie not in liveness.present:
                lost_after_ms = self._config.lost_after_ms
                _LOG.warning("bookie absent", bookie=bookie, lost_after_ms=lost_after_ms)
        for bookie in back:
            _LOG.info("bookie present", bookie=bookie)

    async def _audit_page(
        self,
        page: Sequence[tuple[LedgerMetadata, Version]],
        liveness: Liveness,
        counts: AuditCounts,
    ) -> None:
        """Examine ledgers, and add tasks for those that need repair and have none."""
        reasons: dict[int, str] = {}

        async def examine(ledger: tuple[LedgerMetadata, Version]) -> None:
            reason = await self._examine(*ledger, liveness, counts)
            if reason is not None:
                reasons[ledger[0].ledger_id] = reason

        async def add(ledger_id: int) -> None:
            reason = reasons[ledger_id]
            if await self._tasks.add(ledger_id, reason, self._runtime.clock.wall_ms()):
                counts.tasks_added += 1
                _LOG.info("repair needed", ledger=ledger_id, reason=reason)

        await for_each(page, examine, AT_ONCE)
        if reasons:  # most have a task already while a large repair is in progress
            await for_each(await self._tasks.without_task(sorted(reasons)), add, AT_ONCE)

    async def _examine(
        self,
        metadata: LedgerMetadata,
        version: Version,
        liveness: Liveness,
        counts: AuditCounts,
    ) -> str | None:
        """Return why a ledger needs repair, or None."""
        if await self._orphans.remove(metadata):
            return None
        self._durability.note(metadata, version)
        views = await self._views_of(metadata)
        counts.ledgers += 1
        counts.region_violations += sum(1 for view in views if not view.is_legal())
        counts.fragile += sum(1 for view in views if view.is_legal() and view.is_fragile())
        ranges = settled_ranges(metadata, await self._policies.r_of(metadata))
        return (
            self._find_misplaced(metadata, ranges, views, liveness)
            or self._find_stuck_recovery(metadata)
            or await self._find_incomplete(metadata, ranges, version, liveness, counts)
        )

    async def _views_of(self, metadata: LedgerMetadata) -> list[QuorumView]:
        """Return the quorum view of each fragment. Raises MetadataUnavailableError."""
        views = []
        for fragment in metadata.fragments:
            regions = [await self._directory.region_of(bookie) for bookie in fragment.bookies]
            views.append(QuorumView(metadata.quorum_at(fragment.first_entry_id), regions))
        return views

    # --- checks --------------------------------------------------------------------------------

    def _find_misplaced(
        self,
        metadata: LedgerMetadata,
        ranges: list[EntryRange],
        views: list[QuorumView],
        liveness: Liveness,
    ) -> str | None:
        entry_ranges = {entry_range.first: entry_range for entry_range in ranges}
        for fragment, view in zip(metadata.fragments, views, strict=True):
            entry_range = entry_ranges.get(fragment.first_entry_id)
            if entry_range is None and fragment is not metadata.last_fragment:
                continue  # in recovery
            for bookie, region in zip(fragment.bookies, view.regions, strict=True):
                standing = liveness.standing(bookie, _as_region(region))
                is_empty = entry_range is None and metadata.state is LedgerState.CLOSED
                if standing in (Standing.LOST, Standing.LEAVING) and not is_empty:
                    return f"{bookie} is {standing.value}"
            if entry_range is None:
                continue
            is_legal = QuorumView(entry_range.quorum, view.regions).is_legal()
            rule = metadata.spread_rule()
            if self._is_improvable(entry_range, view, liveness, rule):
                return (
                    "copies can be spread better"
                    if is_legal
                    else f"the region rule of {entry_range.quorum} is violated"
                )
            if is_legal and entry_range.lowest_r < entry_range.quorum.min_regions:
                return (
                    f"entries were written under R={entry_range.lowest_r}, the policy has "
                    f"R={entry_range.quorum.min_regions}"
                )
        return None

    def _is_improvable(
        self, entry_range: EntryRange, view: QuorumView, liveness: Liveness, rule: SpreadRule
    ) -> bool:
        members = entry_range.fragment.bookies
        spare = liveness.spare(members, entry_range.allowed)
        counts = by_region(spare)
        key = (entry_range.quorum, (*view.regions, *(f"{name}:{n}" for name, n in counts.items())))
        known = self._moves.get(key)
        if known is None:
            known = self._moves[key] = bool(
                indices_to_move(entry_range.quorum, view.regions, counts)
            )
        return known or self._is_crowded(entry_range, spare, liveness, rule)

    def _is_crowded(
        self,
        entry_range: EntryRange,
        spare: Sequence[BookieInfo],
        liveness: Liveness,
        rule: SpreadRule,
    ) -> bool:
        """True if moving a copy within its region lets write sets share fewer domains."""
        members = [
            liveness.present.get(bookie, BookieInfo(bookie))
            for bookie in entry_range.fragment.bookies
        ]
        return move_to_spread(entry_range.quorum, members, spare, rule) is not None

    def _find_stuck_recovery(self, metadata: LedgerMetadata) -> str | None:
        ledger_id = metadata.ledger_id
        if metadata.state is not LedgerState.IN_RECOVERY:
            self._recovering_since.pop(ledger_id, None)
            return None
        since = self._recovering_since.setdefault(ledger_id, self._loop.time())
        if self._loop.time() - since < self._config.recovery_grace_ms / 1000:
            return None
        return f"it has been in recovery for {self._config.recovery_grace_ms} ms"

    async def _find_incomplete(
        self,
        metadata: LedgerMetadata,
        entry_ranges: list[EntryRange],
        version: Version,
        liveness: Liveness,
        counts: AuditCounts,
    ) -> str | None:
        ledger_id = metadata.ledger_id
        known = self._verified.get(ledger_id)
        lacking = liveness.lacking
        is_lacking = any(b in lacking and lacking[b].covers(ledger_id) for b in metadata.bookies())
        if known is not None and known[0] == version and not is_lacking:
            return None
        members = dict.fromkeys(
            bookie for entry_range in entry_ranges for bookie in entry_range.fragment.bookies
        )
        await self._comparisons.acquire(1)
        present = [bookie for bookie in members if bookie in liveness.present]
        found = await run_all([self._list(bookie, ledger_id) for bookie in present], "list entries")
        for bookie, listed in zip(present, found, strict=True):
            if listed is None:
                continue
            counts.lists_compared += 1
            for entry_range in entry_ranges:
                for index, member in enumerate(entry_range.fragment.bookies):
                    run = (
                        next(missing_runs(entry_range, index, listed), None)
                        if member == bookie
                        else None
                    )
                    if run is not None:
                        return f"{bookie} lacks entries from {run[0]} on"
        if None in found:
            return None  # audited again until every bookie that is present has listed its entries
        if len(self._verified) < _VERIFIED_MAX or ledger_id in self._verified:
            ensemble = tuple(members)  # with the absent ones: it is audited again when one is back
            self._verified[ledger_id] = version, self._ensembles.setdefault(ensemble, ensemble)
        return None

    async def _list(self, bookie: BookieId, ledger_id: int) -> Availability | None:
        """Return the entries that a bookie has; None if it could not list them."""
        try:
            return await self._client.copies.list_entries(bookie, ledger_id)
        except RhumblineError:
            return None


def _as_region(region: str | None) -> Region | None:
    return None if region is None else Region(region)
