"""Counts entries in fewer zones, racks or hosts than they could be (rule PLC-28). Pure."""

from collections.abc import Sequence

from ...core.protocol.placement import (
    LEVELS,
    SPREAD_LEVELS,
    BookieInfo,
    domains_by_level,
    in_regions,
)
from .ledger_index import LayoutGroup


class CrowdedEntries:
    """The sums over groups of ledgers."""

    def __init__(self, located: Sequence[BookieInfo]) -> None:
        """``located`` are the bookies that are up."""
        self.counts = dict.fromkeys(SPREAD_LEVELS, 0)
        """Entries by level."""
        self._paths = {info.bookie: info.path for info in located}
        self._located = located
        self._domains: dict[tuple[str, ...], dict[str, int]] = {}

    def add(self, group: LayoutGroup) -> None:
        """Add the ledgers of a group.

        Parts with a bookie that is down are left out: its location is not known.
        """
        domains = self._domains_in(group.layout.allowed)
        position = 0
        for part in group.layout.parts:
            counts = group.entries[position : position + part.turns]
            position += part.turns
            paths = [p for b in part.bookies if (p := self._paths.get(b)) is not None]
            if len(paths) < len(part.bookies) or not any(counts):
                continue
            for level, number in domains.items():
                depth = LEVELS.index(level)
                wanted = min(part.quorum.write_quorum, number)
                for turn, count in enumerate(counts):
                    write_set = part.quorum.write_set(turn)
                    if len({paths[index][: depth + 1] for index in write_set}) < wanted:
                        self.counts[level] += count

    def _domains_in(self, allowed: tuple[str, ...]) -> dict[str, int]:
        """Return the number of domains at each level in the allowed regions; () for all."""
        found = self._domains.get(allowed)
        if found is None:
            paths = [info.path for info in in_regions(self._located, allowed)]
            found = self._domains[allowed] = domains_by_level(paths)
        return found
