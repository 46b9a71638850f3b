"""Lists the namespaces of a metadata store and their streams, page by page."""

from collections.abc import AsyncIterator, Callable

from ..core.log.namespace import LIST_LIMIT, Namespace, list_namespaces
from ..core.runtime.metadata_store import MetadataStore


async def all_namespaces(
    store: MetadataStore, open_namespace: Callable[[str], Namespace]
) -> AsyncIterator[Namespace]:
    """Yield every namespace. Raises MetadataError."""
    after: str | None = None
    while page := await list_namespaces(store, after=after):
        for name in page:
            yield open_namespace(name)
        after = page[-1]


async def all_streams(namespace: Namespace) -> AsyncIterator[str]:
    """Yield the name of every stream. Raises MetadataError."""
    after: str | None = None
    while page := await namespace.streams(after=after, limit=LIST_LIMIT):
        for name in page:
            yield name
        after = page[-1]
