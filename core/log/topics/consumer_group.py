"""Groups of readers that share out the partitions of a topic, anew when one comes or goes.

Nobody leads. Each member says that it is there (an ephemeral node), looks who else is, and computes
who reads what (``partitions.assigned``, which gives the same to all). Then it lets go of what is
not its own any more and claims what is. Invariants:

1. A member reads a partition only while it holds the claim on it, an ephemeral node that only one
   can make. So no two members read one partition, also while they still disagree on who is there;
   except that one which was cut off until its session expired learns of that late.
2. A claim is given up only after reading has stopped and the application is done with what it was
   given last (it asks for more), or has taken ``handover_ms_max`` over it.
3. Positions are the group's subscription of each partition, which only moves forward. What was
   given and not committed is given again, to whoever reads the partition next: at least once.
"""

import asyncio
from dataclasses import dataclass
from typing import NamedTuple

from ...protocol.dlsn import Dlsn
from ...protocol.errors import (
    BadVersionError,
    ClosedError,
    NodeExistsError,
    NoNodeError,
    RhumblineError,
    SessionLostError,
    UnknownOutcomeError,
)
from ...runtime.metadata_store import MetadataStore, Session, Watch
from ...runtime.runtime import Runtime
from ...runtime.tasks import Tasks, settled
from ..metadata.paths import TopicPaths
from ..metadata.subscriptions import Subscription
from ..namespace import Namespace
from ..read.positioning import EARLIEST, Start
from ..read.record_batch import RecordBatch
from ..read.stream_reader import StreamReader
from .partitions import assigned
from .topics import Topic

_BATCHES_WAITING_MAX = 4


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Settings of one member."""

    session_ttl_ms: int = 10_000
    """A member that is silent for so long is counted as gone."""
    handover_ms_max: int = 10_000
    """How long a partition that goes to another member waits for the application."""
    recheck_ms: int = 10_000
    """Members are listed at least so often, whatever watches say."""
    retry_ms: int = 200
    """Pause after an error that may pass."""


class Delivery(NamedTuple):
    """A batch of one partition."""

    partition: int
    batch: RecordBatch
    position: Dlsn
    """Behind the batch: what ``commit`` stores."""
    holding: "PartitionAssignment"


class PartitionAssignment:
    """A partition in a member's hands."""

    def __init__(self, partition: int, subscription: Subscription, reader: StreamReader) -> None:
        self.partition = partition
        self.subscription = subscription
        self.reader = reader
        self.reading: asyncio.Task[None] | None = None
        self.is_over = False
        """Nothing of it is given to the application any more."""
        self.has_failed = False
        """Whether reading begins again from the committed position."""


