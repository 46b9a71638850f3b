"""Topics and consumer groups for programs without asyncio."""

from collections.abc import Iterator
from typing import TypeVar

from ...core.log.topics.consumer_group import Delivery, GroupMember
from ...core.log.topics.group_membership import GroupConfig, GroupListener, GroupMembership
from ...core.log.topics.partitions import Partitioner
from ...core.log.topics.record_consumer import ReceivedRecord, RecordConfig
from ...core.log.topics.record_group import RecordGroupMember
from ...core.log.topics.topic_writer import TopicWriter
from ...core.protocol.start import EARLIEST, Start
from ..topics import Topics
from .facade import Blocking, Facade, InLoop, OpenedFacade

Item = TypeVar("Item")


class SyncTopicWriter(OpenedFacade[TopicWriter]):
    """The blocking form of ``TopicWriter``."""

    append = Blocking(TopicWriter.append)
    append_many = Blocking(TopicWriter.append_many)
    append_numbered = Blocking(TopicWriter.append_numbered)
    last_sequence = InLoop(TopicWriter.last_sequence)
    partition_of = InLoop(TopicWriter.partition_of)
    room = Blocking(TopicWriter.room)
    flush = Blocking(TopicWriter.flush)
    end_streams = Blocking(TopicWriter.end_streams)


class SyncMember(OpenedFacade[GroupMember]):
    """The blocking form of ``GroupMember``: iterate it for deliveries, and commit each."""

    commit = Blocking(GroupMember.commit)
    pause = InLoop(GroupMember.pause)
    resume = InLoop(GroupMember.resume)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this member reads now, in order."""
        return self.inner.partitions

    def __iter__(self) -> Iterator[Delivery]:
        """Iterate over deliveries; blocks for the next one and stops when all partitions ended."""
        while (delivery := self.next_delivery()) is not None:
            yield delivery

    def next_delivery(self, *, timeout_s: float | None = None) -> Delivery | None:
        """Return the next delivery; None once every partition was ended and is finished.

        Raises as ``GroupMember.__anext__``, and TimeoutError: the call may be repeated then.
        """
        return self.run(_next, timeout_s)


class SyncRecordMember(OpenedFacade[RecordGroupMember]):
    """The blocking form of ``RecordGroupMember``: iterate it, and acknowledge each record."""

    acknowledge = InLoop(RecordGroupMember.acknowledge)
    reject = InLoop(RecordGroupMember.reject)
    flush = Blocking(RecordGroupMember.flush)
    pause = InLoop(RecordGroupMember.pause)
    resume = InLoop(RecordGroupMember.resume)

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this member reads now, in order."""
        return self.inner.partitions

    def __iter__(self) -> Iterator[ReceivedRecord]:
        """Iterate over records; blocks for the next one and stops when all partitions ended."""
        while (received := self.next_record()) is not None:
            yield received

    def next_record(self, *, timeout_s: float | None = None) -> ReceivedRecord | None:
        """Return the next record; None once every partition was ended and is finished.

        Raises as ``RecordGroupMember``, and TimeoutError: the call may be repeated then.
        """
        return self.run(_next, timeout_s)


class SyncTopics(Facade[Topics]):
    """The blocking form of ``Topics``. A listener is called in the thread of the client."""

    create = Blocking(Topics.create)
    grow = Blocking(Topics.grow)
    get = Blocking(Topics.get)
    names = Blocking(Topics.names)
    set_policy = Blocking(Topics.set_policy)
    describe = Blocking(Topics.describe)
    delete = Blocking(Topics.delete)
    groups = Blocking(Topics.groups)
    describe_group = Blocking(Topics.describe_group)
    lag = Blocking(Topics.lag)
    reset_group = Blocking(Topics.reset_group)
    delete_group = Blocking(Topics.delete_group)

    def writer(self, name: str, partitioner: Partitioner | None = None) -> SyncTopicWriter:
        """Return a writer for ``with``; see ``Topics.writer``."""
        return SyncTopicWriter(self._thread, self.inner.writer(name, partitioner))

    def join(
        self,
        name: str,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
        listener: GroupListener | None = None,
    ) -> SyncMember:
        """Return a member for ``with``, which joins the group; see ``Topics.join``."""
        joining = self.inner.join(name, group, start=start, config=config, listener=listener)
        return SyncMember(self._thread, joining)

    def join_records(
        self,
        name: str,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
        listener: GroupListener | None = None,
        records: RecordConfig | None = None,
        dead_letters: str | None = None,
    ) -> SyncRecordMember:
        """Return a member for ``with``, which joins the group; see ``Topics.join_records``."""
        joining = self.inner.join_records(
            name,
            group,
            start=start,
            config=config,
            listener=listener,
            records=records,
            dead_letters=dead_letters,
        )
        return SyncRecordMember(self._thread, joining)


async def _next(member: GroupMembership[Item]) -> Item | None:
    return await anext(member, None)
