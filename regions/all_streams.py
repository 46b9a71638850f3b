"""Lists the namespaces of a metadata store and their streams, page by page.

A caller that stops early closes the generator (`contextlib.aclosing`).
"""

from collections.abc import AsyncGenerator, Callable

from ..core.log.namespace import LIST_LIMIT, Namespace, list_namespaces
from ..core.runtime.metadata_store import MetadataStore

STREAMS_AT_ONCE = 16
"""Number of streams on which a pass over all streams works at the same time. Each needs several
calls, one after the other, to a metadata store that may be in another region."""


async def all_namespaces(
    store: MetadataStore, open_namespace: Callable[[str], Namespace]
) -> AsyncGenerator[Namespace]:
    """Yield every namespace. Raises MetadataError."""
    after: str | None = None
    while page := await list_namespaces(store, after=after):
        for name in page:
            yield open_namespace(name)
        after = page[-1]


async def pages_of_streams(namespace: Namespace) -> AsyncGenerator[list[str]]:
    """Yield the names of all streams in pages. Raises MetadataError."""
    after: str | None = None
    while page := await namespace.streams(after=after, limit=LIST_LIMIT):
        yield page
        after = page[-1]
