"""Settled entry ranges of a ledger, and the entries that a bookie's list lacks (RPR-1, RPR-9).
Pure.

Entries are settled when no writer and no recovery may still move them: all entries of a closed
ledger, and in an open ledger those below the last fragment, which were confirmed before it began.
The open last fragment belongs to its writer.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum
from ...core.wire.availability import Availability


@dataclass(frozen=True, slots=True)
class EntryRange:
    """The entries ``first`` to ``last`` of one fragment. ``quorum`` is the strictest of them."""

    fragment: Fragment
    last: int
    quorum: Quorum
    allowed: tuple[str, ...] = ()
    """The regions that may hold the entries; () for all."""

    @property
    def first(self) -> int:
        """The first entry id."""
        return self.fragment.first_entry_id

    @property
    def count(self) -> int:
        """The number of entries."""
        return self.last - self.first + 1


def settled_ranges(metadata: LedgerMetadata) -> list[EntryRange]:
    """Return the settled fragments that hold entries; none while the ledger is in recovery."""
    if metadata.state is LedgerState.IN_RECOVERY:
        return []
    ends = [fragment.first_entry_id - 1 for fragment in metadata.fragments[1:]]
    if metadata.state is LedgerState.CLOSED:
        ends.append(metadata.last_entry_id)
    return [
        EntryRange(
            fragment,
            last,
            _strictest(metadata, fragment.first_entry_id, last),
            metadata.allowed_regions(),
        )
        for fragment, last in zip(metadata.fragments, ends, strict=False)
        if last >= fragment.first_entry_id
    ]


def _strictest(metadata: LedgerMetadata, first: int, last: int) -> Quorum:
    """Return the quorum with the largest R of any of the entries (rule RPR-9)."""
    quorum = metadata.quorum_at(first)
    others = [r for start, r in metadata.r_ranges() if first < start <= last]
    return replace(quorum, min_regions=max([quorum.min_regions, *others]))


def missing_runs(
    entry_range: EntryRange, index: int, listed: Availability
) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of each run of entries that member ``index`` should have and lacks."""
    quorum = entry_range.quorum
    if quorum.ensemble_size == quorum.write_quorum:
        yield from listed.missing(entry_range.first, entry_range.last)
        return
    for first, last in listed.missing(entry_range.first, entry_range.last):
        start: int | None = None
        for entry_id in range(first, last + 1):
            is_its = (index - entry_id) % quorum.ensemble_size < quorum.write_quorum
            if is_its and start is None:
                start = entry_id
            elif not is_its and start is not None:
                yield start, entry_id - 1
                start = None
        if start is not None:
            yield start, last


def estimate_bytes(metadata: LedgerMetadata, entries: int) -> int:
    """Return the approximate payload bytes of ``entries`` entries; 0 if the ledger is not
    closed."""
    if metadata.state is not LedgerState.CLOSED or metadata.last_entry_id < 0:
        return 0
    return metadata.length * entries // (metadata.last_entry_id + 1)
