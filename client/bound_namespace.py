"""A namespace whose metadata store is found when it is first used (rule STR-29).

``NamespaceBinding`` finds the store once, and again when the namespace was moved (rule STR-34).
``BoundStore`` and ``BoundLedgers`` are the two parts that a ``Namespace`` consists of.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from ..core.log.ledger_interface import (
    ConfirmEnd,
    LedgerProvider,
    ReadableLedger,
    WritableLedger,
)
from ..core.log.metadata.namespace_record import NamespaceReservation
from ..core.log.metadata.paths import namespace_path
from ..core.protocol.errors import (
    BadVersionError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchLedgerError,
    SessionLostError,
)
from ..core.protocol.ledger_metadata import LedgerMetadata
from ..core.protocol.quorum import Quorum
from ..core.runtime.metadata_store import (
    MetadataReads,
    MetadataStore,
    Operation,
    Session,
    Value,
    Version,
    Watch,
)
from .store_client import StoreClient

T = TypeVar("T")

FindStore = Callable[[str], Awaitable[StoreClient]]
"""Function from the name of a namespace to the client of its metadata store."""


class HasMoved(Protocol):
    """Function from the name of a namespace and a store that had it to whether another has it."""

    def __call__(self, name: str, used: StoreClient, /, *, stale_ok: bool) -> Awaitable[bool]:
        """See ``Namespaces.has_moved``."""
        ...


_REFUSALS = (BadVersionError, NoNodeError, NodeExistsError)
"""Nothing was carried out, and the store is not what the caller has read."""


class NamespaceBinding:
    """The metadata store of one namespace, found at the first use that succeeds.

    When the namespace was moved to another store, that one is used from then on.
    """

    def __init__(self, name: str, uri: str, find: FindStore, has_moved: HasMoved) -> None:
        """``uri`` names the store in messages until it is found."""
        self.name = name
        self.path = namespace_path(name) if name else ""
        self.uri = uri
        self.found: StoreClient | None = None
        self._find = find
        self._has_moved = has_moved
        self._lock = asyncio.Lock()
        self._watches: dict[_BoundWatch, None] = {}
        self._sessions: dict[BoundSession, None] = {}

    async def get(self) -> StoreClient:
        """Return the client of the store. Raises as ``find``, and may then be repeated."""
        if self.found is None:
            async with self._lock:
                if self.found is None:
                    self._bind(await self._find(self.name))
        assert self.found is not None
        return self.found

    async def follow(self, used: StoreClient, *, stale_ok: bool = False) -> bool:
        """Return whether the namespace is in another store than ``used``, which is bound then.

        Called when something is missing in ``used`` or was changed there. Raises as ``find``.
        """
        async with self._lock:
            if self.found is used and await self._has_moved(self.name, used, stale_ok=stale_ok):
                self._bind(await self._find(self.name))
            return self.found is not used

    def _bind(self, found: StoreClient) -> None:
        if found is self.found:
            return
        was_bound = self.found is not None
        self.found, self.uri = found, found.store.uri
        for watch in list(self._watches):
            watch.begin(found.store)
        sessions, self._sessions = self._sessions, {}
        for session in sessions if was_bound else ():
            session.lose()

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool) -> Watch:
        """Watch in the store. The watch begins before the first call that finds the store goes on.

        So a caller that sets the watch and then reads misses no change.
        """
        watch = _BoundWatch(self._watches, path, callback, is_prefix=prefix)
        self._watches[watch] = None
        if self.found is not None:
            watch.begin(self.found.store)
        return watch

    async def session(self, ttl_ms: int) -> "BoundSession":
        """Open a session, which is lost when the namespace moves to another store."""
        used = await self.get()
        session = BoundSession(self._sessions, used, await used.store.session(ttl_ms))
        self._sessions[session] = None
        if self.found is not used:
            session.lose()
        return session


class _BoundWatch:
    """A watch that begins when the store was found, and again in the store that follows it."""

    def __init__(
        self,
        watches: dict["_BoundWatch", None],
        path: str,
        callback: Callable[[], None],
        *,
        is_prefix: bool,
    ) -> None:
        self._watches = watches
        self._path = path
        self._callback = callback
        self._is_prefix = is_prefix
        self._begun: Watch | None = None

    def begin(self, store: MetadataStore) -> None:
        before = self._begun
        self._begun = store.watch(self._path, self._callback, prefix=self._is_prefix)
        if before is not None:
            before.close()
            self._callback()  # what changed in between is not known

    def close(self) -> None:
        self._watches.pop(self, None)
        if self._begun is not None:
            self._begun.close()


class BoundSession:
    """A session in the store of a namespace; see ``Session``."""

    def __init__(
        self, sessions: dict["BoundSession", None], used: StoreClient, session: Session
    ) -> None:
        self.used = used
        self.session = session
        self._sessions = sessions
        self._has_moved = False
        self._callbacks: list[Callable[[], None]] = []
        session.on_lost(self._notify)

    @property
    def is_lost(self) -> bool:
        """True if the session is known to be lost, or the namespace is in another store."""
        return self._has_moved or self.session.is_lost

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the session is lost; immediately if it is lost already."""
        if self.is_lost:
            callback()
        else:
            self._callbacks.append(callback)

    def lose(self) -> None:
        """Give the session up, because the namespace is in another store."""
        self._has_moved = True
        self._notify()

    def _notify(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    async def close(self) -> None:
        """End the session and remove its ephemeral nodes. Safe to repeat."""
        self._sessions.pop(self, None)
        await self.session.close()


class _ReservedError(NoNodeError):
    """The namespace is in another store; this one has the reservation of its name."""

    def __init__(self, value: Value) -> None:
        super().__init__("a reservation")
        self.value = value


class BoundReads:
    """The metadata of a namespace for its readers; see ``ReadOnlyStore``.

    What is not there may be in another store, to which the namespace was moved.
    """

    def __init__(self, binding: NamespaceBinding) -> None:
        self._binding = binding

    def _reads_of(self, used: StoreClient) -> MetadataReads:
        return used.metadata_reads

    async def _read(self, work: Callable[[MetadataReads], Awaitable[T]], *, stale_ok: bool) -> T:
        used = await self._binding.get()
        try:
            return await work(self._reads_of(used))
        except NoNodeError:
            if not await self._binding.follow(used, stale_ok=stale_ok):
                raise
        return await work(self._reads_of(await self._binding.get()))

    @property
    def uri(self) -> str:
        """The URI of the store; that of the global one until the store is found."""
        return self._binding.uri

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """See ``MetadataStore.get``."""

        async def work(reads: MetadataReads) -> Value:
            value = await reads.get(path, stale_ok=stale_ok)
            binding = self._binding
            if path == binding.path and NamespaceReservation.decode(binding.name, value.data):
                raise _ReservedError(value)
            return value

        try:
            return await self._read(work, stale_ok=stale_ok)
        except _ReservedError as error:
            return error.value

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """See ``MetadataStore.get_all``."""
        used = await self._binding.get()
        found = await self._reads_of(used).get_all(paths, stale_ok=stale_ok)
        if None in found and await self._binding.follow(used, stale_ok=stale_ok):
            reads = self._reads_of(await self._binding.get())
            return await reads.get_all(paths, stale_ok=stale_ok)
        return found

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """See ``MetadataStore.children``."""
        return await self._read(
            lambda reads: reads.children(path, after=after, limit=limit, stale_ok=stale_ok),
            stale_ok=stale_ok,
        )

    def is_newer(self, version: Version, than: Version) -> bool:
        """See ``MetadataStore.is_newer``."""
        found = self._binding.found
        return found is not None and found.store.is_newer(version, than)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """See ``MetadataStore.watch``."""
        return self._binding.watch(path, callback, prefix=prefix)


class BoundStore(BoundReads):
    """The metadata store of a namespace; see ``MetadataStore``.

    No version of one store is valid in another, so a change that was prepared in one of them is
    never carried out in the other.
    """

    def _reads_of(self, used: StoreClient) -> MetadataReads:
        return used.store

    async def _write(self, work: Callable[[MetadataStore], Awaitable[T]]) -> T:
        used = await self._binding.get()
        try:
            return await work(used.store)
        except _REFUSALS as error:
            if await self._binding.follow(used):
                raise MetadataUnavailableError(
                    f"namespace {self._binding.name} is in {self.uri} now: nothing was changed"
                ) from error
            raise

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """See ``MetadataStore.create``."""
        if isinstance(ephemeral, BoundSession):
            if await self._binding.follow(ephemeral.used):
                raise SessionLostError(f"namespace {self._binding.name} is in {self.uri} now")
            ephemeral = ephemeral.session
        return await self._write(
            lambda store: store.create(path, data, ephemeral=ephemeral, sequential=sequential)
        )

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """See ``MetadataStore.put``."""
        return await self._write(lambda store: store.put(path, data, expect=expect))

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """See ``MetadataStore.delete``."""
        await self._write(lambda store: store.delete(path, expect=expect))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """See ``MetadataStore.txn``."""
        return await self._write(lambda store: store.txn(operations))

    async def session(self, ttl_ms: int) -> Session:
        """See ``MetadataStore.session``."""
        return await self._binding.session(ttl_ms)

    async def close(self) -> None:
        """Do nothing: the store belongs to the client."""


class BoundLedgers:
    """The ledgers of a namespace's metadata store; see ``LedgerProvider``."""

    def __init__(self, binding: NamespaceBinding) -> None:
        self._binding = binding

    async def _ledgers(self) -> LedgerProvider:
        return (await self._binding.get()).ledgers

    async def create(
        self,
        quorum: Quorum,
        *,
        password: bytes | None = None,
        custom: Mapping[str, bytes] | None = None,
    ) -> WritableLedger:
        """See ``LedgerProvider.create``."""
        return await (await self._ledgers()).create(quorum, password=password, custom=custom)

    async def open(
        self, ledger_id: int, password: bytes | None = None, *, stale_ok: bool = False
    ) -> ReadableLedger:
        """See ``LedgerProvider.open``."""
        used = await self._binding.get()
        try:
            return await used.ledgers.open(ledger_id, password, stale_ok=stale_ok)
        except NoSuchLedgerError:
            if not await self._binding.follow(used, stale_ok=stale_ok):
                raise
        return await (await self._ledgers()).open(ledger_id, password, stale_ok=stale_ok)

    async def recover(
        self,
        ledger_id: int,
        password: bytes | None = None,
        *,
        min_regions: int | None = None,
        confirm: ConfirmEnd | None = None,
    ) -> LedgerMetadata:
        """See ``LedgerProvider.recover``."""
        ledgers = await self._ledgers()
        return await ledgers.recover(ledger_id, password, min_regions=min_regions, confirm=confirm)

    async def open_recovered(self, metadata: LedgerMetadata) -> ReadableLedger:
        """See ``LedgerProvider.open_recovered``."""
        return await (await self._ledgers()).open_recovered(metadata)

    async def fence(self, ledger_id: int, password: bytes | None = None) -> None:
        """See ``LedgerProvider.fence``."""
        await (await self._ledgers()).fence(ledger_id, password)

    async def delete(self, ledger_id: int) -> None:
        """See ``LedgerProvider.delete``."""
        await (await self._ledgers()).delete(ledger_id)
