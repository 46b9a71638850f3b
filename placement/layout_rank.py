"""The rank of a region layout (rules PLC-9, PLC-15), from the region counts of its write sets.

A write set is a window of WQ consecutive places of the cycle of E indices. All properties that
placement ranks follow from how many copies of each region lie in each window, so one pass around
the cycle decides them. ``QuorumView`` holds the definitions; tests compare the two.
"""

from collections.abc import Iterable, Sequence

from ..core.protocol.quorum import Quorum

Layout = tuple[str | None, ...]
"""The region of each ensemble index; None if it is unknown."""

Rank = tuple[int, ...]
"""Lower is better: not robust, fragile, regions (negative), unevenness, nearness (negative)."""

Level = tuple[int, int]
"""The part of a rank that depends on the order: not robust, fragile."""

LEVELS: tuple[Level, ...] = ((0, 0), (0, 1), (1, 0), (1, 1))


def rank(quorum: Quorum, layout: Sequence[str | None], near: str | None) -> Rank | None:
    """Return the rank of a layout, lower is better; None if it is not legal."""
    level = level_of(quorum, layout)
    if level is None:
        return None
    counts: dict[str, int] = {}
    for name in layout:
        if name is not None:
            counts[name] = counts.get(name, 0) + 1
    return (*level, *evenness(counts.values()), -counts.get(near, 0) if near is not None else 0)


def evenness(known: Iterable[int]) -> tuple[int, int]:
    """Return the parts of a rank that follow from the copies in each known region."""
    present = [count for count in known if count > 0]
    if not present:
        return 0, 0
    return -len(present), max(present) - min(present)


def level_of(quorum: Quorum, layout: Sequence[str | None], worst: Level = (1, 1)) -> Level | None:
    """Return the level of a layout; None if it is not legal, or worse than ``worst``."""
    wq, r = quorum.write_quorum, quorum.min_regions
    spare = wq - quorum.ack_quorum
    is_robust, is_sturdy = True, spare > 0
    copies: dict[str, int] = {}  # of each region in the window that moves around the cycle
    windows = quorum.ensemble_size if quorum.ensemble_size > wq else 1
    cycle = (*layout, *layout[: windows - 1])
    for step in range(wq + windows - 1):
        if step >= wq and (left := cycle[step - wq]) is not None:
            copies[left] -= 1
            if not copies[left]:
                del copies[left]
        if (name := cycle[step]) is not None:
            copies[name] = copies.get(name, 0) + 1
            if copies[name] > spare:
                is_robust = False
        if r > 1 and step >= wq - 1 and len(copies) <= r:
            if len(copies) < r:
                return None
            is_robust = False
            is_sturdy = is_sturdy and 1 not in copies.values()
        if (not is_robust or not is_sturdy) and (int(not is_robust), int(not is_sturdy)) > worst:
            return None
    return int(not is_robust), int(not is_sturdy)


def level_bound(quorum: Quorum, known: Sequence[int]) -> Level | None:
    """Return a lower bound for the level of all orders of these counts; None if none is legal.

    ``known`` are the copies in each known region. A copy lies in WQ of the E windows, so a region
    with c copies is in at most min(E, c * WQ) windows, and some window holds at least
    ceil(c * WQ / E) of its copies. For E = WQ the bound is exact.
    """
    e, wq, r = quorum.ensemble_size, quorum.write_quorum, quorum.min_regions
    spare = wq - quorum.ack_quorum
    met = sum(min(e, count * wq) for count in known)  # windows, by the regions in them
    if r > 1 and met < r * e:
        return None
    fits = all(count * wq <= spare * e for count in known)
    if r <= 1:
        return int(not fits), int(spare < 1)
    if met >= (r + 1) * e:
        return int(not fits), int(spare < 1)
    # A window of exactly R regions needs two copies of each of them; others need R + 1 regions.
    twice = sum(min(2 * e, count * wq) for count in known)
    richer = -(-max(0, 2 * r * e - twice) // (r - 1))  # windows that need R + 1 regions
    return 1, int(spare < 1 or met < r * e + richer)
