"""The weights by which placement draws among bookies that are equally well placed (rule PLC-15)."""

from collections.abc import Sequence

from ...core.protocol.placement import BookieInfo

_WEIGHT_OF_MEDIAN_MAX = 3
"""A bookie's weight is its free space, capped at this many times the median, as in BookKeeper. The
weight of a slow or busy bookie is lower (rule PLC-27)."""


def weight_cap(sizes: Sequence[int]) -> int:
    """Return the largest weight before shares, for the free bytes of a region's bookies, sorted."""
    return max(1, sizes[len(sizes) // 2] * _WEIGHT_OF_MEDIAN_MAX)


def bookie_weights(bookies: Sequence[BookieInfo]) -> list[int]:
    """Return a positive weight for each of the bookies of one region."""
    sizes = [info.free_bytes for info in bookies]
    cap = weight_cap(sorted(sizes))
    return [
        min(max(size, 1), cap) * info.share_percent
        for size, info in zip(sizes, bookies, strict=True)
    ]
