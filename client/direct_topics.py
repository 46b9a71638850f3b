"""The metadata of topics for a direct client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..core.log.namespace import LIST_LIMIT, Namespace
from ..core.log.policy import StreamPolicy
from ..core.log.topics.group_state import list_groups
from ..core.log.topics.topics import (
    Topic,
    create_topic,
    delete_topic,
    grow_topic,
    list_topics,
    open_topic,
)
from ..core.runtime.metadata_store import MetadataStore


class DirectTopics:
    """The ``TopicCalls`` of a client with a connection to the metadata store."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._store = namespace.store

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """See ``TopicCalls.create``."""
        return await create_topic(self._store, self._namespace, name, partition_count, policy)

    async def grow(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """See ``TopicCalls.grow``."""
        return await grow_topic(self._store, self._namespace, name, partition_count, policy)

    async def groups(self, topic: Topic) -> list[str]:
        """See ``TopicCalls.groups``."""
        return await list_groups(self._store, self._namespace, topic)

    async def get(self, name: str) -> Topic:
        """See ``TopicCalls.get``."""
        return await open_topic(self._store, self._namespace, name)

    async def delete(self, name: str) -> None:
        """See ``TopicCalls.delete``."""
        await delete_topic(self._store, self._namespace, name)

    async def names(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """See ``TopicCalls.names``."""
        return await list_topics(self._store, self._namespace, prefix, after=after, limit=limit)

    @asynccontextmanager
    async def group_store(self, topic: str, group: str) -> AsyncIterator[MetadataStore]:
        """See ``TopicCalls.group_store``: it is the store of the namespace."""
        yield self._store
