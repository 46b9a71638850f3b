"""Search for copies to move so that an ensemble improves, e.g. after a region returned (PLC-17)."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ..core.protocol.quorum import Quorum
from .layouts import best_completions, rank

_COUNTED = 3  # leading parts of a rank: robust, not fragile, regions; evenness is not worth a copy


def indices_to_move(
    quorum: Quorum, layout: Sequence[str | None], available: Mapping[str | None, int]
) -> tuple[int, ...]:
    """Return the ensemble indices to move to other bookies; () if no move improves the layout.

    An illegal layout is made legal by the fewest moves; a legal one is improved one move at a time.
    ``available`` counts the bookies by region that are not members. Repeating the call ends with
    (), because each move makes the rank strictly better.
    """
    current = rank(quorum, layout, None)
    sizes = (1,) if current is not None else range(1, len(layout) + 1)
    best: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    for size in sizes:
        for vacant in combinations(range(len(layout)), size):
            for better in best_completions(quorum, layout, vacant, available)[:1]:
                found = rank(quorum, better, None)
                assert found is not None
                if current is not None and found[:_COUNTED] >= current[:_COUNTED]:
                    continue
                if best is None or (found, vacant) < best:
                    best = found, vacant
        if best is not None:
            return best[1]
    return ()
