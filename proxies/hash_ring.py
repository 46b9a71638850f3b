"""Consistent hashing of streams onto proxies (rule PRX-3).

All proxies and clients that know the same members compute the same order. When a member joins or
leaves, only its share of the streams moves. The functions here are pure. Safety does not depend on
them: a proxy with an outdated member list tries to claim a stream that another proxy owns, and is
refused.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

POINTS = 100
"""Points of each member on the ring. Shares of members differ by about 10 % (1 / sqrt(POINTS))."""


class HashRing:
    """A consistent-hash ring of members with 2^64 points."""

    def __init__(self, members: Iterable[str]) -> None:
        points = sorted(
            (_point(f"{m} {n}"), m) for m in sorted(set(members)) for n in range(POINTS)
        )
        self._points = [point for point, _ in points]
        self._members = [member for _, member in points]

    def preference(self, key: str) -> Iterator[str]:
        """Yield all members in the order of preference for ``key``."""
        count = len(self._points)
        start = bisect_right(self._points, _point(key))
        seen: dict[str, None] = {}
        for step in range(count):
            member = self._members[(start + step) % count]
            if member not in seen:
                seen[member] = None
                yield member


def region_order(key: str, home: str, regions: Sequence[str]) -> list[str]:
    """Return the regions in order of preference: the home, then the others ordered by hash.

    The order differs between keys, so the streams of a lost region are spread over all others.
    """
    others = sorted(dict.fromkeys(region for region in regions if region != home))
    return [home, *sorted(others, key=lambda region: _point(f"{key} {region}"))]


def _point(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")
