"""Runs the repair of each metadata store that a process serves (rule RPR-21)."""

from contextlib import AsyncExitStack
from typing import Any

from ..client.connect import Client
from ..client.store_client import StoreClient
from ..core.log.namespace import Namespace
from ..core.protocol.errors import MetadataUnavailableError
from ..core.runtime.metrics import REGIONAL
from ..core.runtime.primitives.backoff import Backoff
from ..core.runtime.tasks import Tasks
from ..regions.repair.config import RepairConfig
from ..regions.repair.repair_service import RepairService
from ..regions.subscriptions.lag_runner import SeriesRule, SubscriptionLags

_RETRY_MS_MIN, _RETRY_MS_MAX = 200, 2_000


class RepairServices:
    """One repair service for the global store, and one for the store of the process's region."""

    def __init__(
        self, client: Client, config: RepairConfig, series: SeriesRule | None = None
    ) -> None:
        self.uris: list[str] = []
        """The URIs of the stores whose repair has been started."""
        self._client = client
        self._config = config
        self._series = series
        self._global: RepairService | None = None
        self._regional: RepairService | None = None
        self._tasks = Tasks()
        self._closing = AsyncExitStack()

    async def start(self) -> None:
        """Start the services. That of the global store starts when the store can be reached.

        Raises MetadataUnavailableError if there is only the global store.
        """
        own = await self._client.own_regional_store()
        if own is None:
            self._global = self._started(self._client.global_store)
            return
        self._regional = self._started(own)
        self._tasks.spawn(self._start_global(), "start global repair")

    async def _start_global(self) -> None:
        backoff = Backoff(self._client.runtime.random, _RETRY_MS_MIN, _RETRY_MS_MAX)
        while True:
            try:
                self._global = self._started(self._client.global_store)
            except MetadataUnavailableError:
                await backoff.pause()
            else:
                return

    def _started(self, store: StoreClient) -> RepairService:
        client = self._client

        def open_namespace(name: str) -> Namespace:
            return client.namespace_of(store, name)

        service = RepairService(
            client.runtime,
            store.store,
            store.ledgers,
            store.directory,
            client.placement,
            self._config,
            open_namespace=open_namespace,
            publishes_stored_bytes=True,
            lags=SubscriptionLags(
                store.store,
                open_namespace,
                client.runtime.clock,
                interval_ms=self._config.lag_interval_ms,
                series=self._series,
            ),
        )
        self._closing.push_async_callback(service.aclose)
        service.start()
        self.uris.append(store.store.uri)
        return service

    def statistics(self) -> dict[str, Any]:
        """Return the counters of the global store's service; ``regional`` has those by region."""
        found = {} if self._global is None else self._global.statistics()
        if self._regional is not None:
            found[REGIONAL] = {str(self._client.region): self._regional.statistics()}
        return found

    def unready_reason(self) -> str | None:
        """Return why nothing is repaired; None if the repair of a store works."""
        services = [found for found in (self._global, self._regional) if found is not None]
        if any(service.is_working for service in services):
            return None
        return next((found.last_error for found in services if found.last_error), "starting")

    async def aclose(self) -> None:
        """Stop the services. Safe to repeat."""
        await self._tasks.aclose()
        await self._closing.aclose()
