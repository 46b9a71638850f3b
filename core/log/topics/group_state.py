"""The state of consumer groups in the metadata store: members, claims and positions."""

from contextlib import suppress
from typing import NamedTuple

from ...protocol.errors import (
    InvalidArgumentError,
    NoNodeError,
    NoSuchSubscriptionError,
    NotEmptyError,
)
from ...protocol.start import Start
from ...runtime.metadata_store import MetadataStore
from ..api.log_namespace import LogNamespace
from ..metadata.paths import TopicPaths
from ..metadata.subscriptions import Subscription
from .topics import Topic, list_children, remove_tree


class GroupPartition(NamedTuple):
    """A partition as a group sees it."""

    partition: int
    stream: str
    member: str | None
    """The id of the member that reads it; None if none does."""
    subscription: Subscription | None
    """The stored state of the group in the partition; None: it never read it."""


class GroupDescription(NamedTuple):
    """A group. Not an atomic snapshot: its parts are read one after another."""

    topic: Topic
    group: str
    members: tuple[str, ...]
    """The ids of the members, with or without partitions, in order."""
    partitions: tuple[GroupPartition, ...]


async def list_groups(store: MetadataStore, namespace: LogNamespace, topic: Topic) -> list[str]:
    """Return the groups that have members or have read some partition, in order."""
    paths = TopicPaths(namespace.name, topic.name)
    found = set()
    for group in await list_children(store, paths.groups):
        if await list_children(store, paths.members(group)):
            found.add(group)
    for stream in topic.streams:
        found.update(await namespace.subscriptions.names(stream))
    return sorted(found)


async def describe_group(
    store: MetadataStore, namespace: LogNamespace, topic: Topic, group: str
) -> GroupDescription:
    """Describe a group; without members and positions it does not exist.

    Raises NoSuchSubscriptionError if it does not exist.
    """
    paths = TopicPaths(namespace.name, topic.name)
    members = tuple(await list_children(store, paths.members(group)))
    partitions = []
    for partition, stream in enumerate(topic.streams):
        member: str | None = None
        with suppress(NoNodeError):
            member = (await store.get(paths.claim(group, partition))).data.decode()
        subscription: Subscription | None = None
        with suppress(NoSuchSubscriptionError):
            subscription = await namespace.subscriptions.read(stream, group)
        partitions.append(GroupPartition(partition, stream, member, subscription))
    if not members and all(one.subscription is None for one in partitions):
        raise NoSuchSubscriptionError(f"no group {group} of topic {topic.name}")
    return GroupDescription(topic, group, members, tuple(partitions))


async def reset_group(
    store: MetadataStore,
    namespace: LogNamespace,
    topic: Topic,
    group: str,
    start: Start,
    *,
    partition: int | None = None,
    even_if_used: bool = False,
) -> GroupDescription:
    """Let a group begin again at ``start`` in each partition, or in one of them.

    Acknowledgements of single records are discarded. Raises NotEmptyError if the group has members,
    unless ``even_if_used``: commits of those members then fail until they join again. Raises
    InvalidArgumentError if the topic has no such partition, and what ``open_reader`` raises.
    """
    if partition is not None and not 0 <= partition < topic.partition_count:
        raise InvalidArgumentError(
            f"topic {topic.name} has no partition {partition}: it has {topic.partition_count}"
        )
    members = await list_children(store, TopicPaths(namespace.name, topic.name).members(group))
    if members and not even_if_used:
        raise NotEmptyError(
            f"group {group} has {len(members)} members, nothing was reset: let them leave first; "
            "a member that crashed leaves when its session expires"
        )
    for stream in topic.streams if partition is None else [topic.stream(partition)]:
        reader = await namespace.open_reader(stream, start)
        await reader.aclose()
        position = reader.confirmed_position()
        await namespace.subscriptions.create(stream, group, position)
        await namespace.subscriptions.reset(stream, group, position)
    return await describe_group(store, namespace, topic, group)


async def delete_group(
    store: MetadataStore, namespace: LogNamespace, topic: Topic, group: str
) -> None:
    """Delete the positions of a group. Safe to repeat. Raises NotEmptyError if it has members."""
    members = await list_children(store, TopicPaths(namespace.name, topic.name).members(group))
    if members:
        raise NotEmptyError(f"group {group} has {len(members)} members: let them leave first")
    for stream in topic.streams:
        try:
            await namespace.subscriptions.delete(stream, group)
        except NoSuchSubscriptionError:
            continue
    await remove_tree(store, TopicPaths(namespace.name, topic.name).group(group))
