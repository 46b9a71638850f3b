"""Partitioned topics: several streams under one name, read by consumer groups."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..core.log.metadata.stream_description import StreamDescription
from ..core.log.namespace import LIST_LIMIT
from ..core.log.policy import StreamPolicy
from ..core.log.topics.consumer_group import GroupMember
from ..core.log.topics.dead_letters import DeadLetterSink, StreamDeadLetters
from ..core.log.topics.group_membership import GroupConfig, GroupListener
from ..core.log.topics.group_state import (
    GroupDescription,
    delete_group,
    describe_group,
    list_groups,
    reset_group,
)
from ..core.log.topics.partitions import Partitioner
from ..core.log.topics.record_consumer import RecordConfig, RecordConsumer
from ..core.log.topics.record_group import RecordGroupMember
from ..core.log.topics.topic_writer import TopicWriter, open_topic_writer
from ..core.log.topics.topics import (
    Topic,
    create_topic,
    delete_topic,
    grow_topic,
    list_topics,
    open_topic,
    set_topic_policy,
)
from ..core.protocol.errors import NoSuchStreamError
from ..core.protocol.start import EARLIEST, Start
from ..regions.subscriptions.group_lag import PartitionLag, measure_group
from .connect import Client


class Topics:
    """The topics of one namespace, by default the client's own. Holds no resources."""

    def __init__(self, client: Client, namespace: str | None = None) -> None:
        self._client = client
        self._namespace = namespace

    # --- topics ---------------------------------------------------------------------------------

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Create a topic and its streams ``<name>.<partition>``. Safe to repeat.

        Raises InvalidArgumentError when it exists with another number of partitions.
        """
        namespace = self._client.namespace(self._namespace)
        return await create_topic(namespace.store, namespace, name, partition_count, policy)

    async def grow(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Add partitions, up to ``partition_count``. Safe to repeat.

        A key keeps its partition or moves to a new one (rule STR-38). Writers use the new
        partitions when they are opened again, group members at once. Raises NoSuchStreamError, and
        InvalidArgumentError when it has more partitions already.
        """
        namespace = self._client.namespace(self._namespace)
        return await grow_topic(namespace.store, namespace, name, partition_count, policy)

    async def get(self, name: str) -> Topic:
        """Return the topic of this name. Raises NoSuchStreamError."""
        namespace = self._client.namespace(self._namespace)
        return await open_topic(namespace.store, namespace, name)

    async def names(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """Return a page of topic names that begin with ``prefix`` and follow ``after``."""
        namespace = self._client.namespace(self._namespace)
        return await list_topics(namespace.store, namespace, prefix, after=after, limit=limit)

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

    # --- groups ---------------------------------------------------------------------------------

    @asynccontextmanager
    async def join(
        self,
        name: str,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
        listener: GroupListener | None = None,
    ) -> AsyncIterator[GroupMember]:
        """Join a consumer group that commits positions; ``start`` is where a new group begins.

        Raises NoSuchStreamError.
        """
        client = self._client
        namespace = client.namespace(self._namespace)
        topic = await self.get(name)
        async with GroupMember(
            client.runtime,
            namespace.store,
            namespace,
            topic,
            group,
            start=start,
            config=config,
            listener=listener,
        ) as member:
            yield member

    @asynccontextmanager
    async def join_records(
        self,
        name: str,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
        listener: GroupListener | None = None,
        records: RecordConfig | None = None,
        dead_letters: str | None = None,
    ) -> AsyncIterator[RecordGroupMember]:
        """Join a consumer group that acknowledges single records.

        ``dead_letters`` names a stream, or a topic with at least as many partitions as this one:
        then each partition has its own, and members do not take the stream over from each other.
        It is needed with ``deliveries_max``. Raises NoSuchStreamError, ConfigurationError.
        """
        client = self._client
        namespace = client.namespace(self._namespace)
        topic = await self.get(name)
        streams = await self._dead_letter_streams(dead_letters, topic)
        async with RecordGroupMember(
            client.runtime,
            namespace.store,
            namespace,
            topic,
            group,
            start=start,
            config=config,
            listener=listener,
            records=records,
            dead_letters=None if streams is None else self._sink_of(streams),
        ) as member:
            yield member

    async def _dead_letter_streams(self, name: str | None, topic: Topic) -> list[str] | None:
        if name is None:
            return None
        namespace = self._client.namespace(self._namespace)
        try:
            found = await self.get(name)
        except NoSuchStreamError:
            await namespace.describe(name)
            return [name]
        if found.partition_count < topic.partition_count:
            found = await self.grow(name, topic.partition_count)
        return list(found.streams)

    def _sink_of(self, streams: list[str]) -> "_OpenSink":
        return _OpenSink(self._client, self._namespace, streams)

    async def groups(self, name: str) -> list[str]:
        """Return the groups that have members or have read the topic. Raises NoSuchStreamError."""
        namespace = self._client.namespace(self._namespace)
        return await list_groups(namespace.store, namespace, await self.get(name))

    async def describe_group(self, name: str, group: str) -> GroupDescription:
        """Return the members, claims and positions of a group.

        Raises NoSuchStreamError, NoSuchSubscriptionError.
        """
        namespace = self._client.namespace(self._namespace)
        return await describe_group(namespace.store, namespace, await self.get(name), group)

    async def lag(self, name: str, group: str) -> list[PartitionLag]:
        """Return how far a group is behind in each partition, and which member reads it.

        ``LagTotal.of`` and ``lag_by_member`` sum this up. Raises like ``describe_group``.
        """
        namespace = self._client.namespace(self._namespace)
        return await measure_group(namespace, await self.describe_group(name, group))

    async def reset_group(
        self,
        name: str,
        group: str,
        start: Start,
        *,
        partition: int | None = None,
        even_if_used: bool = False,
    ) -> GroupDescription:
        """Let a group begin again at ``start``, in all partitions or in one.

        Creates the group if it does not exist. Raises NoSuchStreamError, NotEmptyError if it has
        members and not ``even_if_used``, and what opening a reader raises.
        """
        namespace = self._client.namespace(self._namespace)
        return await reset_group(
            namespace.store,
            namespace,
            await self.get(name),
            group,
            start,
            partition=partition,
            even_if_used=even_if_used,
        )

    async def delete_group(self, name: str, group: str) -> None:
        """Delete the positions of a group. Raises NoSuchStreamError, NotEmptyError."""
        namespace = self._client.namespace(self._namespace)
        await delete_group(namespace.store, namespace, await self.get(name), group)


class _OpenSink:
    """Opens the dead-letter stream of a partition."""

    def __init__(self, client: Client, namespace: str | None, streams: list[str]) -> None:
        self._client = client
        self._namespace = namespace
        self._streams = streams

    def __call__(self, partition: int) -> DeadLetterSink:
        stream = self._streams[partition if len(self._streams) > 1 else 0]
        return StreamDeadLetters(self._client.namespace(self._namespace), stream)


@asynccontextmanager
async def consume_records(
    client: Client,
    stream: str,
    subscription: str,
    *,
    namespace: str | None = None,
    start: Start = EARLIEST,
    config: RecordConfig | None = None,
    dead_letters: str | None = None,
) -> AsyncIterator[RecordConsumer]:
    """Consume one stream and acknowledge single records; ``start`` is for a new subscription.

    ``dead_letters`` names a stream, and is needed with ``deliveries_max``. Raises
    NoSuchStreamError, ConfigurationError.
    """
    opened = client.namespace(namespace)
    sink: DeadLetterSink | None = None
    if dead_letters is not None:
        await opened.describe(dead_letters)
        sink = StreamDeadLetters(opened, dead_letters)
    async with RecordConsumer(
        client.runtime,
        opened,
        stream,
        subscription,
        start=start,
        config=config,
        dead_letters=sink,
    ) as consumer:
        yield consumer
