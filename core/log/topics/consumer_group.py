"""Consumer groups that deliver batches and commit positions (rule STR-25)."""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from ...protocol.dlsn import Dlsn, check_position
from ...protocol.errors import InvalidArgumentError, RhumblineError
from ...protocol.start import EARLIEST, Start
from ...runtime.metadata_store import MetadataStore
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks, wait_until_done
from ..api.log_namespace import LogNamespace
from ..metadata.subscriptions import Subscription
from ..read.record_batch import RecordBatch
from ..read.stream_reader import StreamReader
from .group_membership import GroupConfig, GroupListener, GroupMembership, PartitionSource
from .topics import Topic

_BATCHES_WAITING_MAX = 2
"""Batches of one partition that wait for the application, besides what the reader has fetched."""


class Delivery(NamedTuple):
    """A batch of one partition, delivered to the application."""

    partition: int
    batch: RecordBatch
    position: Dlsn
    """The position after the batch, which ``commit`` stores."""
    assignment: "PartitionAssignment"


class PartitionAssignment(PartitionSource[Delivery]):
    """A partition that a member has claimed and reads in batches."""

    def __init__(
        self,
        partition: int,
        subscription: Subscription,
        reader: StreamReader,
        on_ready: Callable[[], None],
    ) -> None:
        super().__init__(partition)
        self.subscription = subscription
        self.reader = reader
        self.reader_task: asyncio.Task[None] | None = None
        self._batches: deque[RecordBatch] = deque()
        self._room = asyncio.Event()
        self._on_ready = on_ready
        self._failure: RhumblineError | None = None
        self._stream_has_ended = False
        self._unused = asyncio.Event()
        self._unused.set()

    async def read(self) -> None:
        """Fetch batches while the application takes them."""
        try:
            async for batch in self.reader.batches():
                self._batches.append(batch)
                self._on_ready()
                while len(self._batches) >= _BATCHES_WAITING_MAX:
                    self._room.clear()
                    await self._room.wait()
            self._stream_has_ended = True
        except RhumblineError as error:
            self._failure = error
        self._on_ready()

    def try_next(self) -> Delivery | None:
        """Return the next batch, see ``PartitionSource``."""
        if self._batches:
            batch = self._batches.popleft()
            self._room.set()
            self._unused.clear()
            last = batch.last_dlsn
            position = Dlsn(last.lssn, last.entry_id, last.slot + 1).in_stream(last.stream_id)
            return Delivery(self.partition, batch, position, self)
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        self.is_finished = self._stream_has_ended
        return None

    def finish(self) -> None:
        """Note that the application has finished the last batch."""
        self._unused.set()

    async def stop(self) -> None:
        """Stop fetching, see ``PartitionSource``."""
        if self.reader_task is not None:
            self.reader_task.cancel()
            await wait_until_done(self.reader_task)

    async def wait_until_unused(self) -> None:
        """Wait until the application has finished the last batch, see ``PartitionSource``."""
        await self._unused.wait()

    async def aclose(self) -> None:
        """Close the reader, see ``PartitionSource``."""
        await self.reader.aclose()


class GroupMember(GroupMembership[Delivery]):
    """A member of a consumer group that reads batches and commits positions.

    ``async with`` joins and leaves; iterate it for deliveries. The application commits each
    delivery after processing it.
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
    ) -> None:
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
        # The partition of the batch that the application processes.
        self._delivered: PartitionAssignment | None = None
        self._reader_tasks = Tasks()

    async def commit(self, delivery: Delivery, through: Dlsn | None = None) -> None:
        """Store that everything up to and including ``delivery`` was processed. Safe to repeat.

        With ``through``, the position of a record of the batch, only the records up to and
        including that one are committed. It is also correct if the partition has moved to another
        member meanwhile. Raises InvalidArgumentError if ``through`` is not in the batch, and the
        errors of ``SubscriptionStore.commit``.
        """
        position = delivery.position if through is None else _after(delivery.batch, through)
        stream = self.topic.stream(delivery.partition)
        subscriptions = self._namespace.subscriptions
        await subscriptions.commit(delivery.assignment.subscription, stream, position)

    async def aclose(self) -> None:
        """Leave the group and release all partitions immediately. Safe to repeat."""
        try:
            await super().aclose()
        finally:
            await self._reader_tasks.aclose()

    async def __aenter__(self) -> "GroupMember":
        """Join the group. Partitions are assigned soon afterwards."""
        await super().__aenter__()
        return self

    def __aiter__(self) -> "GroupMember":
        """Return the member itself."""
        return self

    def _on_next(self) -> None:
        if self._delivered is not None:
            self._delivered.finish()
            self._delivered = None

    def _take(self) -> Delivery | None:
        found = super()._take()
        if found is not None:
            self._delivered = found.assignment
        return found

    async def _open_source(self, partition: int) -> PartitionAssignment:
        stream = self.topic.stream(partition)
        subscriptions = self._namespace.subscriptions
        reader = await self._namespace.open_reader(stream, self._start)
        try:
            subscription = await subscriptions.create(
                stream, self.group, reader.confirmed_position()
            )
            self._note_start(partition, subscription.position)
            if subscription.position != reader.position:
                await reader.aclose()
                reader = await self._namespace.open_reader(stream, subscription.position)
        except BaseException:
            await reader.aclose()
            raise
        found = PartitionAssignment(partition, subscription, reader, self._item_ready.wake)
        found.reader_task = self._reader_tasks.spawn(found.read(), f"read {stream}")
        return found


def _after(batch: RecordBatch, through: Dlsn) -> Dlsn:
    """Return the position after the record at ``through``, which must be in the batch."""
    check_position(through).check_stream("of the batch", batch.stream_id)
    first, last = batch.first_dlsn, batch.last_dlsn
    if not first <= through <= last:
        raise InvalidArgumentError(
            f"no record of the batch is at {through}: its records are at {first} to {last}"
        )
    return Dlsn(through.lssn, through.entry_id, through.slot + 1).in_stream(batch.stream_id)
