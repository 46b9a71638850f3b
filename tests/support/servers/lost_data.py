"""Conditions of tests in which a metadata store loses its data."""

from rhumbline.core.protocol.errors import MetadataUnavailableError, NoNodeError
from rhumbline.core.runtime.metadata_store import MetadataStore


async def is_without_data(store: MetadataStore, path: str) -> bool:
    """Return whether the store is back, without a node from before it lost its data."""
    try:
        await store.get(path)
    except MetadataUnavailableError:
        return False
    except NoNodeError:
        return True
    raise AssertionError("a node from before the loss of data")
