"""Whether moving copies would make an ensemble better, and which ones: after a region's return."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from ..core.protocol.quorum import Quorum
from .layouts import best_completions, rank

_COUNTED = 3  # of a rank: robust, not fragile, number of regions; evenness is not worth a copy


def indices_to_move(
    quorum: Quorum, layout: Sequence[str | None], available: Mapping[str | None, int]
) -> tuple[int, ...]:
    """The indices to give to other bookies, () if nothing is gained.

    An illegal layout is made legal by as few moves as possible; a legal one gains by one move at a
    time. ``available``: bookies by region that are not members. Moving until () comes back ends,
    because each move makes the rank strictly better.
    """
    now = rank(quorum, layout, None)
    sizes = (1,) if now is not None else range(1, len(layout) + 1)
    best: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    for size in sizes:
        for holes in combinations(range(len(layout)), size):
            for better in best_completions(quorum, layout, holes, available)[:1]:
                found = rank(quorum, better, None)
                assert found is not None
                if now is not None and found[:_COUNTED] >= now[:_COUNTED]:
                    continue
                if best is None or (found, holes) < best:
                    best = found, holes
        if best is not None:
            return best[1]
    return ()
