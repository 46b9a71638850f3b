"""Partitioned topics: several streams under one name, read by consumer groups."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..core.log.api.log_client import LogClient
from ..core.log.api.log_namespace import LogNamespace
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
    reset_group,
)
from ..core.log.topics.partitions import Partitioner
from ..core.log.topics.record_consumer import RecordConfig, RecordConsumer
from ..core.log.topics.record_group import RecordGroupMember
from ..core.log.topics.topic_writer import TopicWriter, open_topic_writer
from ..core.log.topics.topics import (
    Topic,
    set_topic_policy,
)
from ..core.protocol.errors import NoSuchStreamError
from ..core.protocol.start import EARLIEST, Start
from ..regions.subscriptions.group_lag import PartitionLag, measure_group


class Topics:
    """The topics of one namespace, by default the client's own. Holds no resources."""

    def __init__(self, client: LogClient, namespace: str | None = None) -> None:
        """``client`` is one of either kind, see ``LogClient``."""
        self._client = client
        self._namespace = client.namespace(namespace)
        self._calls = client.topic_calls(namespace)

    # --- topics ---------------------------------------------------------------------------------

    async def create(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Create a topic and its streams ``<name>.<partition>``. Safe to repeat.

        Raises InvalidArgumentError when it exists with another number of partitions.
        """
        return await self._calls.create(name, partition_count, policy)

    async def grow(
        self, name: str, partition_count: int, policy: StreamPolicy | None = None
    ) -> Topic:
        """Add partitions, up to ``partition_count``. Safe to repeat.

        A key keeps its partition or moves to a new one (rule STR-38). Writers use the new
        partitions when they are opened again, group members at once. Raises NoSuchStreamError, and
        InvalidArgumentError when it has more partitions already.
        """
        return await self._calls.grow(name, partition_count, policy)

    async def get(self, name: str) -> Topic:
        """Return the topic of this name. Raises NoSuchStreamError."""
        return await self._calls.get(name)

    async def names(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_LIMIT
    ) -> list[str]:
        """Return a page of topic names that begin with ``prefix`` and follow ``after``."""
        return await self._calls.names(prefix, after=after, limit=limit)

    async def set_policy(self, name: str, policy: StreamPolicy | None) -> None:
        """Set the policy of all partitions, effective at their next segments. Safe to repeat.

        None: they follow the policy of the namespace. Raises NoSuchStreamError.
        """
        await set_topic_policy(self._namespace, await self.get(name), policy)

    async def describe(self, name: str) -> list[StreamDescription]:
        """Describe the stream of each partition, with its policy. Raises NoSuchStreamError."""
        return [await self._namespace.describe(one) for one in (await self.get(name)).streams]

    async def delete(self, name: str) -> None:
        """Delete a topic, its streams and groups. Raises NoSuchStreamError, NotEmptyError."""
        await self._calls.delete(name)

    @asynccontextmanager
    async def writer(
        self, name: str, partitioner: Partitioner | None = None
    ) -> AsyncIterator[TopicWriter]:
        """Open a writer of all partitions of a topic.

        With a direct client it takes the partitions over. Through proxies it shares them with any
        number of other writers, and each record goes to the proxy that owns its partition.
        Records are partitioned by key unless ``partitioner`` is given. Raises as ``Client.writer``.
        """
        writer = await open_topic_writer(self._namespace, await self.get(name), partitioner)
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
        topic = await self.get(name)
        async with (
            self._calls.group_store(name, group) as store,
            GroupMember(
                self._client.runtime,
                store,
                self._namespace,
                topic,
                group,
                start=start,
                config=config,
                listener=listener,
            ) as member,
        ):
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

        ``dead_letters`` names a stream, or a topic, which grows to as many partitions as this one
        has: then each partition has its own stream, and members do not take it over from each
        other. It is needed with ``deliveries_max``. Raises NoSuchStreamError, ConfigurationError.
        """
        topic = await self.get(name)
        streams = await self._dead_letter_streams(dead_letters, topic)
        async with (
            self._calls.group_store(name, group) as store,
            RecordGroupMember(
                self._client.runtime,
                store,
                self._namespace,
                topic,
                group,
                start=start,
                config=config,
                listener=listener,
                records=records,
                dead_letters=None if streams is None else _OpenSink(self._namespace, streams),
            ) as member,
        ):
            yield member

    async def _dead_letter_streams(self, name: str | None, topic: Topic) -> list[str] | None:
        if name is None:
            return None
        try:
            found = await self.get(name)
        except NoSuchStreamError:
            await self._namespace.describe(name)
            return [name]
        if found.partition_count < topic.partition_count:
            found = await self.grow(name, topic.partition_count)
        return list(found.streams)

    async def groups(self, name: str) -> list[str]:
        """Return the groups that have members or have read the topic. Raises NoSuchStreamError."""
        return await self._calls.groups(await self.get(name))

    async def describe_group(self, name: str, group: str) -> GroupDescription:
        """Return the members, claims and positions of a group.

        Raises NoSuchStreamError, NoSuchSubscriptionError.
        """
        topic = await self.get(name)
        async with self._calls.group_store(name, group) as store:
            return await describe_group(store, self._namespace, topic, group)

    async def lag(self, name: str, group: str) -> list[PartitionLag]:
        """Return how far a group is behind in each partition, and which member reads it.

        ``LagTotal.of`` and ``lag_by_member`` sum this up. Raises like ``describe_group``.
        """
        return await measure_group(self._namespace, await self.describe_group(name, group))

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
        topic = await self.get(name)
        async with self._calls.group_store(name, group) as store:
            return await reset_group(
                store,
                self._namespace,
                topic,
                group,
                start,
                partition=partition,
                even_if_used=even_if_used,
            )

    async def delete_group(self, name: str, group: str) -> None:
        """Delete the positions of a group. Raises NoSuchStreamError, NotEmptyError."""
        topic = await self.get(name)
        async with self._calls.group_store(name, group) as store:
            await delete_group(store, self._namespace, topic, group)


class _OpenSink:
    """Opens the dead-letter stream of a partition."""

    def __init__(self, namespace: LogNamespace, streams: list[str]) -> None:
        self._namespace = namespace
        self._streams = streams

    def __call__(self, partition: int) -> DeadLetterSink:
        stream = self._streams[partition % len(self._streams)]  # the topic may have grown since
        return StreamDeadLetters(self._namespace, stream)


@asynccontextmanager
async def consume_records(
    client: LogClient,
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
