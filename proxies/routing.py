"""Who should serve a stream: an order of proxies that each of them computes alike. Pure."""

from collections.abc import Collection, Sequence

from .hash_ring import HashRing, region_order
from .membership import ProxyMember


class Routing:
    """The routes over one set of members; made again when it changes."""

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
        """The first member for ``key`` whose address is not in ``without``.

        In the home region first, then in other regions: a stream whose home region is lost is
        served from another one, and goes home when that is back.
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
    """How a stream is named on rings and in claims."""
    return f"{namespace}/{stream}"
