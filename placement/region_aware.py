"""Region-aware placement: chooses a region layout, then racks, then bookies by free space.

See rules PLC-15 and PLC-16. One region, or R = 1, needs no special case: the same search spreads
the copies over racks.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any

from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.errors import NotEnoughBookiesError
from ..core.protocol.placement import NO_RULE, SPREAD_LEVELS, BookieInfo, SpreadRule
from ..core.protocol.quorum import Quorum
from .completions import best_completions
from .layouts import BestLayouts, best_layouts
from .search_budget import STEPS_MAX, SearchBudget
from .spread.known_candidates import CandidateCache, KnownCandidates
from .spread.spread_members import MemberChoice

_CACHE_SIZE_MAX = 256


class RegionAwarePlacement:
    """The ``PlacementPolicy`` of Rhumbline: never weakens the rule, and bounds its searches.

    A search takes at most 5 ms of the event loop with E = 64, ten regions and 1,000 bookies.
    ``inexact_searches`` counts those that ended before all layouts were ruled out: their layouts
    are legal, but possibly not the best ones. ``crowded`` counts by level the ensembles in which a
    write set lies in fewer zones, racks or hosts than there are (rule PLC-28).
    """

    def __init__(self) -> None:
        self.searches = 0
        self.inexact_searches = 0
        self.crowded = dict.fromkeys(SPREAD_LEVELS, 0)
        self._candidates = CandidateCache()
        self._members = MemberChoice()
        self._layouts: dict[tuple[object, ...], BestLayouts] = {}

    def statistics(self) -> dict[str, Any]:
        """Return the counters by name."""
        return {
            "searches": self.searches,
            "inexact_searches": self.inexact_searches,
            "crowded": dict(self.crowded),
        }

    def _count_crowded(
        self,
        quorum: Quorum,
        chosen: Sequence[BookieInfo],
        known: KnownCandidates,
    ) -> None:
        for level in known.crowded_levels(quorum, [info.path for info in chosen]):
            self.crowded[level] += 1

    def new_ensemble(
        self,
        quorum: Quorum,
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        near: Region | None = None,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieId, ...]:
        """Choose E distinct bookies in a best legal layout. Raises NotEnoughBookiesError."""
        known = self._candidates.find(candidates)
        available = _limited(known.counts, quorum.ensemble_size)
        key = (quorum, tuple(available.items()), near)
        layouts = self._layouts.get(key)
        steps = STEPS_MAX
        if layouts is None:
            if len(self._layouts) >= _CACHE_SIZE_MAX:
                self._layouts.clear()
            layouts = self._layouts[key] = best_layouts(quorum, available, near)
            steps = layouts.steps_left
            self.searches += 1
            self.inexact_searches += not layouts.is_exhaustive
        if not layouts:
            raise NotEnoughBookiesError(_explain(quorum, candidates))
        budget = SearchBudget(steps)
        chosen = self._members.new(quorum, layouts, known, near, random, budget, rule)
        self.inexact_searches += budget.was_exceeded
        self._count_crowded(quorum, chosen, known)
        return tuple(info.bookie for info in chosen)

    def replace(
        self,
        quorum: Quorum,
        ensemble: Sequence[BookieInfo],
        failed: Collection[int],
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        rule: SpreadRule = NO_RULE,
    ) -> tuple[BookieId, ...]:
        """Choose others for the ``failed`` indices, still legal. Raises NotEnoughBookiesError."""
        assert len(ensemble) == quorum.ensemble_size
        vacant = sorted(failed)
        known = self._candidates.find(candidates)
        spare = known.counts_without([info.bookie for info in ensemble])
        fixed = [info.region for info in ensemble]
        layouts = best_completions(quorum, fixed, vacant, _limited(spare, len(vacant)))
        self.searches += 1
        if not layouts:
            self.inexact_searches += not layouts.is_exhaustive
            ids = {info.bookie for index, info in enumerate(ensemble) if index in vacant}
            usable = {info.bookie: info for info in (*ensemble, *candidates)}
            left = [info for bookie, info in usable.items() if bookie not in ids]
            raise NotEnoughBookiesError(_explain(quorum, left))
        budget = SearchBudget(STEPS_MAX)
        chosen = self._members.replacements(
            quorum, layouts, ensemble, vacant, known, random, budget, rule
        )
        self.inexact_searches += not layouts.is_exhaustive or budget.was_exceeded
        self._count_crowded(quorum, chosen, known)
        return tuple(info.bookie for info in chosen)


def _limited(counts: Mapping[str | None, int], size_max: int) -> dict[str | None, int]:
    return {name: min(count, size_max) for name, count in counts.items()}


def _explain(quorum: Quorum, candidates: Sequence[BookieInfo]) -> str:
    counts = Counter(info.region or "unknown region" for info in candidates)
    have = ", ".join(f"{name}: {counts[name]}" for name in sorted(counts)) or "none"
    if len(candidates) < quorum.ensemble_size:
        return f"{quorum} needs {quorum.ensemble_size} writable bookies, there are: {have}"
    regions = sum(1 for name in counts if name != "unknown region")
    if regions < quorum.min_regions:
        return f"{quorum} needs bookies in {quorum.min_regions} regions, there are: {have}"
    return (
        f"no ensemble of {quorum} satisfies the region rule for every write set; there are: {have}"
    )
