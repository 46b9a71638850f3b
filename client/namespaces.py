"""The namespaces of a cluster, in the global metadata store and in the regional ones (STR-29)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

from ..core.log.api.log_namespaces import ListedNamespace
from ..core.log.metadata.namespace_record import (
    NamespaceRecord,
    NamespaceReservation,
    regional_side_of,
)
from ..core.log.metadata.paths import namespace_path
from ..core.log.namespace import create_namespace, delete_namespace, list_namespaces
from ..core.log.policy import StreamPolicy
from ..core.log.regional_namespaces import (
    create_regional_namespace,
    delete_regional_namespace,
    read_reservation,
)
from ..core.metadata import idempotent_writes
from ..core.metadata.regional_store_records import read_store_number
from ..core.protocol.bookie_id import Region
from ..core.protocol.errors import (
    ConfigurationError,
    InvalidArgumentError,
    MetadataUnavailableError,
)
from ..core.runtime.metadata_store import MetadataReads
from ..core.runtime.runtime import Runtime
from .moving.move_end import MoveEnd
from .moving.namespace_mover import PAUSE_MS_MAX, NamespaceMover, OnProgress
from .store_client import StoreClient
from .store_opening import StoreOpening


async def is_in_force(store: MetadataReads, name: str, *, stale_ok: bool = False) -> bool:
    """Return whether the namespace is in ``store``, and not on its way to or from another one."""
    value = await idempotent_writes.read_if_exists(store, namespace_path(name), stale_ok=stale_ok)
    if value is None or not value.data:  # without data: only ephemeral nodes below it are left
        return False
    if NamespaceReservation.decode(name, value.data) is not None:
        return False
    return NamespaceRecord.decode(name, value.data).is_in_force


class Namespaces:
    """Finds, creates, lists and deletes namespaces in all metadata stores of a cluster."""

    def __init__(
        self,
        runtime: Runtime,
        region: Region | None,
        open_global: Callable[[], StoreClient],
        wait_global: Callable[[], Awaitable[StoreClient]],
        regional: Mapping[Region, StoreOpening],
    ) -> None:
        """``open_global`` returns the client of the global store or raises why there is none.

        ``wait_global`` does the same, and waits if the store is being opened.
        """
        self._runtime = runtime
        self._region = region
        self._open_global = open_global
        self._wait_global = wait_global
        self._regional = regional

    async def find(self, name: str) -> StoreClient:
        """Return the metadata store of a namespace: the global one if the namespace is unknown.

        The store of this process's region is asked first, so that nothing outside the region is
        needed for its namespaces. While one is being moved, the global store decides. For others
        the old metadata of a global store that is out of reach is enough. Raises
        MetadataUnavailableError, ConfigurationError if the settings do not contain the store.
        """
        if self._region is not None and self._region in self._regional:
            own = await self._regional[self._region].get()
            if await is_in_force(own.store, name):
                return own
        found = await self._wait_global()
        if not self._regional:
            return found
        reservation = await read_reservation(found.metadata_reads, name, stale_ok=True)
        return found if reservation is None else await self.store_of(reservation.region)

    async def has_moved(self, name: str, found: StoreClient, *, stale_ok: bool = False) -> bool:
        """Return whether a namespace that was in the store ``found`` is in another store now.

        Nothing outside the region is asked while the namespace is in its store. With ``stale_ok``
        the metadata of a store that is out of reach may be old. Raises as ``find``.
        """
        if await is_in_force(found.metadata_reads, name, stale_ok=stale_ok):
            return False
        everything = found if found.store_region is None else await self._wait_global()
        value = await read_reservation(everything.metadata_reads, name, stale_ok=stale_ok)
        if found.store_region is None:
            return value is not None
        return value is None or value.region != found.store_region

    async def store_of(self, region: Region | None) -> StoreClient:
        """Return the store of a region; None: the global one.

        Raises ConfigurationError, MetadataUnavailableError.
        """
        if region is None:
            return await self._wait_global()
        opening = self._regional.get(region)
        if opening is None:
            known = ", ".join(sorted(self._regional)) or "none"
            raise ConfigurationError(
                f"the metadata store of region {region} is not in the settings: add it to "
                f"cluster.regional_metadata (configured regions: {known})"
            )
        return await opening.get()

    async def create(self, name: str, policy: StreamPolicy, region: Region | None = None) -> None:
        """Create a namespace in the store of ``region``, or in the global store.

        Raises NamespaceExistsError, InvalidArgumentError (invalid name), ConfigurationError,
        MetadataError. Creating needs the global store in any case, because it has all names.
        """
        store = self._open_global().store
        if region is None:
            await create_namespace(store, self._runtime, name, policy)
            return
        regional = (await self.store_of(region)).store
        await create_regional_namespace(store, regional, region, self._runtime, name, policy)

    async def delete(self, name: str) -> None:
        """Delete an empty namespace. Needs the global store and that of the namespace.

        Raises NoSuchNamespaceError, InvalidArgumentError if it has streams, MetadataError.
        """
        store = self._open_global().store
        reservation = await read_reservation(store, name)
        if reservation is None:
            await delete_namespace(store, name)
            return
        regional = (await self.store_of(reservation.region)).store
        await delete_regional_namespace(store, regional, name)

    async def mover(
        self,
        name: str,
        region: Region | None,
        *,
        pause_ms_max: int = PAUSE_MS_MAX,
        on_progress: OnProgress = lambda _: None,
    ) -> NamespaceMover:
        """Return what moves a namespace to the store of ``region``, or to the global one.

        Raises NoSuchNamespaceError, InvalidArgumentError if it is in the global store already,
        ConfigurationError, MetadataError.
        """
        everything = self._open_global()
        known = region
        if known is None:
            value = await idempotent_writes.read_if_exists(everything.store, namespace_path(name))
            known = None if value is None else regional_side_of(name, value.data)
        if known is None:
            raise InvalidArgumentError(f"no namespace {name} is in a regional store")
        regional = await self.store_of(known)
        source, target = (regional, everything) if region is None else (everything, regional)
        allowed = None
        if target is regional:
            bookies = await target.directory.configured()
            allowed = {info.bookie for info in bookies if info.region == region}
        ends = {
            found.store_region: MoveEnd(
                found.store, await read_store_number(found.store), found.store_region, name
            )
            for found in (source, target)
        }
        return NamespaceMover(
            self._runtime,
            name,
            ends[source.store_region],
            ends[region],
            source.ledgers,
            allowed=allowed,
            pause_ms_max=pause_ms_max,
            on_progress=on_progress,
        )

    async def all(
        self, *, after: str | None = None, may_be_partial: bool = True
    ) -> AsyncIterator[ListedNamespace]:
        """Yield all namespaces of the cluster that follow ``after``, by name.

        If the global store cannot be reached, those of this process's region are listed alone,
        unless not ``may_be_partial``: a caller that concludes anything from what is missing needs
        all of them. Raises MetadataUnavailableError.
        """
        try:
            store, region = self._open_global().store, None
            await store.children("/")
        except MetadataUnavailableError:
            if not may_be_partial or self._region is None or self._region not in self._regional:
                raise
            store, region = (await self.store_of(self._region)).store, self._region
        while page := await list_namespaces(store, after=after):
            for name in page:
                found = region
                if region is None:
                    reservation = await read_reservation(store, name)
                    found = None if reservation is None else reservation.region
                yield ListedNamespace(name, found)
            after = page[-1]
