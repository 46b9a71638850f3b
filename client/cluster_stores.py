"""The metadata stores of a cluster that one process uses: the global one, and regional ones.

With a regional store for its own region a process is useful without the global store, which is then
opened in the background.
"""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from ..backends.open_store import open_store
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import MetadataUnavailableError, WrongClusterError
from ..core.runtime.event_log import EventLog
from ..core.runtime.metadata_store import MetadataStore
from .store_client import StoreClient, StoreClientSettings
from .store_opening import StoreOpening

_LOG = EventLog(__name__)

GLOBAL_WAIT_MS = 2_000
"""Time for which a process with a regional store waits for the global one when it starts."""


class ClusterStores:
    """Opens the stores and holds their clients. ``open`` opens them, ``aclose`` closes them."""

    def __init__(self, uri: str, regional_uris: Mapping[Region, str], *, timeout_ms: int) -> None:
        self.uri = uri
        self.regional: dict[Region, StoreOpening] = {}
        """The regional stores of the settings by region, once the stores are open."""
        self.instance_id = ""
        """Id of the cluster; "" before the first store is open."""
        self._regional_uris = regional_uris
        self._timeout_ms = timeout_ms
        self._global: StoreClient | None = None
        self._late_global: StoreOpening | None = None
        """The global store, if it may be opened after the others."""
        self._closing = AsyncExitStack()

    async def open(self, settings: StoreClientSettings, given: MetadataStore | None) -> None:
        """Open the stores that the process cannot do without, and begin to open the global one.

        ``given`` is an open global store, which is not closed. Raises ConfigurationError,
        MetadataUnavailableError, WrongClusterError.
        """
        async with AsyncExitStack() as opening:
            for region, uri in self._regional_uris.items():
                regional = self.regional[region] = self._opening(uri, settings, region)
                opening.push_async_callback(regional.aclose)
            own = None if settings.region is None else self.regional.get(settings.region)
            if given is not None or own is None:
                await self._open_global(opening, settings, given)
            else:
                await own.get()
                await self._begin_global(opening, settings)
            self._closing = opening.pop_all()

    async def _open_global(
        self, opening: AsyncExitStack, settings: StoreClientSettings, given: MetadataStore | None
    ) -> None:
        store = given
        if store is None:
            opened = store = await open_store(self.uri, timeout_ms=self._timeout_ms)
            opening.push_async_callback(opened.close)
        self._global = await StoreClient.open(store, settings)
        opening.push_async_callback(self._global.aclose)
        self._check_cluster(self._global)

    async def _begin_global(self, opening: AsyncExitStack, settings: StoreClientSettings) -> None:
        late = self._late_global = self._opening(self.uri, settings, None)
        opening.push_async_callback(late.aclose)
        try:
            self._global = await late.get(min(self._timeout_ms, GLOBAL_WAIT_MS))
        except MetadataUnavailableError as error:
            _LOG.warning("global store unavailable", uri=self.uri, error=error)

    def _opening(
        self, uri: str, settings: StoreClientSettings, region: Region | None
    ) -> StoreOpening:
        return StoreOpening(
            uri, settings, region, timeout_ms=self._timeout_ms, check=self._check_cluster
        )

    def _check_cluster(self, found: StoreClient) -> None:
        """Raise WrongClusterError if the store belongs to another cluster than the others."""
        self.instance_id = self.instance_id or found.instance_id
        if found.instance_id != self.instance_id:
            raise WrongClusterError(
                f"{found.store.uri} belongs to cluster {found.instance_id}, but the other metadata "
                f"stores belong to {self.instance_id}"
            )

    @property
    def is_global_open(self) -> bool:
        """True if the global store was opened."""
        return self._global is not None

    @property
    def global_store(self) -> StoreClient:
        """The global store. Raises MetadataUnavailableError if it could not be opened yet."""
        if self._global is None:
            assert self._late_global is not None, "the stores were not opened"
            self._global = self._late_global.now()
        return self._global

    async def wait_global(self) -> StoreClient:
        """Return the global store, and wait for the timeout of the store if it is being opened.

        Raises MetadataUnavailableError if it could not be opened.
        """
        if self._global is None and self._late_global is not None:
            self._global = await self._late_global.get()
        return self.global_store

    @property
    def opened(self) -> list[StoreClient]:
        """The stores that were opened, the global one first."""
        if self._global is None and self._late_global is not None:
            self._global = self._late_global.opened
        regional = [opening.opened for opening in self.regional.values()]
        return [found for found in (self._global, *regional) if found is not None]

    async def aclose(self) -> None:
        """Close the stores, except a given one. Safe to repeat."""
        await self._closing.aclose()
