"""Consumer groups: readers that share the partitions of a topic (rule STR-25).

A group has no leader. Each member creates an ephemeral node, lists the members and computes the
assignment with ``partitions.assign_partitions``, which has the same result in every member. Then it
releases the partitions that are no longer its own and claims those that are. This repeats when a
member joins or leaves. Invariants:

1. A member reads a partition only while it holds the claim on it, an ephemeral node that only one
   member can create. Two members therefore never read the same partition, even while their lists
   of members differ. Exception: a member that is cut off until its session expires learns late
   that it lost its claims.
2. A claim is released only after reading has stopped and the application has finished the last
   batch, which it shows by requesting the next one, or after ``handover_ms_max``.
3. The position in a partition is the subscription of the group, which only moves forward. Batches
   that were delivered but not committed are delivered again, possibly by another member: delivery
   is at least once.
4. Iteration ends once every partition has ended and the members have finished all batches of their
   partitions. A member that has finished its share writes this, with the list of members on which
   the share depends, into its node; when all nodes in the list agree, each member ends.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from crc32c import crc32c

from ...metadata import idempotent_writes
from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    ClosedError,
    NodeExistsError,
    NoNodeError,
    RhumblineError,
    SessionLostError,
    UnknownOutcomeError,
)
from ...protocol.start import EARLIEST, Start, check_start
from ...runtime.metadata_store import MetadataStore, Session, Watch
from ...runtime.primitives.backoff import Backoff
from ...runtime.primitives.wakeup import Wakeup
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks, wait_until_done
from ..close_at_exit import ClosesAtExit
from ..metadata.paths import TopicPaths
from ..metadata.subscriptions import Subscription
from ..namespace import Namespace
from ..read.record_batch import RecordBatch
from ..read.stream_reader import StreamReader
from .partitions import assign_partitions
from .topics import Topic

_BATCHES_WAITING_MAX = 4


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of one member of a consumer group."""

    session_ttl_ms: int = 10_000
    """Time in ms after which a silent member loses its session and its partitions."""
    handover_ms_max: int = 10_000
    """Longest time in ms that the handover of a partition waits until the application has finished
    its last batch."""
    recheck_ms: int = 10_000
    """Longest time in ms between two listings of the members, in case a watch event is lost."""
    retry_ms: int = 200
    """Pause in ms before a step is retried after a transient error."""


class Delivery(NamedTuple):
    """A batch of one partition, delivered to the application."""

    partition: int
    batch: RecordBatch
    position: Dlsn
    """The position after the batch, which ``commit`` stores."""
    assignment: "PartitionAssignment"


class PartitionAssignment:
    """A partition that a member has claimed and reads."""

    def __init__(self, partition: int, subscription: Subscription, reader: StreamReader) -> None:
        self.partition = partition
        self.subscription = subscription
        self.reader = reader
        self.reader_task: asyncio.Task[None] | None = None
        self.is_ended = False
        """True once no batch of the partition may be delivered to the application."""
        self.has_failed = False
        """True if reading must begin again from the committed position."""
        self.is_finished = False
        """True once the stream has ended and the application has finished its last batch."""


