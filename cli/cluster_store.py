"""Opens the metadata store alone, for commands that do not contact bookies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..backends.open_store import open_store
from ..core.metadata.cluster_layout import instance_id
from ..core.runtime.metadata_store import MetadataStore
from .options import CommandSession


@asynccontextmanager
async def cluster_store(session: CommandSession) -> AsyncIterator[MetadataStore]:
    """Open the metadata store of the selected cluster; no region is required.

    Raises ConfigurationError, MetadataUnavailableError, WrongClusterError.
    """
    settings = session.settings.cluster
    store = await open_store(session.metadata_uri(), timeout_ms=settings.metadata_timeout_ms)
    try:
        await instance_id(store)
        yield store
    finally:
        await store.close()
