"""Orders of given region counts around the cycle of E indices, for E > WQ (rule PLC-15).

``stepped_order`` constructs an order in which the write sets differ as little as possible.
``find_order`` searches all orders, within a budget of steps.
"""

from collections.abc import Mapping
from math import gcd

from ..core.protocol.quorum import Quorum
from .layout_rank import Layout, Level, level_of
from .search_budget import SearchBudget


def interleaved_order(counts: Mapping[str | None, int]) -> Layout:
    """Return the regions in turn until each has its count."""
    left = dict(counts)
    order: list[str | None] = []
    while any(left.values()):
        for name in left:
            if left[name] > 0:
                left[name] -= 1
                order.append(name)
    return tuple(order)


def stepped_order(quorum: Quorum, counts: Mapping[str | None, int]) -> Layout:
    """Return an order that gives each region to places that are WQ apart.

    A copy lies in the WQ windows that end at its place, so copies that are WQ apart cover the
    cycle end to end: every window holds floor(c * WQ / E) or one more of a region's c copies. If
    E and WQ have a common divisor, the steps of WQ form several rounds. Whole rounds are taken
    first, and a region that continues in another round does so one place further on, which keeps
    its largest number in a window. If E and WQ have no common divisor, or WQ divides E, the order
    reaches every ``level_bound`` except one: that of windows with two copies of each of R regions.
    """
    e, wq = quorum.ensemble_size, quorum.write_quorum
    places = stepped_places(quorum)
    steps = e // gcd(e, wq)
    names = sorted(counts, key=lambda name: (-counts[name], str(name)))
    whole = [name for name in names for _ in range(counts[name] // steps * steps)]
    rest = {name: counts[name] % steps for name in names}
    # Regions with less than one copy for each window come last, and end where the rounds end.
    small = {name: name is not None and counts[name] * wq < e for name in names}
    parts: list[str | None] = [n for n in names if n is not None and not small[n]]
    parts += [n for n in names if n is None]
    parts += [n for n in names if small[n]]
    sequence = whole + [name for name in parts for _ in range(rest[name])]
    layout: list[str | None] = [None] * e
    for place, name in zip(places, sequence, strict=True):
        layout[place] = name
    return tuple(layout)


def stepped_places(quorum: Quorum) -> list[int]:
    """Return all indices, each WQ after the one before, in as many rounds as that needs."""
    e, wq = quorum.ensemble_size, quorum.write_quorum
    rounds = gcd(e, wq)
    steps = e // rounds
    return [(start + step * wq) % e for start in range(rounds) for step in range(steps)]


def find_order(
    quorum: Quorum, counts: Mapping[str | None, int], worst: Level, budget: SearchBudget
) -> Layout | None:
    """Return the first order, most spread first, of a level not worse than ``worst``.

    Returns None if there is none, or if the budget was exceeded first. Rotations of a cycle are
    the same order, so the first region is fixed at index 0.
    """
    return _OrderSearch(quorum, counts, worst, budget).run()


class _OrderSearch:
    """A backtracking search that gives up a prefix as soon as one window of it is too bad."""

    def __init__(
        self, quorum: Quorum, counts: Mapping[str | None, int], worst: Level, budget: SearchBudget
    ) -> None:
        self._quorum = quorum
        self._worst = worst
        self._budget = budget
        self._left = dict(counts)
        self._prefix: list[str | None] = []
        self._recent: dict[str | None, int] = {}
        self._same_max = (
            quorum.write_quorum - quorum.ack_quorum if worst[0] == 0 else quorum.write_quorum
        )
        r = quorum.min_regions
        self._regions_min = 0 if r <= 1 else r + 1 if worst[0] == 0 else r
        self._step_cost = 1 + quorum.write_quorum // 8
        self._is_sturdy = worst == (1, 0) and r > 1

    def run(self) -> Layout | None:
        first = next(name for name, count in self._left.items() if count > 0)
        return self._extend(first)

    def _extend(self, name: str | None) -> Layout | None:
        if not self._budget.take(self._step_cost):
            return None
        prefix, left = self._prefix, self._left
        prefix.append(name)
        if self._is_window_good(name):
            if len(prefix) == self._quorum.ensemble_size:
                if level_of(self._quorum, prefix, self._worst) is not None:
                    return tuple(prefix)
            else:
                left[name] -= 1
                before = self._recent.get(name, -1)
                self._recent[name] = len(prefix) - 1
                found = self._extend_by_any()
                if found is not None:
                    return found
                if before < 0:
                    del self._recent[name]
                else:
                    self._recent[name] = before
                left[name] += 1
        prefix.pop()
        return None

    def _extend_by_any(self) -> Layout | None:
        recent, left = self._recent, self._left
        names = [name for name, count in left.items() if count > 0]
        names.sort(key=lambda n: (recent.get(n, -1), -left[n], str(n)))
        for name in names:
            found = self._extend(name)
            if found is not None or self._budget.was_exceeded:
                return found
        return None

    def _is_window_good(self, name: str | None) -> bool:
        """Return whether the last window, if it is complete, permits the level."""
        window = self._prefix[-self._quorum.write_quorum :]
        if name is not None and window.count(name) > self._same_max:
            return False
        if len(window) < self._quorum.write_quorum or not self._regions_min:
            return True
        known = {region for region in window if region is not None}
        if self._is_sturdy and len(known) == self._quorum.min_regions:
            return all(window.count(region) > 1 for region in known)
        return len(known) >= self._regions_min
