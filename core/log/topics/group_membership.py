"""Membership of a consumer group: who reads which partition (rule STR-25).

A group has no leader. Each member creates an ephemeral node, lists the members and computes the
assignment with ``partitions.assign_partitions``, which has the same result in every member. Then it
releases the partitions that are no longer its own and claims those that are. Partitions that it
keeps are not interrupted. This repeats when a member joins or leaves, or the topic grows.
Invariants:

1. A member reads a partition only while it holds the claim on it, an ephemeral node that only one
   member can create. Two members therefore never read the same partition, even while their lists
   of members differ. Exception: a member that is cut off until its session expires learns late
   that it lost its claims.
2. A claim is released only after reading has stopped and the application has finished what it was
   given, or after ``handover_ms_max``.
3. The position in a partition is the subscription of the group, which only moves forward. What was
   delivered but not committed is delivered again, possibly by another member: delivery is at least
   once.
4. Iteration ends once every partition has ended and the members have finished everything that is
   in their partitions. A member that has finished its share writes this, with the list of members
   on which the share depends, into its node; when all nodes in the list agree, each member ends.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from crc32c import crc32c

from ...metadata import idempotent_writes
from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    NodeExistsError,
    NoNodeError,
    RhumblineError,
    SessionLostError,
    UnknownOutcomeError,
)
from ...protocol.start import EARLIEST, Start, check_start
from ...runtime.event_log import EventLog
from ...runtime.metadata_store import MetadataStore, Session, Watch
from ...runtime.primitives.backoff import Backoff
from ...runtime.primitives.wakeup import Wakeup
from ...runtime.runtime import Runtime
from ...runtime.settings import check_settings, setting
from ...runtime.tasks import Tasks, run_all
from ..api.log_namespace import LogNamespace
from ..close_at_exit import CANCELLED_CLOSE_S_MAX, ClosesAtExit
from ..metadata.paths import TopicPaths, check_name
from .partitions import assign_partitions
from .topics import Topic, open_topic

Item = TypeVar("Item")

_LOG = EventLog(__name__)


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of one member of a consumer group. Raises ConfigurationError."""

    session_ttl_ms: int = setting(
        10_000,
        "Time after which a silent member loses its session and its partitions, at most this long "
        "after a crash. The metadata store may have a minimum of its own.",
        low=100,
    )
    handover_ms_max: int = setting(
        10_000,
        "Longest time that the handover of a partition waits until the application has finished "
        "what it was given.",
        low=0,
    )
    recheck_ms: int = setting(
        10_000,
        "Longest time between two listings of the members, in case a watch event is lost.",
        low=1,
    )
    retry_ms: int = setting(200, "Pause before a step is retried after a transient error.", low=1)
    member_name: str = setting(
        "", "Name of the member in lists of the group, for example that of its host."
    )

    def __post_init__(self) -> None:
        check_settings(self, "group")
        if self.member_name:
            check_name("member", self.member_name)


class GroupListener:
    """Callbacks of a member. The base class does nothing; override what is needed.

    They run in the member's own task, one after the other. What a callback raises, iteration
    raises.
    """

    async def on_assigned(self, partitions: Sequence[int]) -> None:
        """Partitions were added. Called before anything of them is delivered."""

    async def on_revoked(self, partitions: Sequence[int]) -> None:
        """Partitions are about to be released. Another member claims them afterwards.

        The application has finished what it was given of them, or took longer than
        ``handover_ms_max``. Commits are still possible.
        """

    async def on_lost(self, partitions: Sequence[int]) -> None:
        """Partitions were lost with the session; others may read them already."""


class PartitionSource(Generic[Item]):
    """A partition that a member has claimed and reads: what it delivers, and its state."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.is_ended = False
        """True once nothing of the partition may be delivered to the application."""
        self.has_failed = False
        """True if reading must begin again from the committed position."""
        self.is_finished = False
        """True once the stream has ended and the application has finished all of it."""

    def try_next(self) -> Item | None:
        """Return the next item if there is one now. Raises the errors of readers."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Stop fetching. What the application has may still be finished. Safe to repeat."""
        raise NotImplementedError

    async def wait_until_unused(self) -> None:
        """Wait until the application has finished everything that it was given."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Store what is to be stored, and release everything. Safe to repeat."""
        raise NotImplementedError


