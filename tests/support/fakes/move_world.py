"""A test world of moves of a namespace: two metadata stores in memory, ledgers, and bookies."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar, cast

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.client.bound_namespace import BoundLedgers, BoundReads, BoundStore, NamespaceBinding
from rhumbline.client.moving.move_end import MoveEnd
from rhumbline.client.moving.namespace_mover import PAUSE_MS_MAX, NamespaceMover
from rhumbline.client.namespaces import Namespaces
from rhumbline.client.store_client import StoreClient
from rhumbline.client.store_opening import StoreOpening
from rhumbline.core.log.config import ReaderConfig, WriterConfig
from rhumbline.core.log.ledger_interface import ConfirmEnd, LedgerProvider
from rhumbline.core.log.namespace import Namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.metadata.cluster_layout import initialise_cluster
from rhumbline.core.metadata.join_regional_store import join_regional_store
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.metadata.ledger_stores import LedgerStores
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NoSuchLedgerError,
    RhumblineError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.metadata_store import MetadataStore, Operation, Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.fake_ledgers import (
    FakeLedgerClient,
    FakeLedgerReader,
    FakeLedgers,
    FakeLedgerWriter,
)
from rhumbline.tests.support.fakes.log_world import ManualClock
from rhumbline.tests.support.fakes.lossy_store import LossyStore

EAST = Region("east")
NAME = "test"
BOOKIES = frozenset(BookieId(f"bookie-{n}") for n in range(3))
T = TypeVar("T")


class MoverKilled(Exception):
    """The process of the mover was killed. The product does not handle this exception."""


class StoredLedgers:
    """Fake ledgers whose metadata is in a store, as that of real ones is; for one store."""

    def __init__(self, cluster: FakeLedgers, ledgers: LedgerStore) -> None:
        self._cluster = cluster
        self._client = FakeLedgerClient(cluster)
        self._ledgers = ledgers
        self._token = 0

    async def create(
        self,
        quorum: Quorum,
        *,
        password: bytes | None = None,
        custom: Mapping[str, bytes] | None = None,
    ) -> FakeLedgerWriter:
        number = await self._ledgers.new_number()
        self._cluster.next_id = number.ledger_id
        writer = await self._client.create(quorum, custom=custom)
        assert writer.ledger_id == number.ledger_id
        metadata = self._cluster.ledgers[writer.ledger_id].metadata
        self._token += 1
        await self._ledgers.create(replace(metadata, creation_token=self._token), number)
        close = writer.close

        async def close_stored() -> LedgerMetadata:
            return await self._store(await close())

        writer.close = close_stored  # type: ignore[method-assign]
        return writer

    async def _store(self, closed: LedgerMetadata) -> LedgerMetadata:
        while True:
            found, version = await self._ledgers.read(closed.ledger_id)
            if found.state is closed.state:
                return closed
            with suppress(BadVersionError):  # another client has closed it
                done = found.closed(closed.last_entry_id, closed.length)
                await self._ledgers.write(done, version)

    async def open(
        self, ledger_id: int, password: bytes | None = None, *, stale_ok: bool = False
    ) -> FakeLedgerReader:
        await self._ledgers.read(ledger_id)
        return await self._client.open(ledger_id)

    async def recover(
        self,
        ledger_id: int,
        password: bytes | None = None,
        *,
        min_regions: int | None = None,
        confirm: ConfirmEnd | None = None,
    ) -> LedgerMetadata:
        await self._ledgers.read(ledger_id)
        return await self._store(await self._client.recover(ledger_id))

    async def open_recovered(self, metadata: LedgerMetadata) -> FakeLedgerReader:
        return await self._client.open_recovered(metadata)

    async def fence(self, ledger_id: int, password: bytes | None = None) -> None:
        await self._client.fence(ledger_id)

    async def delete(self, ledger_id: int) -> None:
        await self._ledgers.delete(ledger_id)


class MoverStore(LossyStore):
    """A store handle of a mover, which is killed before, after or during a request."""

    def __init__(self, inner: MetadataStore, world: "MoveWorld") -> None:
        super().__init__(inner)
        self._world = world

    async def _write(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        return await self._world.request(work, is_write=True)

    async def get(self, path: str, *, stale_ok: bool = False) -> object:  # type: ignore[override]
        return await self._world.request(lambda: self.inner.get(path))

    async def get_all(  # type: ignore[override]
        self, paths: Sequence[str], *, stale_ok: bool = False
    ) -> object:
        return await self._world.request(lambda: self.inner.get_all(paths))

    async def children(  # type: ignore[override]
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> object:
        return await self._world.request(
            lambda: self.inner.children(path, after=after, limit=limit)
        )

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        return await self._write("txn", lambda: self.inner.txn(operations))


@dataclass
class FakeStoreClient:
    """What a binding uses of the client of one store."""

    store: MetadataStore
    store_region: Region | None
    ledger_store: LedgerStore
    ledgers: LedgerProvider

    @property
    def metadata_reads(self) -> MetadataStore:
        return self.store


class FakeOpening:
    """A store that is open."""

    def __init__(self, client: FakeStoreClient) -> None:
        self.opened = client

    async def get(self) -> FakeStoreClient:
        return self.opened


class MoveWorld:
    """A global store, the store of east, the namespace ``test``, and a mover that can be killed."""

    def __init__(self, seed: int = 1) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.runtime = Runtime(self.clock, Random(seed))
        self.cluster = FakeLedgers()
        self.stores: dict[Region | None, FakeStoreClient] = {}
        self.requests = 0
        """Requests of movers so far."""
        self.kill_at: int | None = None
        """Number of the request at which the mover is killed."""
        self.kills_after = False
        """True if that request is carried out."""
        self.is_late = False
        """True if that request is carried out when ``deliver`` is called."""
        self.is_killed = False
        self.delay_s: Callable[[], float] = lambda: 0.0
        self._late: list[Callable[[], Awaitable[object]]] = []
        self.wrongly_deleted: list[int] = []

    async def start(self, region: Region | None, policy: StreamPolicy) -> "MoveWorld":
        """Create the stores, and the namespace in the store of ``region``."""
        for name, number in ((None, 0), (EAST, 1)):
            store = MemoryStore(MemoryTree(name or "global"))
            if name is None:
                await initialise_cluster(store, Random(1))
            else:
                everything = self.stores[None].store
                await join_regional_store(everything, store, name, self.runtime)
            ledger_store = LedgerStore(store, number=number)
            ledgers = StoredLedgers(self.cluster, ledger_store)
            self.stores[name] = FakeStoreClient(store, name, ledger_store, ledgers)
        await self.namespaces(None).create(NAME, policy, region)
        return self

    def namespaces(self, region: Region | None) -> Namespaces:
        """Return the namespaces as a process in ``region`` finds them."""
        everything = cast("StoreClient", self.stores[None])

        async def wait_global() -> StoreClient:
            return everything

        regional = {EAST: cast("StoreOpening", FakeOpening(self.stores[EAST]))}
        return Namespaces(self.runtime, region, lambda: everything, wait_global, regional)

    def namespace(self, region: Region | None) -> Namespace:
        """Open the namespace as a process in ``region``."""
        found = self.namespaces(region)
        binding = NamespaceBinding(NAME, "", found.find, found.has_moved)
        return Namespace(
            self.runtime,
            BoundStore(binding),
            BoundLedgers(binding),
            NAME,
            writer_config=WriterConfig(backoff_ms_min=10, backoff_ms_max=500),
            reader_config=ReaderConfig(retry_ms=100, poll_ms=50, unavailable_ms_max=600_000),
            reads=BoundReads(binding),
        )

    # --- movers ---------------------------------------------------------------------------------

    def mover(
        self,
        region: Region | None,
        *,
        allowed: frozenset[BookieId] = BOOKIES,
        pause_ms_max: int = PAUSE_MS_MAX,
    ) -> NamespaceMover:
        """Return a mover to the store of ``region``; the kill is that of this mover."""
        self.is_killed = False
        ends = {}
        for name, client in self.stores.items():
            store = cast("MetadataStore", MoverStore(client.store, self))
            ends[name] = MoveEnd(store, client.ledger_store.number, name, NAME)
        source = EAST if region is None else None
        client = self.stores[source]
        ledgers = StoredLedgers(
            self.cluster, LedgerStore(ends[source].store, number=client.ledger_store.number)
        )
        return NamespaceMover(
            self.runtime,
            NAME,
            ends[source],
            ends[region],
            ledgers,
            allowed=None if region is None else allowed,
            pause_ms_max=pause_ms_max,
        )

    async def request(self, work: Callable[[], Awaitable[T]], *, is_write: bool = False) -> T:
        """Carry out a request of a mover, unless it was killed."""
        await asyncio.sleep(self.delay_s())
        number, self.requests = self.requests, self.requests + 1
        is_killed_now = number == self.kill_at
        if self.is_killed or (is_killed_now and not self.kills_after):
            self.is_killed = True
            if is_killed_now and self.is_late and is_write:
                self._late.append(work)
            raise MoverKilled
        if not is_killed_now:
            return await work()
        self.is_killed = True
        with suppress(RhumblineError):
            await work()
        raise MoverKilled

    async def deliver(self) -> None:
        """Carry out the request that was under way when the mover was killed."""
        while self._late:
            with suppress(RhumblineError):  # nobody waits for its outcome
                await self._late.pop(0)()

    # --- bookies --------------------------------------------------------------------------------

    def bookie_metadata(self, region: Region | None) -> LedgerStores:
        """Return the ledger metadata as a bookie in east sees it; None: in another region."""
        regional = None if region is None else self.stores[region].ledger_store
        return LedgerStores(self.stores[None].ledger_store, regional)

    async def collect(self, ledgers: LedgerStores) -> list[int]:
        """Return the ledgers that a bookie with this view of the stores would delete."""
        found = []
        for ledger_id in sorted(self.cluster.ledgers):
            try:
                await ledgers.read(ledger_id)
            except NoSuchLedgerError:
                found.append(ledger_id)
            except (MetadataUnavailableError, IndeterminateError):
                continue
            await asyncio.sleep(self.delay_s())
        return found

    async def live_ledgers(self) -> list[int]:
        """Return the ledgers that segments name, in the store that has the namespace."""
        namespace = self.namespace(EAST)
        found = []
        for stream in await namespace.streams():
            described = await namespace.describe(stream)
            found += [segment.ledger_id for segment in described.segments]
        return sorted(found)
