"""The metadata store alone, for commands that look at a cluster and send nothing to its bookies."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..backends.open_store import open_store
from ..core.metadata.cluster_layout import instance_id
from ..core.runtime.metadata_store import MetadataStore
from .options import CommandSession


@asynccontextmanager
async def cluster_store(session: CommandSession) -> AsyncIterator[MetadataStore]:
    """The store of the cluster that the options name; no region needs to be given.

    Raises ConfigurationError, MetadataUnavailableError, WrongClusterError.
    """
    settings = session.settings.cluster
    store = await open_store(session.metadata_uri(), timeout_ms=settings.metadata_timeout_ms)
    try:
        await instance_id(store)
        yield store
    finally:
        await store.close()