class GroupMembership(ClosesAtExit, Generic[Item]):
    """A member of a group whose partitions deliver items of one kind.

    ``async with`` joins and leaves; iterate it for items. For one event loop. A process may have
    several members, one object each.
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
        self.topic = topic
        """The topic; its number of partitions grows when the member notices that it has grown."""
        self.group = group
        self._runtime = runtime
        self._store = store
        self._namespace = namespace
        self._paths = TopicPaths(namespace.name, topic.name)
        self._paths.group(group)  # checks the name
        self._start = check_start(start)
        self._config = config or GroupConfig()
        self._listener = listener or GroupListener()
        self._backoff = Backoff(runtime.random, self._config.retry_ms, self._config.retry_ms)
        self._id = ""  # a new id for each session
        self._session: Session | None = None
        self._sources: dict[int, PartitionSource[Item]] = {}
        # Partitions that may be claimed although nothing reads them: a step was interrupted.
        self._unread_claims: set[int] = set()
        self._paused: set[int] = set()
        self._order: deque[int] = deque()  # the partitions in the order in which they take turns
        self._errors: deque[Exception] = deque()
        self._item_ready = Wakeup()
        self._has_ended = False  # all partitions, in all members
        self._mark: bytes | None = b""  # the content of this member's node; None: unknown
        self._wakeup = Wakeup()
        self._run_tasks = Tasks()
        self._watches: list[Watch] = []

    # --- what the kinds of members differ in ----------------------------------------------------

    async def _open_source(self, partition: int) -> PartitionSource[Item]:
        """Begin to read a partition that was claimed."""
        raise NotImplementedError

    def _note_start(self, partition: int, position: Dlsn) -> None:
        """Log where this member begins in a partition, once the stored position was read."""
        _LOG.info(
            "committed position read",
            topic=self.topic.name,
            group=self.group,
            partition=partition,
            member=self._id,
            position=str(position.in_stream("")),
        )

    def _on_next(self) -> None:
        """Note that the application asks for the next item."""

    # --- application interface ------------------------------------------------------------------

    @property
    def partitions(self) -> tuple[int, ...]:
        """The partitions that this member reads now, in order."""
        return tuple(sorted(n for n, held in self._sources.items() if not held.is_ended))

    @property
    def paused(self) -> tuple[int, ...]:
        """The partitions that are paused, whether this member reads them now or not, in order."""
        return tuple(sorted(self._paused))

    def pause(self, *partitions: int) -> None:
        """Deliver nothing of these partitions until ``resume``.

        The member keeps them, and what it has fetched. Raises InvalidArgumentError.
        """
        self._check_partitions(partitions)
        self._paused.update(partitions)

    def resume(self, *partitions: int) -> None:
        """Deliver records of these partitions again. Raises InvalidArgumentError."""
        self._check_partitions(partitions)
        self._paused.difference_update(partitions)
        self._item_ready.wake()

    def _check_partitions(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            if type(partition) is not int or not 0 <= partition < self.topic.partition_count:
                raise InvalidArgumentError(
                    f"topic {self.topic.name} has no partition {partition!r}: it has "
                    f"{self.topic.partition_count}"
                )

    def __aiter__(self) -> "GroupMembership[Item]":
        """Return the member itself."""
        return self

    async def __anext__(self) -> Item:
        """Wait for and return the next item of any assigned partition that is not paused.

        The call means that the application has finished the previous item. Iteration ends when
        every partition was ended and the group's members have finished everything. Raises the
        errors of readers, subscriptions, callbacks and the metadata store; iterating again
        continues from the committed position.
        """
        self._on_next()
        while True:
            if self._run_tasks.is_closed:
                raise ClosedError(f"the member of group {self.group} is closed")
            if self._errors:
                raise self._errors.popleft()
            found = self._take()
            if found is not None:
                return found
            if self._has_ended:
                raise StopAsyncIteration
            await self._item_ready.wait()

    def _take(self) -> Item | None:
        """Return the next item of the partitions, which take turns."""
        for _ in range(len(self._order)):
            partition = self._order[0]
            self._order.rotate(-1)
            source = self._sources.get(partition)
            if source is None or source.is_ended or partition in self._paused:
                continue
            was_finished = source.is_finished
            try:
                found = source.try_next()
            except RhumblineError:
                source.is_ended = source.has_failed = True
                loop = asyncio.get_running_loop()
                loop.call_later(self._config.retry_ms / 1000, self._wakeup.wake)
                raise
            if source.is_finished != was_finished:
                self._wakeup.wake()
            if found is not None:
                return found
        return None

    async def aclose(self) -> None:
        """Leave the group and release all partitions immediately. Safe to repeat."""
        for watch in self._watches:
            watch.close()
        self._on_next()
        failures: list[Exception] = []
        try:
            await self._run_tasks.aclose()
            self._item_ready.wake()
            for source in list(self._sources.values()):
                source.is_ended = True
                try:
                    await source.stop()
                    await source.aclose()
                except Exception as error:
                    failures.append(error)
            self._sources.clear()
        finally:  # also if it is cancelled: otherwise the group waits for this member's partitions
            await self._end_session()
        if failures:
            raise failures[0]

    async def _end_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            with suppress(RhumblineError, TimeoutError):  # it expires
                async with asyncio.timeout(CANCELLED_CLOSE_S_MAX):
                    await session.close()

    async def __aenter__(self) -> "GroupMembership[Item]":
        """Join the group. Partitions are assigned soon afterwards."""
        path = self._paths.group(self.group)
        self._watches = [
            self._store.watch(path, self._wakeup.wake, prefix=True),
            self._store.watch(self._paths.topic, self._wakeup.wake),
        ]
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
                await self._end_session()
                await self._backoff.pause()
            except RhumblineError as error:
                if not (error.retryable or isinstance(error, UnknownOutcomeError)):
                    self._report(error)
                await self._backoff.pause()
            else:
                await self._wakeup.wait(self._config.recheck_ms / 1000)

    def _report(self, error: Exception) -> None:
        """Let iteration raise an error. Errors that nobody collects are bounded."""
        if len(self._errors) < self.topic.partition_count:
            self._errors.append(error)
        self._item_ready.wake()

    async def _step(self) -> None:
        """Release and claim partitions until they match the assignment, if other claims permit."""
        await self._register()
        topic = await open_topic(self._store, self._namespace, self.topic.name)
        if topic.partition_count > self.topic.partition_count:
            self.topic = topic
        members = await self._store.children(self._paths.members(self.group))
        mine = assign_partitions(self.topic.partition_count, members).get(self._id, ())
        await self._release(
            [
                source
                for source in self._sources.values()
                if source.partition not in mine or source.has_failed or source.is_ended
            ]
        )
        for partition in self._unread_claims - set(mine):
            await self._delete_claim(partition)
            self._unread_claims.remove(partition)
        await self._claim_all(mine)
        await self._follow_ends(mine, members)

    async def _claim_all(self, mine: Sequence[int]) -> None:
        added: list[int] = []
        failure: RhumblineError | None = None
        opened: dict[int, PartitionSource[Item]] = {}
        try:
            for partition in mine:
                if partition not in self._sources:
                    self._unread_claims.add(partition)
                    if await self._claim(partition):
                        opened[partition] = await self._open_source(partition)
                    self._unread_claims.remove(partition)
        except RhumblineError as error:
            failure = error  # what was opened before it is delivered all the same
        finally:
            added = sorted(opened)
            self._sources.update(opened)
        if self._session is None or self._session.is_lost:
            self._on_session_lost()
        elif added:
            await self._call(self._listener.on_assigned(tuple(added)))
        self._order = deque(sorted(self._sources))
        self._item_ready.wake()
        if failure is not None:
            raise failure

    async def _call(self, callback: Awaitable[None]) -> None:
        """Await a callback of the application; iteration raises what it raises."""
        try:
            await callback
        except Exception as error:
            self._report(error)

    async def _follow_ends(self, mine: Sequence[int], members: Sequence[str]) -> None:
        """Tell the others whether this member has finished its share; end when all have."""
        held = [self._sources.get(partition) for partition in mine]
        is_finished = all(one is not None and one.is_finished for one in held)
        share = f"{self.topic.partition_count},{','.join(members)}"
        finished_mark = b"finished %08x" % crc32c(share.encode())
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
        self._item_ready.wake()

    def _member_path(self, member: str) -> str:
        return f"{self._paths.members(self.group)}/{member}"

    async def _register(self) -> None:
        if self._session is None or self._session.is_lost:
            self._on_session_lost()
            await self._release(list(self._sources.values()), is_lost=True)
            await self._end_session()
            session = await self._store.session(self._config.session_ttl_ms)
            self._session = session
            session.on_lost(lambda: self._on_session_lost() if self._session is session else None)
            name, token = self._config.member_name, self._runtime.random_bytes(16).hex()
            self._id = f"{name}.{token}" if name else token
            self._mark = b""
            self._unread_claims.clear()
        try:
            await self._store.create(self._member_path(self._id), ephemeral=self._session)
        except NodeExistsError:
            return  # created before: the id belongs to this session alone

    def _on_session_lost(self) -> None:
        """Stop all deliveries, because others may claim the partitions of this member."""
        for source in self._sources.values():
            source.is_ended = True
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

    # --- releasing ------------------------------------------------------------------------------

    async def _release(
        self, sources: Sequence[PartitionSource[Item]], *, is_lost: bool = False
    ) -> None:
        """Stop reading partitions and release their claims, in the order of invariant 2 above."""
        if not sources:
            return
        for source in sources:
            source.is_ended = True
        released = sorted(source.partition for source in sources)
        await run_all([source.stop() for source in sources], "stop reading")
        if is_lost:
            await self._call(self._listener.on_lost(tuple(released)))
        else:
            await run_all([self._wait_until_unused(source) for source in sources], "hand over")
            await self._call(self._listener.on_revoked(tuple(released)))
        for source in sources:
            try:
                await source.aclose()
            except RhumblineError as error:
                if not (is_lost or error.retryable):
                    self._report(error)
            await self._delete_claim(source.partition)
            del self._sources[source.partition]

    async def _wait_until_unused(self, source: PartitionSource[Item]) -> None:
        try:
            async with asyncio.timeout(self._config.handover_ms_max / 1000):
                await source.wait_until_unused()
        except TimeoutError:
            return  # what the application has not finished is delivered again

    async def _delete_claim(self, partition: int) -> None:
        path = self._paths.claim(self.group, partition)
        found = await idempotent_writes.read_if_exists(self._store, path)
        if found is not None and found.data == self._id.encode():
            await idempotent_writes.discard(self._store, path, found.version)
