"""Consistent hashing: which proxy takes which stream, without asking anybody.

Every proxy and client that knows the same members computes the same answer. When a member comes or
goes, only its share of the streams moves. Pure; no decision here is about safety (a proxy that is
wrong about the members claims a stream that another one has, and is told so).
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

POINTS = 100
"""Points of a member on the ring: shares differ by about a tenth (one over the root of it)."""


class HashRing:
    """The members on a circle of 2^64 points."""

    def __init__(self, members: Iterable[str]) -> None:
        points = sorted(
            (_point(f"{m} {n}"), m) for m in sorted(set(members)) for n in range(POINTS)
        )
        self._points = [point for point, _ in points]
        self._members = [member for _, member in points]

    def preference(self, key: str) -> Iterator[str]:
        """All members, in the order in which they should take ``key``."""
        count = len(self._points)
        start = bisect_right(self._points, _point(key))
        seen: dict[str, None] = {}
        for step in range(count):
            member = self._members[(start + step) % count]
            if member not in seen:
                seen[member] = None
                yield member


def region_order(key: str, home: str, regions: Sequence[str]) -> list[str]:
    """Regions by preference: the home, then the others in an order that differs by key.

    So the streams of a lost region are shared by all that are left.
    """
    others = sorted(dict.fromkeys(region for region in regions if region != home))
    return [home, *sorted(others, key=lambda region: _point(f"{key} {region}"))]


def _point(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
