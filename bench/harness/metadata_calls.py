"""Counts the calls of a client to its metadata store, and delays them as if from another region."""

import asyncio
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from typing import TypeVar

from ...backends.open_store import open_store
from ...client.connect import Client
from ...core.metadata.measured_store import MeasuredStore
from ...core.runtime.metadata_store import MetadataStore
from .bookie_processes import REGION
from .load import NAMESPACE

T = TypeVar("T")


def metadata_calls(client: Client) -> int:
    """Return the number of calls to the global metadata store so far."""
    calls = client.statistics()["metadata"]["calls"]
    return sum(count for counts in calls.values() for count in counts.values())


async def open_distant_client(opening: AsyncExitStack, uri: str, delay_s: float) -> Client:
    """Open a client whose metadata calls take ``delay_s`` longer; ``opening`` closes it."""
    opened = await open_store(uri)
    opening.push_async_callback(opened.close)
    store = _DistantStore(opened, delay_s) if delay_s else opened
    client = Client("", namespace=NAMESPACE, region=REGION, store=store)
    return await opening.enter_async_context(client)


class _DistantStore(MeasuredStore):
    """A metadata store whose every reply arrives ``delay_s`` late."""

    def __init__(self, inner: MetadataStore, delay_s: float) -> None:
        super().__init__(inner)
        self._delay_s = delay_s

    async def _measured(self, operation: str, call: Awaitable[T]) -> T:
        try:
            return await super()._measured(operation, call)
        finally:
            await asyncio.sleep(self._delay_s)