class GroupMember:
    """One member: ``async with`` joins and leaves, iterating gives deliveries, which are committed.

    For one event loop. Several members of one process are several objects.
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
        self._start = start
        self._config = config or GroupConfig()
        self._id = ""  # another one for each session
        self._session: Session | None = None
        self._holdings: dict[int, PartitionAssignment] = {}
        self._deliveries: asyncio.Queue[
            tuple[PartitionAssignment | None, RecordBatch | RhumblineError]
        ]
        self._deliveries = asyncio.Queue(_BATCHES_WAITING_MAX)
        self._given: PartitionAssignment | None = None  # what the application works on
        self._handed_back = asyncio.Event()
        self._news = asyncio.Event()
        self._following = Tasks()
        self._readings = Tasks()
        self._watch: Watch | None = None

    @property
    def partitions(self) -> tuple[int, ...]:
        """What this member reads now, in order."""
        return tuple(sorted(n for n, held in self._holdings.items() if not held.is_over))

    # --- what the application calls -------------------------------------------------------------

    def __aiter__(self) -> "GroupMember":
        """The member itself."""
        return self

    async def __anext__(self) -> Delivery:
        """The next batch of any partition that is held; waits. Asking says: done with the last.

        Raises what readers, subscriptions and the metadata store raise; iterating again goes on,
        from the committed position.
        """
        self._given = None
        self._handed_back.set()
        while True:
            if self._following.is_closed:
                raise ClosedError(f"the member of group {self.group} is closed")
            holding, found = await self._deliveries.get()
            if holding is not None and holding.is_over:
                continue
            if isinstance(found, RhumblineError):
                raise found
            assert holding is not None
            self._given = holding
            self._handed_back.clear()
            last = found.last_dlsn
            position = Dlsn(last.lssn, last.entry_id, last.slot + 1)
            return Delivery(holding.partition, found, position, holding)

    async def commit(self, delivery: Delivery) -> None:
        """Stores that everything up to and in ``delivery`` was processed. A repeat is safe.

        Also right when the partition went to another member meanwhile. Raises as
        ``SubscriptionStore.commit``.
        """
        stream = self.topic.stream(delivery.partition)
        subscriptions = self._namespace.subscriptions
        await subscriptions.commit(delivery.holding.subscription, stream, delivery.position)

    async def aclose(self) -> None:
        """Leaves the group: what it held goes to the others at once. Safe to repeat."""
        if self._watch is not None:
            self._watch.close()
        self._given = None
        self._handed_back.set()
        await self._following.aclose()
        for holding in list(self._holdings.values()):
            await self._stop(holding)
        await self._readings.aclose()
        self._holdings.clear()
        while not self._deliveries.empty():
            self._deliveries.get_nowait()
        self._deliveries.put_nowait((None, ClosedError(f"left group {self.group}")))
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def __aenter__(self) -> "GroupMember":
        """Joins; partitions come soon."""
        path = self._paths.group(self.group)
        self._watch = self._store.watch(path, self._news.set, prefix=True)
        self._following.spawn(self._follow(), f"group {self.group} of {self.topic.name}")
        return self

    async def __aexit__(self, *_: object) -> None:
        """Leaves."""
        await self.aclose()

    # --- following the group --------------------------------------------------------------------

    async def _follow(self) -> None:
        while True:
            self._news.clear()
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
                loop = asyncio.get_running_loop()
                timer = loop.call_later(self._config.recheck_ms / 1000, self._news.set)
                await self._news.wait()
                timer.cancel()

    async def _pause(self) -> None:
        await asyncio.sleep(self._config.retry_ms / 1000)

    async def _step(self) -> None:
        """Makes what is held what should be, as far as others let go of it."""
        await self._be_there()
        members = await self._store.children(self._paths.members(self.group))
        mine = assigned(self.topic.partition_count, members).get(self._id, ())
        for holding in list(self._holdings.values()):
            if holding.partition not in mine or holding.has_failed or holding.is_over:
                await self._release(holding)
        for partition in mine:
            if partition not in self._holdings and await self._claim(partition):
                await self._begin(partition)

    async def _be_there(self) -> None:
        if self._session is None or self._session.is_lost:
            self._on_session_lost()
            for holding in list(self._holdings.values()):
                await self._release(holding)
            session = await self._store.session(self._config.session_ttl_ms)
            self._session = session
            session.on_lost(lambda: self._on_session_lost() if self._session is session else None)
            self._id = self._runtime.random_bytes(16).hex()
        try:
            path = f"{self._paths.members(self.group)}/{self._id}"
            await self._store.create(path, ephemeral=self._session)
        except NodeExistsError:
            return  # made before: the name is this session's alone

    def _on_session_lost(self) -> None:
        """Others may claim what is held: nothing more is given to the application."""
        for holding in self._holdings.values():
            holding.is_over = True
        self._news.set()

    async def _claim(self, partition: int) -> bool:
        path = self._paths.claim(self.group, partition)
        try:
            await self._store.create(path, self._id.encode(), ephemeral=self._session)
        except NodeExistsError:
            try:
                return (await self._store.get(path)).data == self._id.encode()
            except NoNodeError:
                self._news.set()
                return False
        return True

    async def _begin(self, partition: int) -> None:
        stream = self.topic.stream(partition)
        subscriptions = self._namespace.subscriptions
        reader = await self._namespace.open_reader(stream, self._start)
        subscription = await subscriptions.create(stream, self.group, reader.position)
        if subscription.position != reader.position:
            await reader.aclose()
            reader = await self._namespace.open_reader(stream, subscription.position)
        holding = PartitionAssignment(partition, subscription, reader)
        self._holdings[partition] = holding
        holding.reading = self._readings.spawn(self._read(holding), f"read {stream}")

    async def _read(self, holding: PartitionAssignment) -> None:
        try:
            async for batch in holding.reader.batches():
                await self._deliveries.put((holding, batch))
        except RhumblineError as error:
            await self._deliveries.put((holding, error))
            await self._pause()
            holding.has_failed = True
            self._news.set()

    async def _release(self, holding: PartitionAssignment) -> None:
        """In the order of invariant 2."""
        await self._stop(holding)
        if self._given is holding:
            loop = asyncio.get_running_loop()
            timer = loop.call_later(self._config.handover_ms_max / 1000, self._handed_back.set)
            await self._handed_back.wait()
            timer.cancel()
        await self._give_up_claim(holding.partition)
        del self._holdings[holding.partition]

    async def _give_up_claim(self, partition: int) -> None:
        path = self._paths.claim(self.group, partition)
        try:
            found = await self._store.get(path)
            if found.data == self._id.encode():
                await self._store.delete(path, expect=found.version)
        except (NoNodeError, BadVersionError):
            return  # it went with its session

    async def _stop(self, holding: PartitionAssignment) -> None:
        holding.is_over = True
        if holding.reading is not None:
            holding.reading.cancel()
            await settled(holding.reading)
        await holding.reader.aclose()
