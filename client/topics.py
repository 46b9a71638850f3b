"""Partitioned topics of a client: several streams under one name, read by groups."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..core.log.policy import StreamPolicy
from ..core.log.read.positioning import EARLIEST, Start
from ..core.log.topics.consumer_group import GroupConfig, GroupMember
from ..core.log.topics.partitions import Partitioner
from ..core.log.topics.topics import (
    Topic,
    TopicWriter,
    create_topic,
    delete_topic,
    open_topic,
    open_topic_writer,
)
from .connect import Client


class Topics:
    """The topics of one namespace, the client's own when not named. Owns nothing."""

    def __init__(self, client: Client, namespace: str | None = None) -> None:
        self._client = client
        self._namespace = namespace

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Makes a topic and its streams ``<name>.<partition>``; a repeat is safe.

        Raises InvalidArgumentError when it exists with another number of partitions.
        """
        namespace = self._client.namespace(self._namespace)
        return await create_topic(self._client.store, namespace, name, partition_count, policy)

    async def get(self, name: str) -> Topic:
        """The topic of that name. Raises NoSuchStreamError."""
        return await open_topic(self._client.store, self._client.namespace(self._namespace), name)

    async def delete(self, name: str) -> None:
        """Deletes a topic with its streams and groups. Raises NoSuchStreamError, NotEmptyError."""
        await delete_topic(self._client.store, self._client.namespace(self._namespace), name)

    @asynccontextmanager
    async def writer(
        self, name: str, partitioner: Partitioner | None = None
    ) -> AsyncIterator[TopicWriter]:
        """Takes over all partitions of a topic; by key unless told otherwise. Raises as
        ``Client.writer``."""
        namespace = self._client.namespace(self._namespace)
        writer = await open_topic_writer(namespace, await self.get(name), partitioner)
        try:
            yield writer
        finally:
            await writer.close()

    @asynccontextmanager
    async def join(
        self,
        name: str,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
    ) -> AsyncIterator[GroupMember]:
        """Joins a group that shares out the partitions; ``start`` is where a new group begins.

        Raises NoSuchStreamError.
        """
        client = self._client
        namespace = client.namespace(self._namespace)
        topic = await self.get(name)
        async with GroupMember(
            client.runtime, client.store, namespace, topic, group, start=start, config=config
        ) as member:
            yield member
