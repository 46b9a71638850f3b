"""Consumer groups whose members acknowledge single records (rules STR-25 and STR-36)."""

from collections.abc import Callable

from ...protocol.errors import ConfigurationError
from ...protocol.start import EARLIEST, Start
from ...runtime.metadata_store import MetadataStore
from ...runtime.primitives.wakeup import Wakeup
from ...runtime.runtime import Runtime
from ..api.log_namespace import LogNamespace
from .dead_letters import DeadLetterSink
from .group_membership import GroupConfig, GroupListener, GroupMembership, PartitionSource
from .record_consumer import ReceivedRecord, RecordConfig, RecordConsumer
from .topics import Topic

OpenDeadLetters = Callable[[int], DeadLetterSink]
"""Function from a partition to where its dead letters go."""


class PartitionConsumer(PartitionSource[ReceivedRecord]):
    """A partition that a member has claimed and whose records it acknowledges one by one."""

    def __init__(self, consumer: RecordConsumer, unused: Wakeup) -> None:
        super().__init__(consumer.partition)
        self.consumer = consumer
        self._unused = unused

    def try_next(self) -> ReceivedRecord | None:
        """Return the next record, see ``PartitionSource``."""
        found = self.consumer.try_next()
        self.is_finished = found is None and self.consumer.is_finished
        return found

    async def stop(self) -> None:
        """Do nothing: without calls of ``try_next`` nothing is delivered."""

    async def wait_until_unused(self) -> None:
        """Wait until the application has acknowledged or rejected every record that it has."""
        while self.consumer.failure is None and self.consumer.outstanding:
            await self._unused.wait()

    def finish(self) -> None:
        """Note that the application has acknowledged or rejected a record."""
        self._unused.wake()

    async def aclose(self) -> None:
        """Store the acknowledgements, see ``PartitionSource``."""
        await self.consumer.aclose()


class RecordGroupMember(GroupMembership[ReceivedRecord]):
    """A member of a consumer group that acknowledges single records.

    ``async with`` joins and leaves; iterate it for records. Each record is delivered again until it
    is acknowledged, by this or another member.
    """

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        namespace: LogNamespace,
        topic: Topic,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
        listener: GroupListener | None = None,
        records: RecordConfig | None = None,
        dead_letters: OpenDeadLetters | None = None,
    ) -> None:
        """``dead_letters`` opens the sink of a partition; needed with ``deliveries_max``."""
        super().__init__(
            runtime,
            store,
            namespace,
            topic,
            group,
            start=start,
            config=config,
            listener=listener,
        )
        self._records = records or RecordConfig()
        if (self._records.deliveries_max is None) != (dead_letters is None):
            raise ConfigurationError(
                "deliveries_max and a dead-letter stream are only allowed together"
            )
        self._dead_letters = dead_letters

    def acknowledge(self, received: ReceivedRecord) -> bool:
        """Mark a record as processed, see ``RecordConsumer.acknowledge``.

        Returns False if the member does not hold the record any more: it may be delivered again.
        """
        source = self._source(received)
        if source is None or not source.consumer.acknowledge(received.position):
            return False
        source.finish()
        return True

    def reject(
        self, received: ReceivedRecord, *, delay_ms: float = 0, reason: str = "rejected"
    ) -> bool:
        """Give a record back for another delivery, see ``RecordConsumer.reject``.

        Returns False if the member does not hold the record any more.
        """
        source = self._source(received)
        if source is None:
            return False
        done = source.consumer.reject(received.position, delay_ms=delay_ms, reason=reason)
        source.finish()
        return done

    async def flush(self) -> None:
        """Store all acknowledgements so far. Raises what storing raises."""
        for source in list(self._sources.values()):
            if isinstance(source, PartitionConsumer):
                await source.consumer.flush()

    async def __aenter__(self) -> "RecordGroupMember":
        """Join the group. Partitions are assigned soon afterwards."""
        await super().__aenter__()
        return self

    def __aiter__(self) -> "RecordGroupMember":
        """Return the member itself."""
        return self

    def _source(self, received: ReceivedRecord) -> PartitionConsumer | None:
        source = self._sources.get(received.partition)
        return source if isinstance(source, PartitionConsumer) else None

    async def _open_source(self, partition: int) -> PartitionConsumer:
        consumer = RecordConsumer(
            self._runtime,
            self._namespace,
            self.topic.stream(partition),
            self.group,
            start=self._start,
            config=self._records,
            dead_letters=None if self._dead_letters is None else self._dead_letters(partition),
            partition=partition,
            on_ready=self._item_ready.wake,
        )
        try:
            await consumer.open()
        except BaseException:
            await consumer.aclose()
            raise
        self._note_start(partition, consumer.stored_position)
        return PartitionConsumer(consumer, Wakeup())
