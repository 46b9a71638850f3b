"""Settled entry ranges of a ledger, their R, and the entries that a bookie lacks (RPR-1, RPR-9).
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
    """The entries ``first`` to ``last`` of one fragment.

    ``quorum`` has the R that repair works towards: that of the stream's policy, or without one the
    strictest R that is recorded for any of the entries.
    """

    fragment: Fragment
    last: int
    quorum: Quorum
    recorded: Quorum
    """The quorum with the strictest R that is recorded for any of the entries."""
    lowest_r: int
    """The lowest R that is recorded for any of the entries."""
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


def settled_ranges(metadata: LedgerMetadata, wanted_r: int | None = None) -> list[EntryRange]:
    """Return the settled fragments that hold entries; none while the ledger is in recovery.

    ``wanted_r`` is the R of the stream's policy, None if there is none.
    """
    if metadata.state is LedgerState.IN_RECOVERY:
        return []
    ends = [fragment.first_entry_id - 1 for fragment in metadata.fragments[1:]]
    if metadata.state is LedgerState.CLOSED:
        ends.append(metadata.last_entry_id)
    return [
        _range(metadata, fragment, last, wanted_r)
        for fragment, last in zip(metadata.fragments, ends, strict=False)
        if last >= fragment.first_entry_id
    ]


def _range(
    metadata: LedgerMetadata, fragment: Fragment, last: int, wanted_r: int | None
) -> EntryRange:
    first = fragment.first_entry_id
    quorum = metadata.quorum_at(first)
    recorded = [r for _, _, r in _recorded(metadata, first, last)]
    strictest = replace(quorum, min_regions=max(recorded))
    return EntryRange(
        fragment,
        last,
        strictest if wanted_r is None else replace(quorum, min_regions=wanted_r),
        strictest,
        min(recorded),
        metadata.allowed_regions(),
    )


def _recorded(metadata: LedgerMetadata, first: int, last: int) -> list[tuple[int, int, int]]:
    """Return (first entry, last entry, R) of each part of a range with one recorded R."""
    starts = [first, *(start for start, _ in metadata.r_ranges() if first < start <= last)]
    ends = [*(start - 1 for start in starts[1:]), last]
    return [
        (start, end, metadata.quorum_at(start).min_regions)
        for start, end in zip(starts, ends, strict=True)
    ]


def with_r_limited(metadata: LedgerMetadata, entry_range: EntryRange, r: int) -> LedgerMetadata:
    """Return a copy in which no entry of the range is recorded with more than ``r`` regions."""
    for first, last, recorded in _recorded(metadata, entry_range.first, entry_range.last):
        if recorded > r:
            metadata = metadata.with_r_between(first, last, r)
    return metadata


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
