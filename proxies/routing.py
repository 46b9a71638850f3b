"""The order in which proxies should serve a stream (rule PRX-3).

Every proxy computes the same order from the same members. Pure.
"""

from collections.abc import Collection, Sequence

from .hash_ring import HashRing, region_order
from .membership import ProxyMember


class Routing:
    """The preferred proxies for one list of members; replaced when the list changes."""

    def __init__(self, members: Sequence[ProxyMember]) -> None:
        self._by_address = {member.address: member for member in members if member.is_accepting}
        self._regions = sorted(dict.fromkeys(m.region for m in self._by_address.values()))
        self._rings = {
            region: HashRing(m.address for m in self._by_address.values() if m.region == region)
            for region in self._regions
        }

    def preferred(
        self, key: str, home: str, *, without: Collection[str] = ()
    ) -> ProxyMember | None:
        """Return the first member for ``key`` whose address is not in ``without``, or None.

        The home region comes first, then the other regions: a stream whose home region is lost is
        served from another region and returns when its home region is back.
        """
        for region in region_order(key, home, self._regions):
            ring = self._rings.get(region)
            if ring is None:
                continue
            for address in ring.preference(key):
                if address not in without:
                    return self._by_address[address]
        return None


def stream_key(namespace: str, stream: str) -> str:
    """Return the name of a stream on hash rings and in claims."""
    return f"{namespace}/{stream}"
