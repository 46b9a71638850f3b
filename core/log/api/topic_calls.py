"""The interface through which topics and groups reach their metadata."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from ...runtime.metadata_store import MetadataStore
from ..namespace import LIST_LIMIT
from ..policy import StreamPolicy
from ..topics.topics import Topic


class TopicCalls(Protocol):
    """The records of the topics of one namespace, and the nodes of their groups."""

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Create a topic and its streams. Safe to repeat."""
        ...

    async def grow(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Add partitions, see ``grow_topic``. Safe to repeat."""
        ...

    async def groups(self, topic: Topic) -> list[str]:
        """Return the groups that have members or have read some partition, in order."""
        ...

    async def get(self, name: str) -> Topic:
        """Return the topic of this name. Raises NoSuchStreamError."""
        ...

    async def delete(self, name: str) -> None:
        """Delete a topic, its streams and groups. Raises NoSuchStreamError, NotEmptyError."""
        ...

    async def names(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """Return a page of names that begin with ``prefix`` and follow ``after``, in order."""
        ...

    def group_store(self, topic: str, group: str) -> AbstractAsyncContextManager[MetadataStore]:
        """Open the metadata store with the nodes of one group, at the paths of ``TopicPaths``.

        A store through a proxy has these nodes, and can read that of the topic.
        """
        ...
