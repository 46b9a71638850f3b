"""Partitioned topics: several streams under one name, and where their groups are kept.

A topic's record says how many partitions it has, for good; partition ``n`` of ``orders`` is the
stream ``orders.n``. Everything that holds for streams holds for each of them; there is no order
between partitions.
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
    StreamExistsError,
)
from ...protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...runtime.metadata_store import Create, MetadataStore
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
        """The stream that is a partition."""
        assert 0 <= partition < self.partition_count
        return f"{self.name}.{partition}"

    @property
    def streams(self) -> tuple[str, ...]:
        """The streams of all partitions, in order."""
        return tuple(map(self.stream, range(self.partition_count)))


async def create_topic(
    store: MetadataStore,
    namespace: Namespace,
    name: str,
    partition_count: int,
    policy: StreamPolicy | None = None,
) -> Topic:
    """Makes a topic and its streams, or what is missing of them; a repeat is safe.

    Raises InvalidArgumentError when it exists with another number of partitions, and what
    ``Namespace.create_stream`` raises.
    """
    topic = Topic(name, check_partition_count(partition_count))
    await _make(store, namespace, topic)
    found = await open_topic(store, namespace, name)
    if found != topic:
        raise InvalidArgumentError(
            f"topic {name} exists with {found.partition_count} partitions; that is for good"
        )
    for stream in topic.streams:
        try:
            await namespace.create_stream(stream, policy)
        except StreamExistsError:
            continue
    return topic


async def _make(store: MetadataStore, namespace: Namespace, topic: Topic) -> None:
    """Makes its node, unless there is one. A request that comes late makes no half a namespace."""
    record = encode_metadata_record(_FORMAT, {"partitions": topic.partition_count})
    creation = Create(TopicPaths(namespace.name, topic.name).topic, record)
    for _ in range(CONTENTION_MAX):
        try:
            await idempotent_writes.transact(store, [await namespace.check()], creation)
        except BadVersionError:
            continue  # its policy was changed
        except NodeExistsError:
            pass
        return
    raise MetadataUnavailableError(f"topic {topic.name}: its namespace changes all the time")


async def open_topic(store: MetadataStore, namespace: Namespace, name: str) -> Topic:
    """The topic of that name. Raises NoSuchStreamError, CorruptionError."""
    try:
        value = await store.get(TopicPaths(namespace.name, name).topic)
    except NoNodeError as error:
        raise NoSuchStreamError(f"no topic {name} in namespace {namespace.name}") from error
    fields = decode_metadata_record(
        f"topic {name}", value.data, version=_FORMAT, fields={"partitions": int}
    )
    return Topic(name, fields["partitions"])


async def delete_topic(store: MetadataStore, namespace: Namespace, name: str) -> None:
    """Deletes a topic with its streams and groups. A repeat after an error goes on.

    Raises NoSuchStreamError; NotEmptyError while a group has members.
    """
    topic = await open_topic(store, namespace, name)
    for stream in topic.streams:
        try:
            await namespace.delete_stream(stream)
        except NoSuchStreamError:
            continue
    await _remove(store, TopicPaths(namespace.name, name).topic)


async def _remove(store: MetadataStore, path: str) -> None:
    """Removes a node and everything below it, and nothing that is made there later."""
    try:
        version = (await store.get(path)).version
        for child in await store.children(path):
            await _remove(store, f"{path}/{child}")
        await store.delete(path, expect=version)
    except (NoNodeError, BadVersionError):
        return


class TopicWriter:
    """Writes all partitions of a topic. As with streams, one writer at a time."""

    def __init__(self, writers: Sequence[StreamWriter], partitioner: Partitioner) -> None:
        self.writers = tuple(writers)
        """Of each partition."""
        self._partitioner = partitioner

    def append(
        self, payload: bytes, *, key: bytes | None = None, txid: int | None = None
    ) -> Append:
        """Appends to the partition that the partitioner chooses, as ``StreamWriter.append``."""
        partition = self._partitioner.choose(key, len(self.writers))
        return self.writers[partition].append(payload, txid)

    async def flush(self) -> None:
        """As ``StreamWriter.flush``, of all partitions."""
        for writer in self.writers:
            await writer.flush()

    async def close(self) -> None:
        """Closes every partition's writer; then raises the first failure. Safe to repeat."""
        failures: list[Exception] = []
        for writer in self.writers:
            try:
                await writer.close()
            except Exception as error:
                failures.append(error)
        if failures:
            raise failures[0]


async def open_topic_writer(
    namespace: Namespace, topic: Topic, partitioner: Partitioner | None = None
) -> TopicWriter:
    """Takes over all partitions; by key unless told otherwise. Raises as ``open_writer``."""
    writers: list[StreamWriter] = []
    try:
        for stream in topic.streams:
            writers.append(await namespace.open_writer(stream))
    except BaseException:
        for writer in writers:
            await writer.abort()
        raise
    return TopicWriter(writers, partitioner or ByKey())
