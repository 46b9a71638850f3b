"""A namespace whose metadata store is found when it is first used (rule STR-29).

``NamespaceBinding`` finds the store once and never changes it, so that the metadata of a stream and
its ledgers are always in one store. ``BoundStore`` and ``BoundLedgers`` are the two parts that a
``Namespace`` consists of.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from ..core.log.ledger_interface import (
    ConfirmEnd,
    LedgerProvider,
    ReadableLedger,
    WritableLedger,
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

FindStore = Callable[[str], Awaitable[StoreClient]]
"""Function from the name of a namespace to the client of its metadata store."""


class NamespaceBinding:
    """The metadata store of one namespace, found at the first use that succeeds."""

    def __init__(self, name: str, uri: str, find: FindStore) -> None:
        """``uri`` names the store in messages until it is found."""
        self.name = name
        self.uri = uri
        self.found: StoreClient | None = None
        self._find = find
        self._lock = asyncio.Lock()
        self._waiting: dict[_LateWatch, None] = {}

    async def get(self) -> StoreClient:
        """Return the client of the store. Raises as ``find``, and may then be repeated."""
        if self.found is None:
            async with self._lock:
                if self.found is None:
                    found = await self._find(self.name)
                    self.found, self.uri = found, found.store.uri
                    waiting, self._waiting = self._waiting, {}
                    for watch in waiting:
                        watch.begin(found.store)
        return self.found

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool) -> Watch:
        """Watch in the store. The watch begins before the first call that finds the store goes on.

        So a caller that sets the watch and then reads misses no change.
        """
        if self.found is not None:
            return self.found.store.watch(path, callback, prefix=prefix)
        watch = _LateWatch(self._waiting, path, callback, is_prefix=prefix)
        self._waiting[watch] = None
        return watch


class _LateWatch:
    """A watch that begins when the store was found."""

    def __init__(
        self,
        waiting: dict["_LateWatch", None],
        path: str,
        callback: Callable[[], None],
        *,
        is_prefix: bool,
    ) -> None:
        self._waiting = waiting
        self._path = path
        self._callback = callback
        self._is_prefix = is_prefix
        self._begun: Watch | None = None

    def begin(self, store: MetadataStore) -> None:
        self._begun = store.watch(self._path, self._callback, prefix=self._is_prefix)

    def close(self) -> None:
        self._waiting.pop(self, None)
        if self._begun is not None:
            self._begun.close()


class BoundReads:
    """The metadata of a namespace for its readers; see ``ReadOnlyStore``."""

    def __init__(self, binding: NamespaceBinding) -> None:
        self._binding = binding

    async def _reads(self) -> MetadataReads:
        return (await self._binding.get()).metadata_reads

    @property
    def uri(self) -> str:
        """The URI of the store; that of the global one until the store is found."""
        return self._binding.uri

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """See ``MetadataStore.get``."""
        return await (await self._reads()).get(path, stale_ok=stale_ok)

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """See ``MetadataStore.get_all``."""
        return await (await self._reads()).get_all(paths, stale_ok=stale_ok)

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """See ``MetadataStore.children``."""
        reads = await self._reads()
        return await reads.children(path, after=after, limit=limit, stale_ok=stale_ok)

    def is_newer(self, version: Version, than: Version) -> bool:
        """See ``MetadataStore.is_newer``."""
        found = self._binding.found
        return found is not None and found.store.is_newer(version, than)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """See ``MetadataStore.watch``."""
        return self._binding.watch(path, callback, prefix=prefix)


class BoundStore(BoundReads):
    """The metadata store of a namespace; see ``MetadataStore``."""

    async def _reads(self) -> MetadataReads:
        return await self._store()

    async def _store(self) -> MetadataStore:
        return (await self._binding.get()).store

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """See ``MetadataStore.create``."""
        store = await self._store()
        return await store.create(path, data, ephemeral=ephemeral, sequential=sequential)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """See ``MetadataStore.put``."""
        return await (await self._store()).put(path, data, expect=expect)

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """See ``MetadataStore.delete``."""
        await (await self._store()).delete(path, expect=expect)

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """See ``MetadataStore.txn``."""
        return await (await self._store()).txn(operations)

    async def session(self, ttl_ms: int) -> Session:
        """See ``MetadataStore.session``."""
        return await (await self._store()).session(ttl_ms)

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
        password: bytes = b"",
        custom: Mapping[str, bytes] | None = None,
    ) -> WritableLedger:
        """See ``LedgerProvider.create``."""
        return await (await self._ledgers()).create(quorum, password=password, custom=custom)

    async def open(
        self, ledger_id: int, password: bytes = b"", *, stale_ok: bool = False
    ) -> ReadableLedger:
        """See ``LedgerProvider.open``."""
        return await (await self._ledgers()).open(ledger_id, password, stale_ok=stale_ok)

    async def recover(
        self,
        ledger_id: int,
        password: bytes = b"",
        *,
        min_regions: int | None = None,
        confirm: ConfirmEnd | None = None,
    ) -> LedgerMetadata:
        """See ``LedgerProvider.recover``."""
        ledgers = await self._ledgers()
        return await ledgers.recover(ledger_id, password, min_regions=min_regions, confirm=confirm)

    async def fence(self, ledger_id: int, password: bytes = b"") -> None:
        """See ``LedgerProvider.fence``."""
        await (await self._ledgers()).fence(ledger_id, password)

    async def delete(self, ledger_id: int) -> None:
        """See ``LedgerProvider.delete``."""
        await (await self._ledgers()).delete(ledger_id)
