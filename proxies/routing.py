"""The order in which proxies should serve a stream (rule PRX-3).

Every proxy computes the same order from the same members. Pure.
"""

from collections.abc import Collection, Sequence

from .registration import ProxyMember
from .rendezvous import preference


class Routing:
    """The preferred proxies for one list of members; replaced when the list changes."""

    def __init__(self, members: Sequence[ProxyMember]) -> None:
        self._by_region: dict[str, dict[str, ProxyMember]] = {}
        for member in members:
            if member.is_accepting:
                self._by_region.setdefault(member.region, {})[member.address] = member

    def preferred(
        self, key: str, home: str, *, without: Collection[str] = ()
    ) -> ProxyMember | None:
        """Return the first member for ``key`` whose address is not in ``without``, or None.

        The home region comes first, then the other regions: a stream whose home region is lost is
        served from another region and returns when its home region is back.
        """
        for region in self._regions(key, home):
            members = self._by_region.get(region, {})
            for address in preference(key, members):
                if address not in without:
                    return members[address]
        return None

    def ordered(self, key: str, home: str) -> list[str]:
        """Return the addresses of all members in the order of ``preferred``."""
        regions = self._regions(key, home)
        return [
            address
            for region in regions
            for address in preference(key, self._by_region.get(region, {}))
        ]

    def _regions(self, key: str, home: str) -> list[str]:
        return [home, *preference(key, (region for region in self._by_region if region != home))]


def stream_key(namespace: str, stream: str) -> str:
    """Return the name of a stream in the order of preference and in claims."""
    return f"{namespace}/{stream}"
