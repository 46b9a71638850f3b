"""Computes from ledger metadata what a loss of regions would endanger (rule PLC-23).

*At risk*: it is not certain that a copy is left, because the bookies that sufficed for the
acknowledgement may all have been in the lost regions. *Lost*: every copy that the metadata names is
in the lost regions. Lost data is part of the data at risk. Both are counted by write set: if
E > WQ, a loss may take some entries of a fragment and leave others.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..core.metadata.bookie_directory import BookieDirectory
from ..core.metadata.ledger_store import LedgerStore
from ..core.protocol.errors import CorruptionError
from ..core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from ..core.protocol.placement import (
    LEVELS,
    SPREAD_LEVELS,
    BookieInfo,
    domains_by_level,
    in_regions,
)
from ..core.protocol.quorum import Quorum, QuorumView
from ..core.protocol.recovery import quorums_from
from .ledger_scan import all_ledgers

NAMESPACE_KEY = "rhumbline.namespace"
STREAM_KEY = "rhumbline.stream"
"""Custom metadata key of a ledger that belongs to a stream."""


@dataclass(slots=True)
class Exposure:
    """The data that depends on some regions.

    Entries of open last fragments are not counted, because only their writers know the number;
    their ledgers are counted.
    """

    ledgers: int = 0
    ledgers_at_risk: int = 0
    ledgers_unreadable: int = 0
    """Ledgers whose metadata is damaged, so that their risk is unknown."""
    ledgers_undecidable: int = 0
    """Open ledgers whose end could not be found without those regions."""
    entries: int = 0
    entries_at_risk: int = 0
    entries_lost: int = 0
    entries_by_r: dict[int, int] = field(default_factory=dict)
    """All entries by the R (``min_regions_for_durability``) that their ledgers record for them."""
    entries_crowded: dict[str, int] = field(default_factory=dict)
    """Entries in fewer zones, racks or hosts than they could be, by level (rule PLC-28)."""
    bytes_at_risk: int = 0
    """Approximate payload bytes of closed ledgers."""
    streams: dict[str, None] = field(default_factory=dict)
    streams_at_risk: dict[str, None] = field(default_factory=dict)
    """``namespace/stream``; other ledgers of the stream may be safe."""


def stream_of(metadata: LedgerMetadata) -> str | None:
    """Return the stream that a ledger belongs to, as ``namespace/stream``, or None."""
    stream = metadata.custom.get(STREAM_KEY)
    if stream is None:
        return None
    namespace = metadata.custom.get(NAMESPACE_KEY, b"")
    return f"{namespace.decode(errors='replace')}/{stream.decode(errors='replace')}"


class ExposureTally:
    """Sums up ledgers for one set of lost regions."""

    def __init__(self, lost: Sequence[str]) -> None:
        self.lost = tuple(lost)
        self.found = Exposure()

    def add(self, metadata: LedgerMetadata, views: Sequence[QuorumView]) -> None:
        """Count a ledger. ``views`` are of its fragments, with the quorum of their first entry."""
        found = self.found
        found.ledgers += 1
        at_risk = 0
        is_exposed = False
        for fragment, view, count in zip(
            metadata.fragments, views, entry_counts(metadata), strict=True
        ):
            gone = view.mask_of_regions(set(self.lost))
            is_open = (
                fragment is metadata.last_fragment and metadata.state is not LedgerState.CLOSED
            )
            found.entries += count
            first = fragment.first_entry_id
            lost = [full & ~gone == 0 for full in view.full_masks]
            found.entries_lost += count_in_stripes(first, count, lost)
            for start, entries, quorum in parts_by_r(metadata, first, count):
                ruled = QuorumView(quorum, view.regions)
                ackable = [ruled.could_ack(full & gone) for full in ruled.full_masks]
                exposed = [a or b for a, b in zip(lost, ackable, strict=True)]
                at_risk += count_in_stripes(start, entries, exposed)
                by_r = found.entries_by_r
                by_r[quorum.min_regions] = by_r.get(quorum.min_regions, 0) + entries
            if is_open and any(
                QuorumView(quorum, view.regions).could_ack(full & gone)
                for quorum in quorums_from(metadata, first)
                for full in view.full_masks
            ):
                found.ledgers_undecidable += 1
                is_exposed = True
        found.entries_at_risk += at_risk
        if metadata.state is LedgerState.CLOSED and metadata.last_entry_id >= 0:
            found.bytes_at_risk += metadata.length * at_risk // (metadata.last_entry_id + 1)
        self._count_stream(metadata, is_exposed or at_risk > 0)

    def _count_stream(self, metadata: LedgerMetadata, is_exposed: bool) -> None:
        stream = stream_of(metadata)
        self.found.ledgers_at_risk += is_exposed
        if stream is not None:
            self.found.streams[stream] = None
            if is_exposed:
                self.found.streams_at_risk[stream] = None


def count_in_stripes(first: int, count: int, chosen: Sequence[bool]) -> int:
    """Return how many of ``count`` entries from ``first`` on have a chosen write set.

    ``chosen`` is by the write sets of the fragment, which entries use in turn: entry n uses number
    n modulo their number. The cost does not depend on ``count``.
    """
    turns = len(chosen)
    whole, rest = divmod(count, turns)
    return whole * sum(chosen) + sum(chosen[(first + i) % turns] for i in range(rest))


def parts_by_r(
    metadata: LedgerMetadata, first: int, count: int
) -> Iterator[tuple[int, int, Quorum]]:
    """Yield (first entry, number of entries, quorum) of each part of a fragment with one R."""
    starts = [first, *(start for start, _ in metadata.r_ranges() if first < start < first + count)]
    for start, end in pairwise([*starts, first + count]):
        yield start, end - start, metadata.quorum_at(start)


def entry_counts(metadata: LedgerMetadata) -> list[int]:
    """Return the number of entries of each fragment; 0 for an open last fragment."""
    firsts = [fragment.first_entry_id for fragment in metadata.fragments]
    end = metadata.last_entry_id + 1 if metadata.state is LedgerState.CLOSED else firsts[-1]
    return [after - first for first, after in zip(firsts, [*firsts[1:], end], strict=True)]


async def views_of(metadata: LedgerMetadata, directory: BookieDirectory) -> list[QuorumView]:
    """Return the quorum view of each fragment. Raises MetadataUnavailableError."""

    async def view(fragment: Fragment) -> QuorumView:
        regions = [await directory.region_of(bookie) for bookie in fragment.bookies]
        return QuorumView(metadata.quorum_at(fragment.first_entry_id), regions)

    return [await view(fragment) for fragment in metadata.fragments]


class CrowdedEntries:
    """Counts entries in fewer zones, racks or hosts than they could be (rule PLC-28)."""

    def __init__(self, located: Sequence[BookieInfo]) -> None:
        """``located`` are the bookies that are up."""
        self.counts = dict.fromkeys(SPREAD_LEVELS, 0)
        """Entries by level."""
        self._paths = {info.bookie: info.path for info in located}
        self._located = located
        self._domains: dict[tuple[str, ...], dict[str, int]] = {}

    def add(self, metadata: LedgerMetadata) -> None:
        """Add a ledger.

        Fragments with a bookie that is down are left out: its location is not known.
        """
        domains = self._domains_in(metadata.allowed_regions())
        for fragment, count in zip(metadata.fragments, entry_counts(metadata), strict=True):
            paths = [p for b in fragment.bookies if (p := self._paths.get(b)) is not None]
            if len(paths) < len(fragment.bookies):
                continue
            quorum = metadata.quorum_at(fragment.first_entry_id)
            starts = range(
                quorum.ensemble_size if quorum.ensemble_size > quorum.write_quorum else 1
            )
            for level, number in domains.items():
                depth = LEVELS.index(level)
                wanted = min(quorum.write_quorum, number)
                crowded = [
                    len({paths[index][: depth + 1] for index in quorum.write_set(start)}) < wanted
                    for start in starts
                ]
                self.counts[level] += count_in_stripes(fragment.first_entry_id, count, crowded)

    def _domains_in(self, allowed: tuple[str, ...]) -> dict[str, int]:
        """Return the number of domains at each level in the allowed regions; () for all."""
        found = self._domains.get(allowed)
        if found is None:
            paths = [info.path for info in in_regions(self._located, allowed)]
            found = self._domains[allowed] = domains_by_level(paths)
        return found


async def exposures(
    ledgers: LedgerStore, directory: BookieDirectory, losses: Sequence[Sequence[str]]
) -> list[Exposure]:
    """Return the exposure to each of some sets of regions, from one scan of all ledgers.

    Raises MetadataUnavailableError.
    """
    crowded = CrowdedEntries(await directory.snapshot())
    tallies = [ExposureTally(lost) for lost in losses]

    def on_unreadable(_: CorruptionError) -> None:
        for tally in tallies:
            tally.found.ledgers_unreadable += 1

    async for metadata, _ in all_ledgers(ledgers, on_unreadable):
        views = await views_of(metadata, directory)
        for tally in tallies:
            tally.add(metadata, views)
        crowded.add(metadata)
    for tally in tallies:
        tally.found.entries_crowded = crowded.counts
    return [tally.found for tally in tallies]