class GroupMember(ClosesAtExit):
    """A member of a consumer group. ``async with`` joins and leaves; iterate it for deliveries.

    The application commits each delivery after processing it. For one event loop. A process may
    have several members, one object each.
    """

    def __init__(
        self,
        runtime: Runtime,
        store: MetadataStore,
        namespace: Namespace,
        topic: Topic,
        group: str,
        *,
        start: Start = EARLIEST,
        config: GroupConfig | None = None,
    ) -> None:
        self.topic = topic
        self.group = group
        self._runtime = runtime
        self._store = store
        self._namespace = namespace
        self._paths = TopicPaths(namespace.name, topic.name)
        self._paths.group(group)  # checks the name
        self._start = check_start(start)
        self._config = config or GroupConfig()
        self._backoff = Backoff(runtime.random, self._config.retry_ms, self._config.retry_ms)
        self._id = ""  # a new id for each session
        self._session: Session | None = None
        self._assignments: dict[int, PartitionAssignment] = {}
        # Partitions that may be claimed although nothing reads them: a step was interrupted.
        self._unread_claims: set[int] = set()
        self._deliveries: asyncio.Queue[
            tuple[PartitionAssignment | None, RecordBatch | RhumblineError | None]
        ]
        # With None instead of a batch: the end of a partition, or of all partitions.
        self._deliveries = asyncio.Queue(_BATCHES_WAITING_MAX)
        self._has_ended = False  # all partitions, in all members
        self._mark: bytes | None = b""  # the content of this member's node; None: unknown
        # The partition of the batch that the application processes.
        self._delivered: PartitionAssignment | None = None
        self._batch_finished = asyncio.Event()
        self._wakeup = Wakeup()
        self._run_tasks = Tasks()
        self._reader_tasks = Tasks()
        self._watch: Watch | None = None

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this member reads now, in order."""
        return tuple(sorted(n for n, held in self._assignments.items() if not held.is_ended))

    # --- application interface ------------------------------------------------------------------

    def __aiter__(self) -> "GroupMember":
        """Return the member itself."""
        return self

    async def __anext__(self) -> Delivery:
        """Wait for and return the next batch of any assigned partition.

        The call means that the application has finished the previous batch. Iteration ends when
        every partition was ended and the group's members have finished all batches. Raises the
        errors of readers, subscriptions and the metadata store; iterating again continues from the
        committed position.
        """
        self._delivered = None
        self._batch_finished.set()
        while True:
            if self._run_tasks.is_closed:
                raise ClosedError(f"the member of group {self.group} is closed")
            if self._has_ended:
                raise StopAsyncIteration
            assignment, found = await self._deliveries.get()
            if assignment is not None and assignment.is_ended:
                continue
            if isinstance(found, RhumblineError):
                raise found
            if assignment is None:
                continue  # all partitions have ended
            if found is None:
                assignment.is_finished = True
                self._wakeup.wake()
                continue
            self._delivered = assignment
            self._batch_finished.clear()
            last = found.last_dlsn
            position = Dlsn(last.lssn, last.entry_id, last.slot + 1)
            return Delivery(assignment.partition, found, position, assignment)

    async def commit(self, delivery: Delivery) -> None:
        """Store that everything up to and including ``delivery`` was processed. Safe to repeat.

        It is also correct if the partition has moved to another member meanwhile. Raises the errors
        of ``SubscriptionStore.commit``.
        """
        stream = self.topic.stream(delivery.partition)
        subscriptions = self._namespace.subscriptions
        await subscriptions.commit(delivery.assignment.subscription, stream, delivery.position)

    async def aclose(self) -> None:
        """Leave the group and release all partitions immediately. Safe to repeat."""
        if self._watch is not None:
            self._watch.close()
        self._delivered = None
        self._batch_finished.set()
        await self._run_tasks.aclose()
        for assignment in list(self._assignments.values()):
            await self._stop(assignment)
        await self._reader_tasks.aclose()
        self._assignments.clear()
        while not self._deliveries.empty():
            self._deliveries.get_nowait()
        self._deliveries.put_nowait(
            (None, ClosedError(f"the member of group {self.group} is closed"))
        )
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> "GroupMember":
        """Join the group. Partitions are assigned soon afterwards."""
        path = self._paths.group(self.group)
        self._watch = self._store.watch(path, self._wakeup.wake, prefix=True)
        self._run_tasks.spawn(self._run(), f"group {self.group} of {self.topic.name}")
        return self

    async def _close_at_exit(self) -> None:
        await self.aclose()

    # --- following the group --------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._step()
            except SessionLostError:
                self._on_session_lost()
                self._session = None
                await self._pause()
            except RhumblineError as error:
                if not (error.retryable or isinstance(error, UnknownOutcomeError)):
                    await self._deliveries.put((None, error))
                await self._pause()
            else:
                await self._wakeup.wait(self._config.recheck_ms / 1000)

    async def _pause(self) -> None:
        await self._backoff.pause()

    async def _step(self) -> None:
        """Release and claim partitions until they match the assignment, if other claims permit."""
        await self._register()
        members = await self._store.children(self._paths.members(self.group))
        mine = assign_partitions(self.topic.partition_count, members).get(self._id, ())
        for assignment in list(self._assignments.values()):
            if assignment.partition not in mine or assignment.has_failed or assignment.is_ended:
                await self._release(assignment)
        for partition in self._unread_claims - set(mine):
            await self._delete_claim(partition)
            self._unread_claims.remove(partition)
        for partition in mine:
            if partition not in self._assignments:
                self._unread_claims.add(partition)
                if await self._claim(partition):
                    await self._start_reading(partition)
                self._unread_claims.remove(partition)
        await self._follow_ends(mine, members)

    async def _follow_ends(self, mine: Sequence[int], members: Sequence[str]) -> None:
        """Tell the others whether this member has finished its share; end when all have."""
        held = [self._assignments.get(partition) for partition in mine]
        is_finished = all(one is not None and one.is_finished for one in held)
        finished_mark = b"finished %08x" % crc32c(",".join(members).encode())
        mark = finished_mark if is_finished else b""
        if mark != self._mark:
            self._mark = None
            try:
                await self._store.put(self._member_path(self._id), mark)
            except NoNodeError:
                self._wakeup.wake()  # the session ended: the next step begins another one
                return
            self._mark = mark
        if not is_finished or self._has_ended:
            return
        for member in members:
            try:
                if (await self._store.get(self._member_path(member))).data != finished_mark:
                    return
            except NoNodeError:
                return  # the member left: the share changes with the next step
        self._has_ended = True
        await self._deliveries.put((None, None))

    def _member_path(self, member: str) -> str:
        return f"{self._paths.members(self.group)}/{member}"

    async def _register(self) -> None:
        if self._session is None or self._session.is_lost:
            self._on_session_lost()
            for assignment in list(self._assignments.values()):
                await self._release(assignment)
            session = await self._store.session(self._config.session_ttl_ms)
            self._session = session
            session.on_lost(lambda: self._on_session_lost() if self._session is session else None)
            self._id = self._runtime.random_bytes(16).hex()
            self._mark = b""
            self._unread_claims.clear()
        try:
            await self._store.create(self._member_path(self._id), ephemeral=self._session)
        except NodeExistsError:
            return  # created before: the id belongs to this session alone

    def _on_session_lost(self) -> None:
        """Stop all deliveries, because others may claim the partitions of this member."""
        for assignment in self._assignments.values():
            assignment.is_ended = True
        self._wakeup.wake()

    async def _claim(self, partition: int) -> bool:
        path = self._paths.claim(self.group, partition)
        try:
            await self._store.create(path, self._id.encode(), ephemeral=self._session)
        except NodeExistsError:
            try:
                return (await self._store.get(path)).data == self._id.encode()
            except NoNodeError:
                self._wakeup.wake()
                return False
        return True

    async def _start_reading(self, partition: int) -> None:
        stream = self.topic.stream(partition)
        subscriptions = self._namespace.subscriptions
        reader = await self._namespace.open_reader(stream, self._start)
        subscription = await subscriptions.create(stream, self.group, reader.position)
        if subscription.position != reader.position:
            await reader.aclose()
            reader = await self._namespace.open_reader(stream, subscription.position)
        assignment = PartitionAssignment(partition, subscription, reader)
        self._assignments[partition] = assignment
        assignment.reader_task = self._reader_tasks.spawn(self._read(assignment), f"read {stream}")

    async def _read(self, assignment: PartitionAssignment) -> None:
        try:
            async for batch in assignment.reader.batches():
                await self._deliveries.put((assignment, batch))
            await self._deliveries.put((assignment, None))
        except RhumblineError as error:
            await self._deliveries.put((assignment, error))
            await self._pause()
            assignment.has_failed = True
            self._wakeup.wake()

    async def _release(self, assignment: PartitionAssignment) -> None:
        """Stop reading a partition and release its claim, in the order of invariant 2 above."""
        await self._stop(assignment)
        if self._delivered is assignment:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._config.handover_ms_max / 1000, self._batch_finished.set)
            await self._batch_finished.wait()
            timer.cancel()
        await self._delete_claim(assignment.partition)
        del self._assignments[assignment.partition]

    async def _delete_claim(self, partition: int) -> None:
        path = self._paths.claim(self.group, partition)
        found = await idempotent_writes.read_if_exists(self._store, path)
        if found is not None and found.data == self._id.encode():
            await idempotent_writes.discard(self._store, path, found.version)

    async def _stop(self, assignment: PartitionAssignment) -> None:
        assignment.is_ended = True
        if assignment.reader_task is not None:
            assignment.reader_task.cancel()
            await wait_until_done(assignment.reader_task)
        await assignment.reader.aclose()
