"""Region-aware placement: chooses a region layout, then racks, then bookies by free space.

See rules PLC-15 and PLC-16. One region, or R = 1, needs no special case: the same search spreads
the copies over racks.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from random import Random

from ..core.protocol.bookie_id import BookieId, Region
from ..core.protocol.errors import NotEnoughBookiesError
from ..core.protocol.placement import BookieInfo
from ..core.protocol.quorum import Quorum
from .completions import best_completions
from .layout_rank import Layout
from .layouts import BestLayouts, best_layouts

_WEIGHT_OF_MEDIAN_MAX = 3
"""A bookie's weight is its free space, capped at this many times the median, as in BookKeeper. The
weight of a slow or busy bookie is lower (rule PLC-27)."""

_CACHE_SIZE_MAX = 256


class RegionAwarePlacement:
    """The ``PlacementPolicy`` of Rhumbline: never weakens the rule, and bounds its searches.

    A search takes at most 5 ms of the event loop with E = 64, ten regions and 1,000 bookies.
    ``inexact_searches`` counts those that ended before all layouts were ruled out: their layouts
    are legal, but possibly not the best ones.
    """

    def __init__(self) -> None:
        self.searches = 0
        self.inexact_searches = 0
        self._layouts: dict[tuple[object, ...], BestLayouts] = {}

    def _count(self, is_exhaustive: bool) -> None:
        self.searches += 1
        self.inexact_searches += not is_exhaustive

    def statistics(self) -> dict[str, int]:
        """Return the counters by name."""
        return {"searches": self.searches, "inexact_searches": self.inexact_searches}

    def new_ensemble(
        self,
        quorum: Quorum,
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
        near: Region | None = None,
    ) -> tuple[BookieId, ...]:
        """Choose E distinct bookies in a best legal layout. Raises NotEnoughBookiesError."""
        available = _count_by_region(candidates, quorum.ensemble_size)
        key = (quorum, tuple(available.items()), near)
        layouts = self._layouts.get(key)
        if layouts is None:
            if len(self._layouts) >= _CACHE_SIZE_MAX:
                self._layouts.clear()
            layouts = self._layouts[key] = best_layouts(quorum, available, near)
            self._count(layouts.is_exhaustive)
        if not layouts:
            raise NotEnoughBookiesError(_explain(quorum, candidates))
        layout = random.choice(layouts)
        return _fill(layout, [None] * quorum.ensemble_size, candidates, random)

    def replace(
        self,
        quorum: Quorum,
        ensemble: Sequence[BookieInfo],
        failed: Collection[int],
        candidates: Sequence[BookieInfo],
        *,
        random: Random,
    ) -> tuple[BookieId, ...]:
        """Choose others for the ``failed`` indices, still legal. Raises NotEnoughBookiesError."""
        assert len(ensemble) == quorum.ensemble_size
        vacant = sorted(failed)
        members = {info.bookie for info in ensemble}
        spare = [info for info in candidates if info.bookie not in members]
        fixed = [info.region for info in ensemble]
        layouts = best_completions(quorum, fixed, vacant, _count_by_region(spare, len(vacant)))
        self._count(layouts.is_exhaustive)
        if not layouts:
            kept = [info for index, info in enumerate(ensemble) if index not in vacant]
            raise NotEnoughBookiesError(_explain(quorum, [*kept, *spare]))
        layout = random.choice(layouts)
        kept_or_none = [None if i in vacant else info for i, info in enumerate(ensemble)]
        return _fill(layout, kept_or_none, spare, random)


def _count_by_region(candidates: Sequence[BookieInfo], size_max: int) -> dict[str | None, int]:
    counts = Counter(info.region for info in candidates)
    return {name: min(counts[name], size_max) for name in sorted(counts, key=str)}


def _fill(
    layout: Layout,
    members: Sequence[BookieInfo | None],
    candidates: Sequence[BookieInfo],
    random: Random,
) -> tuple[BookieId, ...]:
    """Choose a bookie of the layout's region for each empty index: least used rack, then weight."""
    chosen = list(members)
    regions: dict[Region | None, _RegionChoice] = {}
    for info in sorted(candidates, key=lambda info: info.bookie):
        if info.region not in regions:
            regions[info.region] = _RegionChoice()
        regions[info.region].free.append(info)
    for member in members:
        if member is not None and member.region in regions:
            regions[member.region].use(member.rack)
    for index, name in enumerate(layout):
        if chosen[index] is None:
            chosen[index] = regions[None if name is None else Region(name)].take(random)
    return tuple(info.bookie for info in chosen if info is not None)


class _RegionChoice:
    """The bookies of one region that are free, and the racks in use."""

    __slots__ = ("_used", "free")

    def __init__(self) -> None:
        self.free: list[BookieInfo] = []
        self._used: dict[str | None, int] = {}

    def use(self, rack: str | None) -> None:
        """Count a member in this rack."""
        self._used[rack] = self._used.get(rack, 0) + 1

    def take(self, random: Random) -> BookieInfo:
        """Take a free bookie of a rack that is used least, at random by free space."""
        uses = [self._used.get(info.rack, 0) for info in self.free]
        fewest = min(uses)
        local = [info for info, count in zip(self.free, uses, strict=True) if count == fewest]
        taken = random.choices(local, weights=_weights(local))[0]
        self.use(taken.rack)
        self.free.remove(taken)
        return taken


def _weights(bookies: Sequence[BookieInfo]) -> list[int]:
    sizes = [info.free_bytes for info in bookies]
    cap = max(1, sorted(sizes)[len(sizes) // 2] * _WEIGHT_OF_MEDIAN_MAX)
    return [
        min(max(size, 1), cap) * info.share_percent
        for size, info in zip(sizes, bookies, strict=True)
    ]


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
