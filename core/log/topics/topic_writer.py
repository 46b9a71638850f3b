"""Writers of topics, which write all partitions."""

from collections.abc import Generator, Mapping, Sequence
from typing import Any

from ...protocol.attributes.attribute_values import Headers
from ...protocol.errors import InvalidArgumentError, RefusedError, RhumblineError
from ...runtime.tasks import run_all
from ..api.log_namespace import LogNamespace
from ..api.log_writer import LogWriter
from ..close_at_exit import ClosesAtExit
from ..write.batch import Append, AppendMany, AppendManyResult
from ..write.stream_writer import StreamWriter
from .partitions import ByKey, Partitioner
from .topics import Topic


class TopicAppendMany:
    """The records of one ``append_many`` that are being appended, by partition.

    Await it for the result of each partition. It may be awaited any number of times, or never.
    """

    __slots__ = ("by_partition",)

    def __init__(self, by_partition: Mapping[int, AppendMany]) -> None:
        self.by_partition = by_partition
        """The records of each partition that got some."""

    def __await__(self) -> Generator[Any, None, dict[int, AppendManyResult]]:
        """Wait for all acknowledgements. Raises the first failure, in the order of partitions."""
        found: dict[int, AppendManyResult] = {}
        for partition, appended in self.by_partition.items():
            found[partition] = yield from appended.__await__()
        return found

    @property
    def is_done(self) -> bool:
        """True if awaiting it returns or raises without waiting."""
        return all(appended.is_done for appended in self.by_partition.values())


class TopicWriter(ClosesAtExit):
    """Writes all partitions of a topic.

    A direct client takes the partitions over from other writers; through proxies any number of
    writers share a topic (rule PRX-61).
    """

    def __init__(self, writers: Sequence[LogWriter], partitioner: Partitioner) -> None:
        self.writers = tuple(writers)
        """The writer of each partition, in order."""
        self._partitioner = partitioner

    def partition_of(self, key: bytes | None) -> int:
        """Return the partition of the next record with this key.

        For a key it is always the same, for None it may change with each call. Raises
        InvalidArgumentError if ``key`` is neither bytes nor None.
        """
        if key is not None and not isinstance(key, bytes | bytearray | memoryview):
            raise InvalidArgumentError(f"a key is bytes, not {type(key).__name__}; encode it first")
        return self._partitioner.choose(key, len(self.writers))

    # --- appending ------------------------------------------------------------------------------

    def append(
        self,
        payload: bytes,
        *,
        key: bytes | None = None,
        txid: int | None = None,
        headers: Headers | None = None,
        event_time: int | None = None,
    ) -> Append:
        """Append to the partition that the partitioner chooses, see ``StreamWriter.append``.

        The key is stored with the record. Raises InvalidArgumentError, among others if ``key`` is
        neither bytes nor None.
        """
        writer = self.writers[self.partition_of(key)]
        return writer.append(payload, txid, key=key, headers=headers, event_time=event_time)

    def append_many(
        self,
        payloads: Sequence[bytes],
        keys: Sequence[bytes | None] | None = None,
        *,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> TopicAppendMany:
        """Append records, each to the partition of its key, see ``StreamWriter.append_many``.

        Records of one partition keep their order. If the call raises, the records of some
        partitions may have been appended: TooManyRequestsError is raised before any is.
        """
        count = len(payloads)
        for name, values in (("keys", keys), ("headers", headers), ("event_times", event_times)):
            if values is not None and len(values) != count:
                raise InvalidArgumentError(f"{count} payloads need as many {name}: {len(values)}")
        if not payloads:
            raise InvalidArgumentError("append_many needs at least one record")
        chosen: dict[int, list[int]] = {}
        for index in range(count):
            partition = self.partition_of(None if keys is None else keys[index])
            chosen.setdefault(partition, []).append(index)
        for partition in chosen:
            self.writers[partition].check_room()
        return TopicAppendMany(
            {
                partition: self.writers[partition].append_many(
                    [payloads[index] for index in indexes],
                    keys=None if keys is None else [keys[index] for index in indexes],
                    headers=None if headers is None else [headers[index] for index in indexes],
                    event_times=None
                    if event_times is None
                    else [event_times[index] for index in indexes],
                )
                for partition, indexes in sorted(chosen.items())
            }
        )

    def append_numbered(
        self,
        producer: bytes,
        first_sequence: int,
        payloads: Sequence[bytes],
        *,
        partition: int,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> AppendMany:
        """Append numbered records to one partition, see ``StreamWriter.append_numbered``.

        A producer numbers the records of each partition apart, because each partition is a stream:
        ``partition_of`` names the partition of a key, ``last_sequence`` the last number in it.
        """
        return self._writer(partition).append_numbered(
            producer, first_sequence, payloads, keys=keys, headers=headers, event_times=event_times
        )

    def last_sequence(self, producer: bytes, *, partition: int) -> int | None:
        """Return the last accepted sequence of ``producer`` in a partition, None if unknown.

        Raises RefusedError through proxies: there, repeat the append with the number instead.
        """
        writer = self._writer(partition)
        if not isinstance(writer, StreamWriter):
            raise RefusedError("only a direct client knows the last number of a producer")
        return writer.last_sequence(producer)

    def _writer(self, partition: int) -> LogWriter:
        if type(partition) is not int or not 0 <= partition < len(self.writers):
            raise InvalidArgumentError(
                f"there is no partition {partition!r}: the topic has {len(self.writers)}"
            )
        return self.writers[partition]

    # --- waiting and closing --------------------------------------------------------------------

    @property
    def failure(self) -> RhumblineError | None:
        """The reason why a partition takes no more records; None while all of them do."""
        for writer in self.writers:
            if writer.failure is not None:
                return writer.failure
        return None

    async def room(self) -> None:
        """Wait until all partitions have room, see ``StreamWriter.room``."""
        for writer in self.writers:
            await writer.room()

    async def flush(self) -> None:
        """Flush all partitions at once, see ``StreamWriter.flush``."""
        await run_all([writer.flush() for writer in self.writers], "flush the topic")

    async def end_streams(self) -> None:
        """End the streams of all partitions for good, see ``StreamWriter.end_stream``.

        If it fails for one, the others may have ended; a repeat with another writer goes on.
        """
        for writer in self.writers:
            await writer.end_stream()

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
    namespace: LogNamespace, topic: Topic, partitioner: Partitioner | None = None
) -> TopicWriter:
    """Open the writers of all partitions. Raises the errors of ``Namespace.open_writer``.

    Records are partitioned by key unless ``partitioner`` is given.
    """
    writers: list[LogWriter] = []
    try:
        for stream in topic.streams:
            writers.append(await namespace.open_writer(stream))
    except BaseException:
        for writer in writers:
            await writer.abort()
        raise
    return TopicWriter(writers, partitioner or ByKey(topic.first_count))
