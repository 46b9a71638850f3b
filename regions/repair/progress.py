"""Progress of a drain: the copies that still have to move, and whether they can."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.placement import in_regions
from ...core.protocol.quorum import Quorum
from ...placement.layouts import best_layouts
from ..durability.ledger_layout import entry_counts
from ..ledger_scan import all_ledgers
from ..steered_directory import SteeredDirectory
from .entry_ranges import estimate_bytes
from .liveness import by_region
from .task_store import TaskStore

IsLeaving = Callable[[BookieId, Region | None], bool]


@dataclass(slots=True)
class RemainingCopies:
    """Copies whose metadata still names bookies that should have none."""

    ledgers: int = 0
    copies: int = 0
    """Fragments, counted once for each such bookie."""
    entries: int = 0
    bytes: int = 0
    """Approximate payload bytes of closed ledgers."""
    writing: int = 0
    """Ledgers whose last fragment is open; they move when their streams roll."""
    reasons: dict[str, int] = field(default_factory=dict)
    """Reasons why ledgers are stuck with the number of ledgers, most frequent first."""
    hopeless: int = 0
    """Ledgers with entries that have no copy."""
    demands: dict[tuple[Quorum, tuple[str, ...]], None] = field(default_factory=dict)
    """Quorum and allowed regions (() for all) of those fragments."""

    @property
    def is_empty(self) -> bool:
        """True if no copy remains."""
        return self.copies == 0


async def count_remaining(
    ledgers: LedgerStore, directory: SteeredDirectory, tasks: TaskStore, is_leaving: IsLeaving
) -> RemainingCopies:
    """Count in all ledgers. Raises MetadataUnavailableError, CorruptionError."""
    found = RemainingCopies()
    concerned: dict[int, None] = {}
    async for metadata, _ in all_ledgers(ledgers):
        if await _count(metadata, directory, is_leaving, found):
            concerned[metadata.ledger_id] = None
    reasons: Counter[str] = Counter()
    for ledger_id in concerned:
        task = await tasks.get(ledger_id)
        if task is not None and task.stuck:
            reasons[task.stuck] += 1
            found.hopeless += task.is_hopeless
    found.reasons = dict(reasons.most_common())
    return found


async def _count(
    metadata: LedgerMetadata,
    directory: SteeredDirectory,
    is_leaving: IsLeaving,
    found: RemainingCopies,
) -> bool:
    is_concerned = False
    for fragment, count in zip(metadata.fragments, entry_counts(metadata), strict=True):
        is_tail = fragment is metadata.last_fragment and metadata.state is not LedgerState.CLOSED
        if not count and not is_tail:
            continue
        there = 0
        for bookie in fragment.bookies:
            there += is_leaving(bookie, await directory.region_of(bookie))
        if not there:
            continue
        is_concerned = True
        entries = there * count * metadata.write_quorum // metadata.ensemble_size
        found.copies += there
        found.entries += entries
        found.bytes += estimate_bytes(metadata, entries)
        found.writing += is_tail
        demand = metadata.quorum_at(fragment.first_entry_id), metadata.allowed_regions()
        found.demands[demand] = None
    found.ledgers += is_concerned
    return is_concerned


async def unplaceable_quorums(
    found: RemainingCopies, directory: SteeredDirectory, is_leaving: IsLeaving
) -> list[str]:
    """Return a message for each quorum that has no legal ensemble of the other bookies."""
    states = await directory.states.read()
    rest = [
        info
        for info in states.open_to_new(await directory.everything())
        if not is_leaving(info.bookie, info.region)
    ]
    faults = []
    for quorum, allowed in found.demands:
        counts = by_region(in_regions(rest, allowed))
        if not best_layouts(quorum, counts, None):
            have = ", ".join(f"{region or 'unknown'}: {n}" for region, n in counts.items())
            faults.append(
                f"{quorum} has no legal ensemble among the other bookies ({have or 'none'})"
            )
    return faults
