"""Decides if an ensemble can acknowledge, perhaps with other bookies in place of some. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from ...core.protocol.placement import LEVELS, Path
from ...core.protocol.quorum import Quorum, QuorumView

_TRIALS_MAX = 500
"""Choices of replacements that are tried. If none of them suffices, writes count as blocked."""


@lru_cache(maxsize=50_000)
def can_be_replaced(
    quorum: Quorum,
    members: tuple[Path, ...],
    able: int,
    spare: tuple[tuple[Path, int], ...],
    rule: tuple[tuple[str, int], ...],
) -> bool:
    """Return whether replacements of members let every write set be acknowledged.

    The arguments are those of ``Replacement``. Cached, because few combinations occur.
    """
    return Replacement(quorum, members, able, dict(spare), rule).exists()


class Replacement:
    """The possible replacements of the members of an ensemble that accept no adds."""

    def __init__(
        self,
        quorum: Quorum,
        members: Sequence[Path],
        able: int,
        spare: Mapping[Path, int],
        rule: Sequence[tuple[str, int]],
    ) -> None:
        """``able``: bit mask of the members that accept adds. ``spare``: number of other bookies
        that may join, by location."""
        self._quorum = quorum
        self._paths = list(members)
        self._able = able
        self._left = dict(spare)
        self._rule = [(LEVELS.index(level) + 1, number) for level, number in rule]
        self._vacant = [i for i in range(quorum.ensemble_size) if not able >> i & 1]
        self._full_masks = QuorumView(quorum, [path[0] for path in members]).full_masks
        self._trials = 0

    def exists(self) -> bool:
        """Return whether some replacement lets every write set be acknowledged.

        Of a large ensemble not all of them are tried, so the answer may be no although there is
        one.
        """
        return self._may_exist() and self._fill(0, self._able, 0)

    def _may_exist(self) -> bool:
        """Return whether the numbers of bookies and regions suffice, wherever they are put."""
        count = sum(self._left.values())
        regions = {path[0] for path in self._left if path[0] is not None}
        for full in self._full_masks:
            able = full & self._able
            fillable = min((full & ~able).bit_count(), count)
            if able.bit_count() + fillable < self._quorum.ack_quorum:
                return False
            inside = {self._paths[i][0] for i in self._vacant_or_able(able)} - {None}
            reachable = len(inside) + min(fillable, len(regions - inside))
            if self._quorum.min_regions > 1 and reachable < self._quorum.min_regions:
                return False
        return True

    def _vacant_or_able(self, mask: int) -> Iterator[int]:
        return (i for i in range(self._quorum.ensemble_size) if mask >> i & 1)

    def _fill(self, position: int, able: int, added: int) -> bool:
        """Fill the vacant indices from ``position`` on, and return whether that suffices."""
        if position == len(self._vacant):
            self._trials += 1
            return self._suffices(able, added)
        index = self._vacant[position]
        former = self._paths[index]
        for path in self._choices(able):
            if self._trials >= _TRIALS_MAX:
                break
            self._left[path] -= 1
            self._paths[index] = path
            bit = 1 << index
            is_found = self._fill(position + 1, able | bit, added | bit)
            self._left[path] += 1
            self._paths[index] = former
            if is_found:
                return True
        is_short = sum(self._left.values()) < len(self._vacant) - position
        return is_short and self._trials < _TRIALS_MAX and self._fill(position + 1, able, added)

    def _choices(self, able: int) -> list[Path]:
        """Return where the next bookie may come from, new regions first."""
        inside = {self._paths[i][0] for i in self._vacant_or_able(able)}
        usable = [path for path, count in self._left.items() if count > 0]
        return sorted(usable, key=lambda path: (path[0] is None, path[0] in inside, str(path)))

    def _suffices(self, able: int, added: int) -> bool:
        view = QuorumView(self._quorum, [path[0] for path in self._paths])
        return all(
            view.is_acked(full & able) and (not full & added or self._obeys(full & able))
            for full in self._full_masks
        )

    def _obeys(self, mask: int) -> bool:
        """Return whether a write set that gets new members obeys the spread rule (PLC-29)."""
        for depth, number in self._rule:
            domains = {self._paths[i][:depth] for i in self._vacant_or_able(mask)}
            if sum(1 for domain in domains if domain[-1] is not None) < number:
                return False
        return True
