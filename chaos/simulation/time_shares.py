"""Divides the time of a hunt over plans: a plan gets its share of the time, not of the seeds."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

SEEDS_MAX = 20
"""Maximum number of seeds in a batch."""

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
    in_progress: int = 0

    @property
    def seconds_a_seed(self) -> float:
        return self.spent_s / self.finished if self.finished else _SECONDS_GUESS

    @property
    def charged_s(self) -> float:
        """The time spent and expected, divided by the share."""
        return (self.spent_s + self.in_progress * self.seconds_a_seed) / self.share


class TimeShares:
    """Chooses the next seeds so that the running time of each plan is proportional to its share.

    ``shares``: the weight of each plan; plans with weight 0 are left out. ``seeds``: for each plan
    its seeds, which may be endless.
    """

    def __init__(self, shares: Mapping[str, float], seeds: Mapping[str, Iterable[int]]) -> None:
        self._plans = {
            plan: _PlanTime(share, iter(seeds[plan])) for plan, share in shares.items() if share > 0
        }
        self._ended: dict[str, None] = {}

    def take(self, batch_s: float) -> SeedBatch | None:
        """Return seeds that take about ``batch_s`` seconds, at least one; None: none is left."""
        while True:
            left = [plan for plan in self._plans if plan not in self._ended]
            if not left:
                return None
            plan = min(left, key=lambda name: self._plans[name].charged_s)
            time = self._plans[plan]
            count = int(batch_s / time.seconds_a_seed) if time.finished else 1
            seeds = tuple(islice(time.seeds, max(1, min(count, SEEDS_MAX))))
            if seeds:
                time.in_progress += len(seeds)
                return SeedBatch(plan, seeds)
            self._ended[plan] = None

    def finished(self, plan: str, seconds: float) -> None:
        """Charge a plan with the running time of one of its seeds, which has ended."""
        time = self._plans[plan]
        time.in_progress -= 1
        time.finished += 1
        time.spent_s += seconds
