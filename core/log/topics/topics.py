"""Partitioned topics: several streams under one name (rules STR-25 and STR-38).

The record of a topic holds its number of partitions, which may grow but never shrinks. Partition
``n`` of the topic ``orders`` is the stream ``orders.n``. Each partition has all properties of a
stream; there is no order between records of different partitions.
"""

from dataclasses import dataclass

from ...metadata import idempotent_writes
from ...protocol.errors import (
    BadVersionError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchStreamError,
    NotEmptyError,
    StreamExistsError,
)
from ...protocol.metadata_record import (
    decode_metadata_record,
    encode_metadata_record,
    metadata_record_version,
)
from ...runtime.metadata_store import Create, MetadataStore, Put, Version
from ..api.log_namespace import LogNamespace
from ..metadata.paths import TopicPaths, page_start, topics_path
from ..metadata.stream_store import CONTENTION_MAX
from ..namespace import LIST_LIMIT, Namespace
from ..policy import StreamPolicy
from .partitions import check_partition_count, partition_of_key

_FORMAT = 1
_GROWN_FORMAT = 2
"""Programs that know no growth refuse a topic that has grown: they would find wrong partitions."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a namespace."""

    name: str
    partition_count: int
    first_count: int = 0
    """The number of partitions with which the topic was created, on which the partition of a key
    depends; 0: the same as now."""

    def __post_init__(self) -> None:
        if not self.first_count:
            object.__setattr__(self, "first_count", self.partition_count)

    def partition_of(self, key: bytes) -> int:
        """Return the partition of a key, see ``partition_of_key``."""
        return partition_of_key(key, self.partition_count, self.first_count)

    def stream(self, partition: int) -> str:
        """Return the name of the stream of a partition."""
        assert 0 <= partition < self.partition_count
        return f"{self.name}.{partition}"

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams of all partitions, in order."""
        return tuple(map(self.stream, range(self.partition_count)))


async def create_topic(
    store: MetadataStore,
    namespace: Namespace,
    name: str,
    partition_count: int,
    policy: StreamPolicy | None = None,
) -> Topic:
    """Create a topic and those of its streams that do not exist. Safe to repeat.

    Raises InvalidArgumentError if the topic exists with another number of partitions, and the
    errors of ``Namespace.create_stream``.
    """
    topic = Topic(name, check_partition_count(partition_count))
    await _create_record(store, namespace, topic)
    found = await open_topic(store, namespace, name)
    if found.partition_count != topic.partition_count:
        raise InvalidArgumentError(
            f"topic {name} already exists with {found.partition_count} partitions, not with "
            f"{partition_count}"
        )
    await _create_streams(namespace, found, policy)
    return found


async def grow_topic(
    store: MetadataStore,
    namespace: Namespace,
    name: str,
    partition_count: int,
    policy: StreamPolicy | None = None,
) -> Topic:
    """Add partitions to a topic, up to ``partition_count``. Safe to repeat.

    Each key keeps its partition or moves to a new one (rule STR-38). Producers use the new
    partitions when they open the topic again; group members notice them by themselves. The order
    of the records of a key that moves is kept only if all of its earlier records were processed
    before the first new one is appended. Raises NoSuchStreamError, and InvalidArgumentError if the
    topic has more partitions already.
    """
    path = TopicPaths(namespace.name, name).topic
    check_partition_count(partition_count)
    for _ in range(CONTENTION_MAX):
        found, version = await _read_topic(store, namespace, name)
        if found.partition_count > partition_count:
            raise InvalidArgumentError(
                f"topic {name} has {found.partition_count} partitions, and their number cannot "
                f"shrink to {partition_count}"
            )
        grown = Topic(name, partition_count, found.first_count)
        await _create_streams(namespace, grown, policy)  # before anybody looks for them
        if grown == found:
            return found
        change = Put(path, _encode(grown), expect=version)
        try:
            await idempotent_writes.transact(store, [await namespace.check()], change)
        except BadVersionError:
            continue
        except NoNodeError as error:
            raise _missing_error(namespace, name) from error
        return grown
    raise MetadataUnavailableError(
        f"topic {name}: not changed in {CONTENTION_MAX} attempts, others change it"
    )


async def _create_streams(namespace: Namespace, topic: Topic, policy: StreamPolicy | None) -> None:
    for stream in topic.streams:
        try:
            await namespace.create_stream(stream, policy)
        except StreamExistsError:
            continue


async def list_topics(
    store: MetadataStore,
    namespace: Namespace,
    prefix: str = "",
    *,
    after: str | None = None,
    limit: int = LIST_LIMIT,
) -> list[str]:
    """Return a page of topic names that begin with ``prefix`` and follow ``after``, in order."""
    try:
        found = await store.children(
            topics_path(namespace.name), after=page_start(prefix, after), limit=limit
        )
    except NoNodeError:
        return []
    return [name for name in found if name.startswith(prefix)]


async def _create_record(store: MetadataStore, namespace: Namespace, topic: Topic) -> None:
    """Create the record of a topic unless it exists.

    The request is conditional on the namespace, so a late request never recreates part of a deleted
    namespace.
    """
    creation = Create(TopicPaths(namespace.name, topic.name).topic, _encode(topic))
    for _ in range(CONTENTION_MAX):
        try:
            await idempotent_writes.transact(store, [await namespace.check()], creation)
        except BadVersionError:
            continue  # the namespace was changed
        except NodeExistsError:
            pass
        return
    raise MetadataUnavailableError(
        f"topic {topic.name}: not created in {CONTENTION_MAX} attempts, its namespace changed"
    )


def _encode(topic: Topic) -> bytes:
    fields = {"partitions": topic.partition_count}
    if topic.first_count == topic.partition_count:
        return encode_metadata_record(_FORMAT, fields)
    return encode_metadata_record(_GROWN_FORMAT, {**fields, "first": topic.first_count})


async def open_topic(store: MetadataStore, namespace: LogNamespace, name: str) -> Topic:
    """Read a topic. Raises NoSuchStreamError, CorruptionError."""
    return (await _read_topic(store, namespace, name))[0]


async def _read_topic(
    store: MetadataStore, namespace: LogNamespace, name: str
) -> tuple[Topic, Version]:
    try:
        value = await store.get(TopicPaths(namespace.name, name).topic)
    except NoNodeError as error:
        raise _missing_error(namespace, name) from error
    has_grown = metadata_record_version(value.data) == _GROWN_FORMAT
    fields = decode_metadata_record(
        f"topic {name}",
        value.data,
        version=_GROWN_FORMAT if has_grown else _FORMAT,
        fields={"partitions": int, "first": int} if has_grown else {"partitions": int},
    )
    return Topic(name, fields["partitions"], fields.get("first", 0)), value.version


def _missing_error(namespace: LogNamespace, name: str) -> NoSuchStreamError:
    return NoSuchStreamError(f"no topic {name} in namespace {namespace.name}")


async def set_topic_policy(
    namespace: LogNamespace, topic: Topic, policy: StreamPolicy | None
) -> None:
    """Set the policy of all streams of a topic; None: they follow the namespace. Safe to repeat.

    Raises NoSuchStreamError.
    """
    for stream in topic.streams:
        await namespace.set_stream_policy(stream, policy)


async def delete_topic(store: MetadataStore, namespace: Namespace, name: str) -> None:
    """Delete a topic with its streams and groups. A repeat after an error continues.

    Raises NoSuchStreamError, and NotEmptyError, before anything is deleted, if a group has members.
    """
    topic = await open_topic(store, namespace, name)
    await _check_no_members(store, TopicPaths(namespace.name, name))
    for stream in topic.streams:
        try:
            await namespace.delete_stream(stream)
        except NoSuchStreamError:
            continue
    await remove_tree(store, TopicPaths(namespace.name, name).topic)


async def _check_no_members(store: MetadataStore, paths: TopicPaths) -> None:
    """Raise NotEmptyError if a group of the topic has members."""
    for group in await list_children(store, paths.groups):
        members = await list_children(store, paths.members(group))
        if members:
            raise NotEmptyError(
                f"group {group} has {len(members)} members, nothing was deleted: "
                "let them leave first; a member that crashed leaves when its session expires"
            )


async def list_children(store: MetadataStore, path: str) -> list[str]:
    """Return all children of a node; none if it does not exist."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def remove_tree(store: MetadataStore, path: str) -> None:
    """Remove a node and everything below it, but no node that is created there later."""
    try:
        version = (await store.get(path)).version
        for child in await store.children(path):
            await remove_tree(store, f"{path}/{child}")
    except NoNodeError:
        return
    await idempotent_writes.discard(store, path, version)
