"""Search for copies to move so that an ensemble improves, e.g. after a region returned (PLC-17)."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

from ..core.protocol.ensemble_change import (
    EVERY_SUBSET_MAX,
    fewest_replacements,
    is_replaceable,
)
from ..core.protocol.quorum import Quorum
from .completions import best_completions
from .layout_rank import LEVELS, Rank, level_of, rank

_COUNTED = 3  # leading parts of a rank: robust, not fragile, regions; evenness is not worth a copy


def indices_to_move(
    quorum: Quorum, layout: Sequence[str | None], available: Mapping[str | None, int]
) -> tuple[int, ...]:
    """Return the ensemble indices to move to other bookies; () if no move improves the layout.

    An illegal layout is made legal by the fewest moves; a legal one is improved one move at a time.
    ``available`` counts the bookies by region that are not members. Repeating the call ends with
    (), because each move makes the rank strictly better. An illegal layout of more than
    ``EVERY_SUBSET_MAX`` members may move more than the fewest, if E > WQ.
    """
    current = rank(quorum, layout, None)
    if current is not None:
        return _best_single(quorum, layout, available, current)
    for candidates in _groups(quorum, layout, available):
        best: tuple[Rank, tuple[int, ...]] | None = None
        for vacant in candidates:
            for better in best_completions(quorum, layout, vacant, available)[:1]:
                found = rank(quorum, better, None)
                assert found is not None
                if best is None or (found, vacant) < best:
                    best = found, vacant
        if best is not None:
            return best[1]
    return ()


def _groups(
    quorum: Quorum, layout: Sequence[str | None], available: Mapping[str | None, int]
) -> Iterable[Iterable[tuple[int, ...]]]:
    """Yield groups of sets of indices whose move may make the layout legal, smaller ones first."""
    if len(layout) > EVERY_SUBSET_MAX:
        for vacant in fewest_replacements(quorum, layout, available):
            yield (vacant,)
        return
    for size in range(1, len(layout) + 1):
        yield (
            vacant
            for vacant in combinations(range(len(layout)), size)
            if is_replaceable(quorum, layout, vacant, available)
        )


def _best_single(
    quorum: Quorum,
    layout: Sequence[str | None],
    available: Mapping[str | None, int],
    current: Rank,
) -> tuple[int, ...]:
    """Return the index whose move improves a legal layout most, the first of equal ones."""
    usable = [name for name in available if available[name] > 0]
    # Regions without a member are alike: one of them stands for all.
    new = [name for name in usable if name is not None and name not in layout][:1]
    better = [level for level in LEVELS if level < current[:2]]
    # A region that has members already must improve the level.
    limits = (
        {name: better[-1] for name in usable if name in layout or name is None} if better else {}
    )
    limits |= {name: (current[0], current[1]) for name in new}
    best: tuple[Rank, int] | None = None
    moved = list(layout)
    for index, name in enumerate(layout):
        for other, worst in limits.items():
            moved[index] = other
            if other == name or level_of(quorum, moved, worst) is None:
                continue
            found = rank(quorum, moved, None)
            if found is None or found[:_COUNTED] >= current[:_COUNTED]:
                continue
            if best is None or (found, index) < best:
                best = found, index
        moved[index] = name
    return () if best is None else (best[1],)
