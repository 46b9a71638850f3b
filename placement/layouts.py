"""Exact search for region layouts: the region of each ensemble index (rules PLC-9, PLC-15).

A layout is a tuple of E region names (None: unknown). The search is exhaustive over the number of
bookies from each region. If E > WQ, the order matters too, and orders are searched by backtracking.
The input is the counts of a few dozen bookies in a few regions, so an exact search is cheap. It
never misses an existing legal layout, as BookKeeper's greedy search does.

Layouts are ranked by these criteria, in order: legal (required), robust, not fragile, more regions,
more even spread, more copies near the writer. The caller chooses among equal ones at random.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement

from ..core.protocol.quorum import Quorum, QuorumView

Layout = tuple[str | None, ...]
Rank = tuple[int, ...]

_ARRANGEMENTS_MAX = 20_000
"""Limit of backtracking steps for one count vector; E <= 12 in 6 regions needs far fewer."""


def rank(quorum: Quorum, layout: Sequence[str | None], near: str | None) -> Rank | None:
    """Return the rank of a layout, lower is better; None if it is not legal."""
    view = QuorumView(quorum, layout)
    if not view.is_legal():
        return None
    counts = [layout.count(name) for name in view.known_regions()]
    return (
        int(not view.is_robust()),
        int(view.is_fragile()),
        -len(counts),
        max(counts, default=0) - min(counts, default=0),
        -sum(1 for name in layout if name is not None and name == near),
    )


def best_layouts(
    quorum: Quorum, available: Mapping[str | None, int], near: str | None
) -> list[Layout]:
    """Return all layouts of the best possible rank, one for each count vector.

    ``available`` is the number of bookies by region. The list is empty if no layout is legal.
    """
    names = sorted(available, key=str)
    limits = [min(available[name], quorum.ensemble_size) for name in names]
    vectors = [
        dict(zip(names, counts, strict=True))
        for counts in _count_vectors(quorum.ensemble_size, limits)
    ]
    bounds = [(_rank_bound(quorum, counts, near), counts) for counts in vectors]
    best: list[Layout] = []
    best_rank: Rank | None = None
    for bound, counts in sorted(bounds, key=lambda pair: pair[0]):
        if best_rank is not None and bound > best_rank:
            break
        layout = _arrange(quorum, counts, near, bound)
        if layout is None:
            continue
        found = rank(quorum, layout, near)
        assert found is not None
        if best_rank is None or found < best_rank:
            best, best_rank = [layout], found
        elif found == best_rank:
            best.append(layout)
    return best


def _rank_bound(quorum: Quorum, counts: Mapping[str | None, int], near: str | None) -> Rank:
    """Return a lower bound for the ranks of all orders of these counts."""
    e, wq, aq, r = (
        quorum.ensemble_size,
        quorum.write_quorum,
        quorum.ack_quorum,
        quorum.min_regions,
    )
    known = [count for name, count in counts.items() if name is not None and count]
    # Some write set holds at least the average number of each region's copies.
    most = max((-(-count * wq // e) for count in known), default=0)
    may_be_robust = wq - most >= aq and (r <= 1 or len(known) > r)
    may_be_sturdy = wq > aq
    return (
        int(not may_be_robust),
        int(not may_be_sturdy),
        -len(known),
        max(known, default=0) - min(known, default=0),
        -counts.get(near, 0) if near is not None else 0,
    )


def best_completions(
    quorum: Quorum,
    fixed: Sequence[str | None],
    vacant: Sequence[int],
    available: Mapping[str | None, int],
    near: str | None = None,
) -> list[Layout]:
    """Return the best legal layouts that keep ``fixed`` except at the indices in ``vacant``."""
    names = [name for name in sorted(available, key=str) if available[name] > 0]
    best: list[Layout] = []
    best_rank: Rank | None = None
    if quorum.ensemble_size == quorum.write_quorum:  # order does not matter
        choices = _multisets(names, available, len(vacant))
    else:
        choices = _assignments(names, dict(available), len(vacant))
    for choice in choices:
        layout = list(fixed)
        for index, name in zip(vacant, choice, strict=True):
            layout[index] = name
        found = rank(quorum, layout, near)
        if found is None:
            continue
        moved = sum(1 for index, name in zip(vacant, choice, strict=True) if fixed[index] != name)
        found = (*found, moved)  # prefer the failed bookie's region if all else is equal
        if best_rank is None or found < best_rank:
            best, best_rank = [tuple(layout)], found
        elif found == best_rank:
            best.append(tuple(layout))
    return best


def _count_vectors(total: int, limits: Sequence[int]) -> Iterator[tuple[int, ...]]:
    if not limits:
        if total == 0:
            yield ()
        return
    rest_max = sum(limits[1:])
    for count in range(max(0, total - rest_max), min(total, limits[0]) + 1):
        for rest in _count_vectors(total - count, limits[1:]):
            yield (count, *rest)


def _multisets(
    names: Sequence[str | None], available: Mapping[str | None, int], size: int
) -> Iterator[tuple[str | None, ...]]:
    for choice in combinations_with_replacement(names, size):
        if all(choice.count(name) <= available[name] for name in dict.fromkeys(choice)):
            yield choice


def _assignments(
    names: Sequence[str | None], left: dict[str | None, int], size: int
) -> Iterator[tuple[str | None, ...]]:
    if size == 0:
        yield ()
        return
    for name in names:
        if left[name] > 0:
            left[name] -= 1
            for rest in _assignments(names, left, size - 1):
                yield (name, *rest)
            left[name] += 1


def _arrange(
    quorum: Quorum, counts: dict[str | None, int], near: str | None, bound: Rank
) -> Layout | None:
    """Return the best order for these counts; None if no order is legal."""
    flat = tuple(_interleave(counts))
    flat_rank = rank(quorum, flat, near)
    if quorum.ensemble_size == quorum.write_quorum or flat_rank == bound:
        return flat if flat_rank is not None else None  # order does not matter, or is optimal
    best = None if flat_rank is None else (flat_rank, flat)
    for layout in _orders(counts):
        found = rank(quorum, layout, near)
        if found is not None and (best is None or found < best[0]):
            best = found, layout
            if found == bound:
                break
    return None if best is None else best[1]


def _interleave(counts: Mapping[str | None, int]) -> Iterator[str | None]:
    left = dict(counts)
    while any(left.values()):
        for name in left:
            if left[name] > 0:
                left[name] -= 1
                yield name


def _orders(counts: dict[str | None, int]) -> Iterator[Layout]:
    """Yield distinct orders, most spread first, in at most ``_ARRANGEMENTS_MAX`` steps."""
    left = dict(counts)
    total = sum(left.values())
    steps = 0

    def extend(prefix: tuple[str | None, ...]) -> Iterator[Layout]:
        nonlocal steps
        if len(prefix) == total:
            yield prefix
            return
        recent = {name: index for index, name in enumerate(prefix)}
        for name in sorted(left, key=lambda n: (recent.get(n, -1), -left[n], str(n))):
            if left[name] == 0 or steps >= _ARRANGEMENTS_MAX:
                continue
            steps += 1
            left[name] -= 1
            yield from extend((*prefix, name))
            left[name] += 1

    # Rotations of a cyclic order are the same layout: fix the region at index 0.
    first = next((name for name in counts if counts[name] > 0), None)
    if total == 0:
        yield ()
        return
    left[first] -= 1
    yield from extend((first,))
