"""Reads the list of proxies in the background (rule PRX-51)."""

import asyncio
from collections.abc import Sequence
from random import Random

from ....core.protocol.errors import RhumblineError
from ....core.runtime.event_log import EventLog
from ....core.runtime.primitives.backoff import Backoff
from ....core.runtime.primitives.wakeup import Wakeup
from ...proxy_uri import ProxyUri
from ...rpc import methods
from ...rpc import rhumbline_pb2 as pb
from ...rpc.proxy_listing import decode_proxies
from ...rpc.rpc_transport import RpcTransport
from .config import DiscoveryConfig
from .proxy_directory import ProxyDirectory
from .seeds import SeedResolver, resolve_seeds

_LOG = EventLog(__name__)

_TRY_SECONDS_MAX = 2.0
"""Maximum time of one attempt at one proxy, which may have been stopped."""
_FIRST_SECONDS_MAX = 1.0
"""Maximum time for which the first call of a client waits for the list."""
_LISTED_MAX = 3
_SEEDS_MAX = 16
"""Number of listed proxies, and then of seeds, that one refresh asks."""
_PAUSE_MS_MIN = 250
_PAUSE_MS_MAX = 4_000
"""Pauses between refreshes while proxies fail one after the other."""


class ListRefresher:
    """Keeps a directory current. Stops when the task that runs it is cancelled."""

    def __init__(
        self,
        directory: ProxyDirectory,
        calls: RpcTransport,
        uri: ProxyUri,
        resolver: SeedResolver,
        config: DiscoveryConfig,
        random: Random,
    ) -> None:
        self.refreshed_count = 0
        self.failed_count = 0
        self._directory = directory
        self._calls = calls
        self._uri = uri
        self._resolver = resolver
        self._random = random
        self._interval_s = config.refresh_ms / 1000
        self._backoff = Backoff(random, _PAUSE_MS_MIN, max(config.refresh_ms, _PAUSE_MS_MIN))
        self._early_pause = Backoff(random, _PAUSE_MS_MIN, _PAUSE_MS_MAX)
        self._doubt = Wakeup()
        self._first = asyncio.Event()
        self._is_outdated = False
        self._seed_error: RhumblineError | None = None
        """The reason why the names of the seeds were not resolved, in the last attempt."""
        directory.on_doubt = self._doubt.wake

    async def first(self) -> None:
        """Wait until the first refresh has ended, for a bounded time."""
        if not self._first.is_set():
            try:
                async with asyncio.timeout(_FIRST_SECONDS_MAX):
                    await self._first.wait()
            except TimeoutError:
                self._first.set()  # later calls do not wait

    async def run(self) -> None:
        """Refresh at intervals, and soon after a proxy failed."""
        while True:
            is_current = await self._refresh()
            self._first.set()
            if is_current:
                self._backoff.reset()
                await asyncio.sleep(self._early_pause.next_s())
                if not await self._doubt.wait(self._interval_s * (0.5 + self._random.random())):
                    self._early_pause.reset()
            else:
                await self._backoff.pause()

    async def _refresh(self) -> bool:
        """Read the list from a listed proxy, or from a seed if none responds.

        Returns whether it was read.
        """
        is_current = (
            await self._read_from(self._listed(), _LISTED_MAX) or await self._read_from_seeds()
        )
        if is_current:
            self.refreshed_count += 1
        else:
            self.failed_count += 1
        if is_current is self._is_outdated:
            self._is_outdated = not is_current
            if is_current:
                _LOG.info("proxy list current", proxies=len(self._directory.listed))
            else:
                _LOG.warning(
                    "proxy list outdated",
                    proxies=len(self._directory.listed),
                    error=self._seed_error,
                )
        return is_current

    def _listed(self) -> Sequence[str]:
        """Return the listed proxies, a random one of this client's first few at the beginning.

        A proxy that has lost the metadata store gives an old list, so it is not always the same
        one. They are few, because a client keeps a connection to each proxy that it has called.
        """
        if not self._directory.listed:
            return ()
        names = list(self._directory.any_proxies())
        chosen = names.pop(self._random.randrange(min(len(names), _LISTED_MAX)))
        return (chosen, *names)

    async def _read_from_seeds(self) -> bool:
        try:
            seeds = await resolve_seeds(self._uri, self._resolver)
        except RhumblineError as error:
            self._seed_error = error
            return False
        self._seed_error = None
        self._directory.set_seeds(seeds)
        return await self._read_from(seeds, _SEEDS_MAX)

    async def _read_from(self, addresses: Sequence[str], count_max: int) -> bool:
        directory = self._directory
        request = pb.ListProxiesRequest(viewer_region=directory.region)
        for address in addresses[:count_max]:
            try:
                response = await self._calls.call_unary(
                    directory.address_for(address, methods.LIST_PROXIES),
                    methods.LIST_PROXIES,
                    request,
                    _TRY_SECONDS_MAX,
                )
                assert isinstance(response, pb.ListProxiesResponse)
                directory.set_listed(decode_proxies(response), response.region)
            except RhumblineError as error:
                directory.report(directory.name_of(address), error)
                continue
            directory.report(directory.name_of(address), None)
            return True
        return False

    def statistics(self) -> dict[str, int]:
        """Return counters for metrics."""
        return {"refreshes": self.refreshed_count, "failed_refreshes": self.failed_count}
