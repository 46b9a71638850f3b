"""The order in which proxies should serve a stream (rules PRX-3, PRX-41).

Every proxy computes the same order from the same members and assignments. Pure.
"""

from collections.abc import Collection, Mapping, Sequence

from .registration import ProxyMember
from .rendezvous import preference


class Routing:
    """The preferred proxies for one list of members; replaced when the list changes."""

    def __init__(
        self,
        members: Sequence[ProxyMember],
        assigned: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        """``assigned``: by region, the addresses of streams that are assigned to a proxy of it."""
        self._assigned = assigned or {}
        self._by_region: dict[str, dict[str, ProxyMember]] = {}
        for member in members:
            if member.is_accepting:
                self._by_region.setdefault(member.region, {})[member.address] = member

    def preferred(
        self, key: str, home: str, *, without: Collection[str] = ()
    ) -> ProxyMember | None:
        """Return the first member for ``key`` whose address is not in ``without``, or None.

        The home region comes first, then the other regions: a stream whose home region is lost is
        served from another region and returns when its home region is back. With ``home`` "" the
        stream has none, and all regions are ordered by the hash. An assignment is valid
        within its region, while the assigned member accepts streams.
        """
        for region in self._regions(key, home):
            members = self._by_region.get(region, {})
            assigned = self._assigned.get(region, {}).get(key, "")
            if assigned in members and assigned not in without:
                return members[assigned]
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
