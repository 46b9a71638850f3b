"""The loads that the write proxies have published, as a proxy gives them to clients."""

import asyncio

from ...core.protocol.errors import RhumblineError
from ..balance.assignment_store import read_reports
from ..membership import WRITE
from ..proxy_stores import ProxyStores
from ..registration import ProxyMember
from .proxy_listing import LoadOf, ProxyLoad

_AGE_S_MAX = 5.0
"""Time for which what was read is given to further clients."""
_PERMILLE_PER_PERCENT = 10


class PublishedLoads:
    """A cache of the published loads, by address of the proxy."""

    def __init__(self, stores: ProxyStores) -> None:
        self._stores = stores
        self._lock = asyncio.Lock()
        self._loads: dict[str, ProxyLoad] = {}
        self._read_at: float | None = None

    async def read(self) -> LoadOf:
        """Return the loads. Those that cannot be read are not known."""
        async with self._lock:
            now = asyncio.get_running_loop().time()
            if self._read_at is None or now - self._read_at >= _AGE_S_MAX:
                try:
                    self._loads = await self._read_all()
                except RhumblineError:
                    self._loads = {}
                self._read_at = now
        loads = self._loads

        def load_of(member: ProxyMember) -> ProxyLoad | None:
            return loads.get(member.address)

        return load_of

    async def _read_all(self) -> dict[str, ProxyLoad]:
        found: dict[str, ProxyLoad] = {}
        for store in self._stores.all:
            members = store.membership.members(WRITE)
            ids = {member.id for member in members}
            for region in dict.fromkeys(member.region for member in members):
                for report, _ in await read_reports(store.metadata, region):
                    if report.member_id in ids:
                        permille = report.cpu_percent * _PERMILLE_PER_PERCENT
                        other = found.get(report.address)  # with the streams of another store
                        elsewhere = 0 if other is None else other.streams
                        found[report.address] = ProxyLoad(permille, elsewhere + report.stream_count)
        return found
