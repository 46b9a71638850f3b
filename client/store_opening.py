"""Opens a metadata store in the background, until it succeeds.

A process that uses several stores starts although one of them cannot be reached, and uses that one
as soon as it can.
"""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack

from ..backends.open_store import open_store
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import MetadataUnavailableError, RhumblineError
from ..core.runtime.primitives.backoff import Backoff
from ..core.runtime.tasks import Tasks
from .store_client import StoreClient, StoreClientSettings

_RETRY_MS_MIN, _RETRY_MS_MAX = 100, 2_000


class StoreOpening:
    """One metadata store by its URI, which is opened when it is first used."""

    def __init__(
        self,
        uri: str,
        settings: StoreClientSettings,
        store_region: Region | None,
        *,
        timeout_ms: int,
        check: Callable[[StoreClient], None],
    ) -> None:
        """``check`` may refuse the opened store with an error, which callers of ``get`` receive."""
        self.uri = uri
        self.store_region = store_region
        self.opened: StoreClient | None = None
        """The client of the store; None until it was opened."""
        self.failure: RhumblineError | None = None
        """The error of the last attempt to open the store."""
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._check = check
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None
        self._closing = AsyncExitStack()

    async def get(self, timeout_ms: int | None = None) -> StoreClient:
        """Return the client, opening the store if necessary.

        Waits for at most ``timeout_ms``, by default the timeout of the store. Raises
        MetadataUnavailableError, and ConfigurationError or WrongClusterError if the store is not
        the expected one.
        """
        if self.opened is None:
            await self._open_within(self._timeout_ms if timeout_ms is None else timeout_ms)
        return self.now()

    def now(self) -> StoreClient:
        """Return the client if the store was opened.

        Raises the error of the last attempt, or MetadataUnavailableError.
        """
        if self.opened is not None:
            return self.opened
        if self.failure is not None and not self.failure.retryable:
            raise self.failure
        reason = "" if self.failure is None else f": {self.failure}"
        raise MetadataUnavailableError(f"{self.uri} could not be opened yet{reason}")

    async def _open_within(self, timeout_ms: int) -> None:
        if self._task is None or self._task.done():
            self._task = self._tasks.spawn(self._run(), f"open {self.uri}")
        task = self._task
        await asyncio.wait([task], timeout=timeout_ms / 1000)

    async def _run(self) -> None:
        """Open the store; retry while it is unavailable, and end with any other error."""
        backoff = Backoff(self._settings.runtime.random, _RETRY_MS_MIN, _RETRY_MS_MAX)
        while True:
            try:
                self.opened = await self._open()
            except RhumblineError as error:
                self.failure = error
                if not error.retryable:
                    return
            else:
                self.failure = None
                return
            await backoff.pause()

    async def _open(self) -> StoreClient:
        async with AsyncExitStack() as opening:
            store = await open_store(self.uri, timeout_ms=self._timeout_ms)
            opening.push_async_callback(store.close)
            client = await StoreClient.open(store, self._settings, self.store_region)
            opening.push_async_callback(client.aclose)
            self._check(client)
            self._closing = opening.pop_all()
            return client

    async def aclose(self) -> None:
        """Stop opening, and close the store. Safe to repeat."""
        await self._tasks.aclose()
        await self._closing.aclose()
