"""The proxies that watch each other: each watches a few successors on a ring (rule PRX-31). Pure.

Every proxy computes the same ring from the same addresses, so each proxy is watched by the same
number of others, and any proxy knows which ones watch an address.
"""

from collections.abc import Iterable
from hashlib import blake2b


def watched_by(address: str, members: Iterable[str], count: int) -> tuple[str, ...]:
    """Return the addresses that the proxy at ``address`` watches: its next ``count`` on the ring.

    ``members`` are the addresses of all proxies of its region, with or without itself.
    """
    return _neighbours(address, members, count, step=1)


def watchers_of(address: str, members: Iterable[str], count: int) -> tuple[str, ...]:
    """Return the addresses of the proxies that watch ``address``, the nearest on the ring first."""
    return _neighbours(address, members, count, step=-1)


def _neighbours(address: str, members: Iterable[str], count: int, step: int) -> tuple[str, ...]:
    ring = sorted({*members, address}, key=_place)
    start = ring.index(address)
    distances = range(1, min(count, len(ring) - 1) + 1)
    return tuple(ring[(start + step * distance) % len(ring)] for distance in distances)


def _place(address: str) -> tuple[bytes, str]:
    return blake2b(address.encode(), digest_size=8).digest(), address
