"""Which entries of a ledger are settled, who should have them, and which of them are missing. Pure.

Settled are the entries that no writer and no recoverer may still move: all of a closed ledger, and
of an open one those below the last fragment, which were confirmed before it began. The open last
fragment is its writer's business.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ...core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from ...core.protocol.quorum import Quorum
from ...core.wire.availability import Availability


@dataclass(frozen=True, slots=True)
class EntryRange:
    """The entries ``first`` to ``last`` of one fragment. ``quorum`` holds for all of them."""

    fragment: Fragment
    last: int
    quorum: Quorum
    allowed: tuple[str, ...] = ()
    """The regions that may hold it; () for all."""

    @property
    def first(self) -> int:
        """The first entry."""
        return self.fragment.first_entry_id

    @property
    def count(self) -> int:
        """Entries in it."""
        return self.last - self.first + 1


def settled_spans(metadata: LedgerMetadata) -> list[EntryRange]:
    """The settled fragments that hold entries. None while the ledger is in recovery."""
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
    """The quorum with the largest R that holds for any of the entries."""
    quorum = metadata.quorum_at(first)
    others = [r for start, r in metadata.r_ranges() if first < start <= last]
    return replace(quorum, min_regions=max([quorum.min_regions, *others]))


def missing_runs(span: EntryRange, index: int, listed: Availability) -> Iterator[tuple[int, int]]:
    """(first, last) of each run of entries that the member ``index`` should have and has not."""
    quorum = span.quorum
    if quorum.ensemble_size == quorum.write_quorum:
        yield from listed.missing(span.first, span.last)
        return
    for first, last in listed.missing(span.first, span.last):
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


def share_of(metadata: LedgerMetadata, entries: int) -> int:
    """About how many payload bytes so many entries of the ledger have (closed ledgers only)."""
    if metadata.state is not LedgerState.CLOSED or metadata.last_entry_id < 0:
        return 0
    return metadata.length * entries // (metadata.last_entry_id + 1)
