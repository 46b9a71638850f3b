"""Partitioned topics: a fixed number of streams under one name (rule STR-25).

The record of a topic holds its number of partitions, which never changes. Partition ``n`` of the
topic ``orders`` is the stream ``orders.n``. Each partition has all properties of a stream; there is
no order between records of different partitions.
"""

from collections.abc import Sequence
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
from ...protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...runtime.metadata_store import Create, MetadataStore
from ..close_at_exit import ClosesAtExit
from ..metadata.paths import TopicPaths
from ..metadata.stream_store import CONTENTION_MAX
from ..namespace import Namespace
from ..policy import StreamPolicy
from ..write.batch import Append
from ..write.stream_writer import StreamWriter
from .partitions import ByKey, Partitioner, check_partition_count

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of a namespace."""

    name: str
    partition_count: int

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
    if found != topic:
        raise InvalidArgumentError(
            f"topic {name} already exists with {found.partition_count} partitions, "
            f"their number cannot change to {partition_count}"
        )
    for stream in topic.streams:
        try:
            await namespace.create_stream(stream, policy)
        except StreamExistsError:
            continue
    return topic


async def _create_record(store: MetadataStore, namespace: Namespace, topic: Topic) -> None:
    """Create the record of a topic unless it exists.

    The request is conditional on the namespace, so a late request never recreates part of a deleted
    namespace.
    """
    record = encode_metadata_record(_FORMAT, {"partitions": topic.partition_count})
    creation = Create(TopicPaths(namespace.name, topic.name).topic, record)
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


async def open_topic(store: MetadataStore, namespace: Namespace, name: str) -> Topic:
    """Read a topic. Raises NoSuchStreamError, CorruptionError."""
    try:
        value = await store.get(TopicPaths(namespace.name, name).topic)
    except NoNodeError as error:
        raise NoSuchStreamError(f"no topic {name} in namespace {namespace.name}") from error
    fields = decode_metadata_record(
        f"topic {name}", value.data, version=_FORMAT, fields={"partitions": int}
    )
    return Topic(name, fields["partitions"])


async def set_topic_policy(namespace: Namespace, topic: Topic, policy: StreamPolicy | None) -> None:
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
    await _remove(store, TopicPaths(namespace.name, name).topic)


async def _check_no_members(store: MetadataStore, paths: TopicPaths) -> None:
    """Raise NotEmptyError if a group of the topic has members."""
    for group in await _children(store, paths.groups):
        members = await _children(store, paths.members(group))
        if members:
            raise NotEmptyError(
                f"group {group} has {len(members)} members, nothing was deleted: "
                "let them leave first; a member that crashed leaves when its session expires"
            )


async def _children(store: MetadataStore, path: str) -> list[str]:
    """Return all children of a node, none if it does not exist."""
    try:
        return await store.children(path)
    except NoNodeError:
        return []


async def _remove(store: MetadataStore, path: str) -> None:
    """Remove a node and everything below it, but no node that is created there later."""
    try:
        version = (await store.get(path)).version
        for child in await store.children(path):
            await _remove(store, f"{path}/{child}")
    except NoNodeError:
        return
    await idempotent_writes.discard(store, path, version)


class TopicWriter(ClosesAtExit):
    """Writes all partitions of a topic. Each partition has one writer at a time."""

    def __init__(self, writers: Sequence[StreamWriter], partitioner: Partitioner) -> None:
        self.writers = tuple(writers)
        """The writer of each partition, in order."""
        self._partitioner = partitioner

    def append(
        self, payload: bytes, *, key: bytes | None = None, txid: int | None = None
    ) -> Append:
        """Append to the partition that the partitioner chooses, see ``StreamWriter.append``.

        Raises InvalidArgumentError, among others if ``key`` is neither bytes nor None.
        """
        if key is not None and not isinstance(key, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"a key is bytes, not {type(key).__name__}; encode it first")
        partition = self._partitioner.choose(key, len(self.writers))
        return self.writers[partition].append(payload, txid)

    async def flush(self) -> None:
        """Flush all partitions, see ``StreamWriter.flush``."""
        for writer in self.writers:
            await writer.flush()

    async def close(self) -> None:
        """Close the writers of all partitions, then raise the first failure. Safe to repeat."""
        failures: list[Exception] = []
        for writer in self.writers:
            try:
                await writer.close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]

    async def _close_at_exit(self) -> None:
        await self.close()

    async def _abort_at_exit(self) -> None:
        for writer in self.writers:
            await writer.abort()


async def open_topic_writer(
    namespace: Namespace, topic: Topic, partitioner: Partitioner | None = None
) -> TopicWriter:
    """Take over all partitions of a topic. Raises the errors of ``Namespace.open_writer``.

    Records are partitioned by key unless ``partitioner`` is given.
    """
    writers: list[StreamWriter] = []
    try:
        for stream in topic.streams:
            writers.append(await namespace.open_writer(stream))
    except BaseException:
        for writer in writers:
            await writer.abort()
        raise
    return TopicWriter(writers, partitioner or ByKey())
