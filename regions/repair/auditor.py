"""Looks at every ledger again and again and says which ones to mend, and why.

Each look reads all ledger metadata: who is lost, who leaves, whether the region rule holds, whether
copies could be spread better, whether anybody names the ledger. What was not found whole yet in its
present version is also compared list by list with what each of its bookies says that it has (never
by first and last entry alone).
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...core.ledger.client import LedgerClient
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.errors import CorruptionError, RhumblineError
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum, QuorumView
from ...core.runtime.metadata_store import Version
from ...core.runtime.runtime import Runtime
from ...placement.ensemble_improvement import indices_to_move
from ..durability import Exposure, ExposureTally, views_of
from ..ledger_scan import all_ledgers
from ..steered_directory import SteeredDirectory
from .config import RepairConfig
from .entry_ranges import EntryRange, missing_runs, settled_spans
from .liveness import Liveness, LivenessMonitor, Standing, by_region
from .orphan_ledgers import OrphanLedgers
from .task_store import TaskStore

_VERIFIED_MAX = 200_000
"""Ledgers that are remembered as whole; above it all are compared again."""

_Seen = tuple[Version, tuple[BookieId, ...]]


@dataclass(slots=True)
class AuditCounts:
    """Plain counters for metrics, of the last whole look unless they say otherwise."""

    looks: int = 0  # since the start
    ledgers: int = 0
    wanted: int = 0  # since the start
    lists_compared: int = 0  # since the start
    region_violations: int = 0
    """Fragments that do not keep their region rule."""
    unreadable: int = 0
    """Ledgers whose metadata is damaged: they can be neither audited nor mended."""
    last_unreadable: str = ""
    fragile: int = 0
    """Fragments in which one bookie sits in every set that may acknowledge."""
    at_risk: dict[str, Exposure] = field(default_factory=dict)
    """By region: what would not be safe if it were lost."""


class Auditor:
    """The work of whoever is elected. ``ledgers`` and ``client`` are the process's own."""

    def __init__(
        self,
        runtime: Runtime,
        client: LedgerClient,
        ledgers: LedgerStore,
        directory: SteeredDirectory,
        tasks: TaskStore,
        unreferenced: OrphanLedgers,
        *,
        config: RepairConfig,
    ) -> None:
        self.counts = AuditCounts()
        self._runtime = runtime
        self._client = client
        self._ledgers = ledgers
        self._directory = directory
        self._tasks = tasks
        self._unreferenced = unreferenced
        self._config = config
        self._loop = asyncio.get_running_loop()
        self._whole: dict[int, _Seen] = {}
        self._whole_since = self._loop.time()
        self._present: Mapping[BookieId, object] = {}
        self._recovering_since: dict[int, float] = {}
        self._moves: dict[tuple[Quorum, tuple[str | None, ...]], bool] = {}

    async def look(self, taker: LivenessMonitor) -> None:
        """One look at everything; what cannot be read of it is counted, and holds nothing up.

        Raises MetadataUnavailableError, CorruptionError (of what is not a ledger's).
        """
        census = await taker.take()
        self._forget_what_may_have_changed(census)
        self._moves.clear()
        self._unreferenced.begin_look()
        counts = AuditCounts(
            self.counts.looks + 1,
            wanted=self.counts.wanted,
            lists_compared=self.counts.lists_compared,
        )
        known = [*census.candidates, *census.present.values()]
        regions = sorted({info.region for info in known if info.region is not None})
        tallies = [ExposureTally([region]) for region in regions]

        def on_unreadable(error: CorruptionError) -> None:
            counts.unreadable += 1
            counts.last_unreadable = str(error)

        async for metadata, version in all_ledgers(self._ledgers, on_unreadable):
            taker.notice(metadata.bookies(), census)
            await self._look_at(metadata, version, census, counts, tallies)
        counts.at_risk = {tally.lost[0]: tally.found for tally in tallies}
        self.counts = counts

    def _forget_what_may_have_changed(self, census: Liveness) -> None:
        """A bookie that came back may have missed entries meanwhile."""
        back = {b: None for b in census.present if b not in self._present}
        self._present = census.present
        is_old = self._loop.time() - self._whole_since > self._config.full_audit_interval_ms / 1000
        if is_old or len(self._whole) > _VERIFIED_MAX:
            self._whole.clear()
            self._whole_since = self._loop.time()
        self._whole = {
            ledger_id: seen
            for ledger_id, seen in self._whole.items()
            if not any(bookie in back for bookie in seen[1])
        }

    async def _look_at(
        self,
        metadata: LedgerMetadata,
        version: Version,
        census: Liveness,
        counts: AuditCounts,
        tallies: list[ExposureTally],
    ) -> None:
        if await self._unreferenced.remove(metadata):
            return
        views = await views_of(metadata, self._directory)
        for tally in tallies:
            tally.add(metadata, views)
        counts.ledgers += 1
        counts.region_violations += sum(1 for view in views if not view.is_legal())
        counts.fragile += sum(1 for view in views if view.is_legal() and view.is_fragile())
        why = self._misplaced(metadata, views, census) or self._is_stuck_in_recovery(metadata)
        if why is None:
            why = await self._incomplete(metadata, version, census, counts)
        if why is not None:
            now_ms = self._runtime.clock.wall_ms()
            is_new = await self._tasks.want(metadata.ledger_id, why, now_ms)
            counts.wanted += is_new

    # --- what may be wrong ----------------------------------------------------------------------

    def _misplaced(
        self, metadata: LedgerMetadata, views: list[QuorumView], census: Liveness
    ) -> str | None:
        spans = {span.first: span for span in settled_spans(metadata)}
        for fragment, view in zip(metadata.fragments, views, strict=True):
            span = spans.get(fragment.first_entry_id)
            if span is None and fragment is not metadata.last_fragment:
                continue  # in recovery
            for bookie, region in zip(fragment.bookies, view.regions, strict=True):
                standing = census.standing(bookie, _as_region(region))
                is_empty = span is None and metadata.state is LedgerState.CLOSED
                if standing in (Standing.LOST, Standing.LEAVING) and not is_empty:
                    return f"{bookie} is {standing.value}"
            if span is not None and self._is_improvable(span, view, census):
                return (
                    "copies can be spread better"
                    if QuorumView(span.quorum, view.regions).is_legal()
                    else f"the region rule of {span.quorum} does not hold"
                )
        return None

    def _is_improvable(self, span: EntryRange, view: QuorumView, census: Liveness) -> bool:
        members = span.fragment.bookies
        spare = by_region(census.spare(members, span.allowed))
        key = (span.quorum, (*view.regions, *(f"{name}:{n}" for name, n in spare.items())))
        known = self._moves.get(key)
        if known is None:
            known = self._moves[key] = bool(indices_to_move(span.quorum, view.regions, spare))
        return known

    def _is_stuck_in_recovery(self, metadata: LedgerMetadata) -> str | None:
        ledger_id = metadata.ledger_id
        if metadata.state is not LedgerState.IN_RECOVERY:
            self._recovering_since.pop(ledger_id, None)
            return None
        since = self._recovering_since.setdefault(ledger_id, self._loop.time())
        if self._loop.time() - since < self._config.recovery_grace_ms / 1000:
            return None
        return "it has been in recovery for long"

    async def _incomplete(
        self, metadata: LedgerMetadata, version: Version, census: Liveness, counts: AuditCounts
    ) -> str | None:
        ledger_id = metadata.ledger_id
        known = self._whole.get(ledger_id)
        if known is not None and known[0] == version:
            return None
        spans = settled_spans(metadata)
        members = dict.fromkeys(bookie for span in spans for bookie in span.fragment.bookies)
        for bookie in members:
            if bookie not in census.present:
                return None  # it is looked at again when the bookie is back, or lost
            try:
                listed = await self._client.copies.list_entries(bookie, ledger_id)
            except RhumblineError:
                return None  # and again, as long as nobody has said that it is whole
            counts.lists_compared += 1
            for span in spans:
                for index, member in enumerate(span.fragment.bookies):
                    run = (
                        next(missing_runs(span, index, listed), None) if member == bookie else None
                    )
                    if run is not None:
                        return f"{bookie} misses entries, the first is {run[0]}"
        self._whole[ledger_id] = version, tuple(members)
        return None


def _as_region(region: str | None) -> Region | None:
    return None if region is None else Region(region)
