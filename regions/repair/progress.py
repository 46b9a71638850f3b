"""Progress of drains: the copies that still have to move, what each waits for, whether they can."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from ...core.log.metadata.ledger_policies import stream_of_ledger
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId, Region
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.placement import in_regions
from ...core.protocol.quorum import Quorum
from ...core.runtime.tasks import run_all
from ...placement.layouts import best_layouts
from ..durability.ledger_layout import entry_counts
from ..ledger_scan import AT_ONCE, all_ledgers
from ..steered_directory import SteeredDirectory
from .entry_ranges import estimate_bytes
from .liveness import by_region
from .task_store import RepairTask, TaskStore

BLOCKED_MAX = 1_000
"""Maximum number of ledgers of a drain for which the reason is read."""

NO_REPAIR = "no repair process is running: start `rhumbline repair run`"
NOT_AUDITED = "waits for the next audit"
QUEUED = "waits for a repair worker, or is being repaired"

IsLeaving = Callable[[BookieId, Region | None], bool]


@dataclass(frozen=True, slots=True)
class BlockedLedger:
    """A ledger whose copies have not moved yet."""

    ledger_id: int
    stream: str
    """``namespace/stream``; "" if the ledger was not made for a stream."""
    is_open: bool
    """True if it is still written, so that its last fragment cannot move yet."""
    reason: str = ""
    """The condition for which it waits."""
    is_hopeless: bool = False
    """True if the last repair found entries without any copy."""


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
    blocked: list[BlockedLedger] = field(default_factory=list)
    """These ledgers with what each waits for, open ones first, at most ``BLOCKED_MAX``."""
    demands: dict[tuple[Quorum, tuple[str, ...]], None] = field(default_factory=dict)
    """Quorum and allowed regions (() for all) of those fragments."""

    @property
    def is_empty(self) -> bool:
        """True if no copy remains."""
        return self.copies == 0

    @property
    def hopeless(self) -> int:
        """The number of ledgers with entries that have no copy."""
        return sum(ledger.is_hopeless for ledger in self.blocked)


async def count_remaining(
    ledgers: LedgerStore, directory: SteeredDirectory, tasks: TaskStore, is_leaving: IsLeaving
) -> RemainingCopies:
    """Count in all ledgers. Raises MetadataUnavailableError, CorruptionError."""
    return (await count_all_remaining(ledgers, directory, tasks, {"": is_leaving}))[""]


async def count_all_remaining(
    ledgers: LedgerStore,
    directory: SteeredDirectory,
    tasks: TaskStore,
    targets: Mapping[str, IsLeaving],
) -> dict[str, RemainingCopies]:
    """Count for several drains in one pass over all ledgers. Raises like ``count_remaining``."""
    found = {target: RemainingCopies() for target in targets}
    async for metadata, _ in all_ledgers(ledgers):
        regions = {bookie: await directory.region_of(bookie) for bookie in metadata.bookies()}
        for target, is_leaving in targets.items():
            _count(metadata, regions, is_leaving, found[target])
    has_auditor = await tasks.auditor() is not None
    for remaining in found.values():
        waiting = sorted(remaining.blocked, key=lambda ledger: not ledger.is_open)
        remaining.blocked = []
        for start in range(0, len(waiting), AT_ONCE):
            batch = waiting[start : start + AT_ONCE]
            reads = [tasks.get(ledger.ledger_id) for ledger in batch]
            for ledger, task in zip(batch, await run_all(reads, "read repair tasks"), strict=True):
                remaining.blocked.append(explained(ledger, task, has_auditor))
    return found


def explained(ledger: BlockedLedger, task: RepairTask | None, has_auditor: bool) -> BlockedLedger:
    """Return the ledger with what it waits for, by its repair task. Pure."""
    if task is not None and task.stuck:
        reason = task.stuck
    elif not has_auditor:
        reason = NO_REPAIR
    else:
        reason = NOT_AUDITED if task is None else QUEUED
    return replace(ledger, reason=reason, is_hopeless=task is not None and task.is_hopeless)


def _count(
    metadata: LedgerMetadata,
    regions: Mapping[BookieId, Region | None],
    is_leaving: IsLeaving,
    found: RemainingCopies,
) -> None:
    is_concerned = False
    is_open = False
    for fragment, count in zip(metadata.fragments, entry_counts(metadata), strict=True):
        is_tail = fragment is metadata.last_fragment and metadata.state is not LedgerState.CLOSED
        if not count and not is_tail:
            continue
        there = sum(is_leaving(bookie, regions[bookie]) for bookie in fragment.bookies)
        if not there:
            continue
        is_concerned = True
        is_open |= is_tail
        entries = there * count * metadata.write_quorum // metadata.ensemble_size
        found.copies += there
        found.entries += entries
        found.bytes += estimate_bytes(metadata, entries)
        demand = metadata.quorum_at(fragment.first_entry_id), metadata.allowed_regions()
        found.demands[demand] = None
    found.writing += is_open
    found.ledgers += is_concerned
    if is_concerned and len(found.blocked) < BLOCKED_MAX:
        stream = "/".join(stream_of_ledger(metadata) or ())
        found.blocked.append(BlockedLedger(metadata.ledger_id, stream, is_open))


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
