"""Divides the time of a hunt over plans: a plan gets its share of the time, not of the seeds.

A part of the time is divided by fixed shares, so that every plan keeps running. The rest goes to
the plans that find most: it is divided in proportion to the new situations (see ``coverage``) that
each of them found per second lately. Plans run in the order of their *virtual time*, which is their
running time divided by their weight; the plan whose virtual time is lowest runs next. Weights may
change at any time, and every decision follows from the measurements alone.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

SEEDS_MAX = 20
"""Maximum number of seeds in a batch."""

FIXED_PART = 0.5
"""The part of the time that is divided by the fixed shares alone."""

MEMORY_S = 10.0
"""Findings of a plan count half after this running time of the plan, in seconds."""

_SECONDS_GUESS = 0.5
"""The time of one seed of a plan that has not run yet, in seconds."""


class SeedBatch(NamedTuple):
    """Some seeds of one plan, which one process runs one after the other."""

    plan: str
    seeds: tuple[int, ...]


@dataclass(slots=True)
class _PlanTime:
    share: float
    seeds: Iterator[int]
    finished: int = 0
    spent_s: float = 0.0
    virtual_s: float = 0.0
    """The running time, each second divided by the weight that the plan had then."""
    charged_s: float = 0.0
    """The part of ``virtual_s`` that is charged in advance, for the seeds in progress."""
    in_progress: int = 0
    recent_found: float = 0.0
    recent_s: float = 0.0

    @property
    def seconds_a_seed(self) -> float:
        return self.spent_s / self.finished if self.finished else _SECONDS_GUESS

    @property
    def found_per_s(self) -> float:
        """New situations per second lately; older ones count less."""
        return self.recent_found / self.recent_s if self.recent_s else 0.0


class TimeShares:
    """Chooses the next seeds, and learns what the finished ones found.

    ``shares``: the weight of each plan; plans with weight 0 are left out. ``seeds``: for each plan
    its seeds, which may be endless.
    """

    def __init__(self, shares: Mapping[str, float], seeds: Mapping[str, Iterable[int]]) -> None:
        self._plans = {
            plan: _PlanTime(share, iter(seeds[plan])) for plan, share in shares.items() if share > 0
        }
        self._ended: dict[str, None] = {}
        self._known: dict[int, None] = {}
        """All situations that were found so far."""

    @property
    def situation_count(self) -> int:
        """The number of different situations that all plans found."""
        return len(self._known)

    def weight(self, plan: str) -> float:
        """Return the part of the time that a plan gets at present; those of all plans add up to 1.

        A plan that has not run yet gets its fixed share.
        """
        fixed = self._plans[plan].share / sum(time.share for time in self._plans.values())
        found = {name: time.share * time.found_per_s for name, time in self._plans.items()}
        total = sum(found.values())
        if not total or not self._plans[plan].finished:
            return fixed
        return FIXED_PART * fixed + (1 - FIXED_PART) * found[plan] / total

    def take(self, batch_s: float) -> SeedBatch | None:
        """Return seeds that take about ``batch_s`` seconds, at least one; None: none is left."""
        while True:
            left = [plan for plan in self._plans if plan not in self._ended]
            if not left:
                return None
            plan = min(left, key=lambda name: self._plans[name].virtual_s)
            time = self._plans[plan]
            count = int(batch_s / time.seconds_a_seed) if time.finished else 1
            seeds = tuple(islice(time.seeds, max(1, min(count, SEEDS_MAX))))
            if seeds:
                time.in_progress += len(seeds)
                charge = len(seeds) * time.seconds_a_seed / self.weight(plan)
                time.charged_s += charge
                time.virtual_s += charge
                return SeedBatch(plan, seeds)
            self._ended[plan] = None

    def finished(self, plan: str, seconds: float, situations: Iterable[int] = ()) -> int:
        """Charge a plan with the running time of one of its seeds, which reached ``situations``.

        Returns the number of situations that no seed reached before.
        """
        time = self._plans[plan]
        before = len(self._known)
        self._known.update(dict.fromkeys(situations))
        new = len(self._known) - before
        charge = time.charged_s / time.in_progress
        time.charged_s -= charge
        time.in_progress -= 1
        time.finished += 1
        time.spent_s += seconds
        kept = 0.5 ** (seconds / MEMORY_S)
        time.recent_found = time.recent_found * kept + new
        time.recent_s = time.recent_s * kept + seconds
        time.virtual_s += seconds / self.weight(plan) - charge
        return new
