"""Partitioned topics: several streams under one name, read by consumer groups."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..core.log.metadata.stream_description import StreamDescription
from ..core.log.policy import StreamPolicy
from ..core.log.topics.consumer_group import GroupMember
from ..core.log.topics.group_membership import GroupConfig
from ..core.log.topics.partitions import Partitioner
from ..core.log.topics.topics import (
    Topic,
    TopicWriter,
    create_topic,
    delete_topic,
    open_topic,
    open_topic_writer,
    set_topic_policy,
)
from ..core.protocol.start import EARLIEST, Start
from .connect import Client


class Topics:
    """The topics of one namespace, by default the client's own. Holds no resources."""

    def __init__(self, client: Client, namespace: str | None = None) -> None:
        self._client = client
        self._namespace = namespace

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Create a topic and its streams ``<name>.<partition>``. Safe to repeat.

        Raises InvalidArgumentError when it exists with another number of partitions.
        """
        namespace = self._client.namespace(self._namespace)
        return await create_topic(namespace.store, namespace, name, partition_count, policy)

    async def get(self, name: str) -> Topic:
        """Return the topic of this name. Raises NoSuchStreamError."""
        namespace = self._client.namespace(self._namespace)
        return await open_topic(namespace.store, namespace, name)

    async def set_policy(self, name: str, policy: StreamPolicy | None) -> None:
        """Set the policy of all partitions, effective at their next segments. Safe to repeat.

        None: they follow the policy of the namespace. Raises NoSuchStreamError.
        """
        namespace = self._client.namespace(self._namespace)
        await set_topic_policy(namespace, await self.get(name), policy)

    async def describe(self, name: str) -> list[StreamDescription]:
        """Describe the stream of each partition, with its policy. Raises NoSuchStreamError."""
        namespace = self._client.namespace(self._namespace)
        return [await namespace.describe(stream) for stream in (await self.get(name)).streams]

    async def delete(self, name: str) -> None:
        """Delete a topic, its streams and groups. Raises NoSuchStreamError, NotEmptyError."""
        namespace = self._client.namespace(self._namespace)
        await delete_topic(namespace.store, namespace, name)

    @asynccontextmanager
    async def writer(
        self, name: str, partitioner: Partitioner | None = None
    ) -> AsyncIterator[TopicWriter]:
        """Open a writer that takes over all partitions of a topic.

        Records are partitioned by key unless ``partitioner`` is given. Raises as ``Client.writer``.
        """
        namespace = self._client.namespace(self._namespace)
        writer = await open_topic_writer(namespace, await self.get(name), partitioner)
        async with writer:
            yield writer

    @asynccontextmanager
    async def join(
        self,
        name: str,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
    ) -> AsyncIterator[GroupMember]:
        """Join a consumer group; ``start`` is the first position of a new group.

        Raises NoSuchStreamError.
        """
        client = self._client
        namespace = client.namespace(self._namespace)
        topic = await self.get(name)
        async with GroupMember(
            client.runtime, namespace.store, namespace, topic, group, start=start, config=config
        ) as member:
            yield member
