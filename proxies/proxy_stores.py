"""The metadata stores in which a proxy is registered, and which of them has a namespace.

A stream is claimed in the store of its namespace, among the proxies that are registered there (rule
PRX-24). Without regional stores there is one store, and nothing is looked up.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from ..core.protocol.errors import NotOwnerError
from ..core.runtime.metadata_store import MetadataStore
from .membership import WRITE, ProxyMembership
from .routing import Routing
from .write.claims import Claims

FindRegion = Callable[[str], Awaitable[str]]
"""Function from a namespace to the region in whose metadata store it is; "" for the global one."""


class RegionalProxyStore(NamedTuple):
    """The metadata store of a proxy's region, and the function that finds a namespace's store."""

    region: str
    store: MetadataStore
    find_region: FindRegion


class ProxyStore:
    """A metadata store in which the proxy is registered: the members and the claims in it."""

    def __init__(self, store: MetadataStore, membership: ProxyMembership, region: str = "") -> None:
        self.region = region
        """The region whose store it is; "" for the global one."""
        self.metadata = store
        self.membership = membership
        self.claims = Claims(store)
        self.routing = Routing(membership.members(WRITE))
        self._assigned: Mapping[str, Mapping[str, str]] = {}
        membership.on_members.append(self._update_routing)

    def assign(self, assigned: Mapping[str, Mapping[str, str]]) -> None:
        """Set the assigned addresses by region and key of the stream (rule PRX-41)."""
        self._assigned = assigned
        self._update_routing()

    def _update_routing(self) -> None:
        self.routing = Routing(self.membership.members(WRITE), self._assigned)


class ProxyStores:
    """The stores of one proxy, the global one first."""

    def __init__(self, stores: Sequence[ProxyStore], find_region: FindRegion | None = None) -> None:
        assert find_region is not None or len(stores) == 1
        self.all = tuple(stores)
        self._find_region = find_region

    @property
    def first(self) -> ProxyStore:
        """The global store."""
        return self.all[0]

    async def of(self, namespace: str) -> ProxyStore:
        """Return the store of a namespace.

        Raises NotOwnerError with a proxy of its region if this proxy is not registered in that
        store, and MetadataUnavailableError.
        """
        if self._find_region is None:
            return self.first
        region = await self._find_region(namespace)
        for store in self.all:
            if store.region == region:
                return store
        members = self.first.membership.members(WRITE)
        others = [member for member in members if member.region == region and member.is_accepting]
        raise NotOwnerError(
            f"namespace {namespace} is in the metadata store of region {region}",
            others[0].address if others else "",
        )
