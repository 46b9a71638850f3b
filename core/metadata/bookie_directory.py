"""The bookie directory in the metadata store: registrations, cookies, regions and starts.

A registration is ephemeral: it is removed with the bookie's session. A cookie is persistent and
shows that a bookie with this id was formatted (rule BKE-4). The region of an id is written once and
never changes, because quorums are counted with it; it is cached without a limit in time (PLC-10).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ..protocol.bookie_id import BookieId, Region, check_bookie_id, check_region
from ..protocol.errors import (
    BadVersionError,
    BookieUnavailableError,
    CorruptionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    WrongClusterError,
)
from ..protocol.placement import BookieInfo
from ..runtime.metadata_store import (
    MetadataReads,
    MetadataStore,
    Session,
    Value,
    Version,
    Watch,
)
from ..runtime.primitives.wakeup import Wakeup
from ..runtime.tasks import run_all
from ..wire import cookie as cookies
from ..wire import registration as registrations
from ..wire.cookie import Cookie
from ..wire.registration import HOLDER, Registration
from . import idempotent_writes
from .cluster_layout import READ_ONLY_NAME, ROOT, Paths, instance_id
from .feature_levels import KNOWN_LEVELS, LevelRange

REGISTER_WAIT_MS = 30_000
"""Time that a bookie waits for its earlier registration to expire; above any session's TTL."""

_RETRY_INTERVAL_MS = 1_000
_READS_AT_ONCE = 64

FRESH_WAIT_MS = 300
"""Time limit for looking up a bookie's new address if an earlier one is known.

After it the earlier address is used: requests wait for the connection and have deadlines.
"""

T = TypeVar("T")


class BookieDirectory:
    """One process's cached view of the bookies. ``close`` ends its watch.

    ``reads`` serves addresses and regions, which may be old: a region never changes, and every
    connection verifies the bookie's id. All else is read from the store. ``known`` are the feature
    levels of this program.
    """

    __slots__ = (
        "_earlier",
        "_generation",
        "_known",
        "_paths",
        "_reads",
        "_regions",
        "_registrations",
        "_stale_ok",
        "_store",
        "_watch",
    )

    def __init__(
        self,
        store: MetadataStore,
        root: str = ROOT,
        *,
        reads: MetadataReads | None = None,
        known: LevelRange = KNOWN_LEVELS,
    ) -> None:
        self._store = store
        self._known = known
        self._reads = reads or store
        self._stale_ok = reads is not None
        self._paths = Paths(root)
        self._registrations: dict[BookieId, Registration] = {}
        self._earlier: dict[BookieId, Registration] = {}  # before the last change
        self._regions: dict[BookieId, Region] = {}
        self._watch: Watch | None = None
        self._generation = (
            0  # of the registrations; a read that began in an older one is not cached
        )

    def close(self) -> None:
        """Stop watching. Safe to repeat."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._on_change()

    async def instance_id(self) -> str:
        """Return the cluster's id.

        Raises WrongClusterError, FeatureLevelError, MetadataUnavailableError.
        """
        return await instance_id(self._store, self._paths.root, known=self._known)

    async def global_instance_id(self) -> str:
        """Return the cluster's id from its global store.

        Raises as ``instance_id``, and WrongClusterError if the store is a regional one: what it
        does not know may exist in the global store (rule BKE-26).
        """
        if await idempotent_writes.read_if_exists(self._store, self._paths.own_store) is not None:
            raise WrongClusterError(
                f"{self._store.uri} is a regional metadata store, not the cluster's global one"
            )
        return await self.instance_id()

    async def session(self, ttl_ms: int) -> Session:
        """Open a session for a registration. Raises MetadataUnavailableError."""
        return await self._store.session(ttl_ms)

    # --- registration of a bookie by itself -----------------------------------------------------

    async def register(
        self,
        session: Session,
        registration: Registration,
        *,
        read_only: bool = False,
        wait_ms: int = REGISTER_WAIT_MS,
    ) -> None:
        """Register the bookie as up, until ``session`` ends.

        If the id is registered already, the registration belongs to the bookie's previous process,
        whose session has yet to expire, or to a copy of its disks that runs elsewhere. It is never
        removed; this call waits for it to go, and for a store that is unreachable. After
        ``wait_ms`` the last NodeExistsError, MetadataUnavailableError or IndeterminateError is
        raised; SessionLostError is raised immediately.
        """
        path = self._paths.registration(registration.bookie_id, read_only=read_only)
        data = registrations.encode(registration)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        changed = Wakeup()
        watch = self._store.watch(path, changed.wake)
        # The content does not tell this session's node from an earlier process's node. So a node is
        # removed only after it was seen to be absent and the reply of this creation was lost.
        may_be_this_session = False
        try:
            while True:
                try:
                    if may_be_this_session:
                        await self._drop(path)
                        may_be_this_session = False
                    elif await idempotent_writes.read_if_exists(self._store, path) is not None:
                        raise NodeExistsError(f"bookie {registration.bookie_id} is registered")
                    await self._store.create(path, data, ephemeral=session)
                    return
                except (NodeExistsError, MetadataUnavailableError, IndeterminateError) as error:
                    may_be_this_session = may_be_this_session or isinstance(
                        error, IndeterminateError
                    )
                    left = deadline - loop.time()
                    if left <= 0:
                        raise
                await changed.wait(min(left, _RETRY_INTERVAL_MS / 1000))
        finally:
            watch.close()

    async def reclaim(self, registration: Registration) -> None:
        """Remove earlier registrations of the same id by the same holder.

        The holder names an exclusive lock that the caller has. A registration with this holder was
        made by a process that has ended, or by the caller in an earlier session. Registrations of
        other holders are kept. Nothing is removed while the store is unreachable; ``register`` then
        waits.
        """
        holder = registration.properties.get(HOLDER)
        if not holder:
            return
        for read_only in (False, True):
            path = self._paths.registration(registration.bookie_id, read_only=read_only)
            with suppress(MetadataError, CorruptionError):
                value = await self._store.get(path)
                found = registrations.decode(registration.bookie_id, value.data)
                if found.properties.get(HOLDER) == holder:
                    await idempotent_writes.discard(self._store, path, value.version)

    async def set_read_only(
        self, session: Session, registration: Registration, read_only: bool
    ) -> None:
        """Change a registered bookie to read-only or back to writable. Safe to repeat.

        The new registration is created before the old one is removed, so that the bookie is always
        registered.
        """
        bookie = registration.bookie_id
        path = self._paths.registration(bookie, read_only=read_only)
        await self._drop(path)  # a remainder of an earlier attempt, if any
        await self.register(session, registration, read_only=read_only)
        await self._drop(self._paths.registration(bookie, read_only=not read_only))

    async def refresh(self, registration: Registration) -> None:
        """Replace the properties of a registered bookie, e.g. its free space. Safe to repeat.

        Every process then reads all registrations again, so small changes are not worth a call.
        Raises NoNodeError if the bookie is not registered, BadVersionError if its registration
        changed meanwhile, and MetadataError.
        """
        data = registrations.encode(registration)
        for read_only in (False, True):
            path = self._paths.registration(registration.bookie_id, read_only=read_only)
            value = await idempotent_writes.read_if_exists(self._store, path)
            if value is not None:
                if value.data != data:
                    await self._store.put(path, data, expect=value.version)
                return
        raise NoNodeError(f"bookie {registration.bookie_id} is not registered")

    async def unregister(self, bookie: BookieId) -> None:
        """Remove the bookie's registration. Safe to repeat."""
        for read_only in (False, True):
            await self._drop(self._paths.registration(bookie, read_only=read_only))

    async def _drop(self, path: str) -> None:
        """Delete the current version of a node, if it exists, and never a later one.

        A delayed request may still arrive after the bookie has registered again.
        """
        for _ in range(idempotent_writes.ATTEMPTS):
            value = await idempotent_writes.read_if_exists(self._store, path)
            if value is None:
                return
            try:
                return await idempotent_writes.delete(self._store, path, value.version)
            except NoNodeError:
                return
            except BadVersionError:
                continue  # refreshed concurrently
        raise MetadataUnavailableError(
            f"{path} changed during each of {idempotent_writes.ATTEMPTS} attempts to delete it"
        )

    # --- bookies that are up --------------------------------------------------------------------

    async def writable(self) -> list[BookieId]:
        """Return the bookies that are up and accept new entries, sorted."""
        return await self._bookies(self._paths.available)

    async def read_only(self) -> list[BookieId]:
        """Return the bookies that are up and read-only, sorted."""
        return await self._bookies(self._paths.read_only)

    async def up(self) -> list[BookieId]:
        """Return the bookies that are up, the writable ones first."""
        return [*await self.writable(), *await self.read_only()]

    async def all_known(self) -> list[BookieId]:
        """Return every bookie that was formatted and not removed since, up or not, sorted."""
        return await self._bookies(self._paths.cookies)

    async def _bookies(self, path: str) -> list[BookieId]:
        """Return the bookie ids among the children of a node; other names are skipped."""
        try:
            names = await self._store.children(path)
        except NoNodeError:
            return []
        found = []
        for name in sorted(names):
            with suppress(InvalidArgumentError):
                if name != READ_ONLY_NAME:
                    found.append(check_bookie_id(name))
        return found

    async def registration(self, bookie: BookieId) -> Registration:
        """Return the bookie's registration, cached until any registration changes.

        While the store is unreachable, the registration from before the change is returned; it may
        be stale, but every connection verifies the bookie's id. Raises BookieUnavailableError if
        the bookie is not up, CorruptionError if its registration does not parse, and
        MetadataUnavailableError.
        """
        known = self._registrations.get(bookie)
        if known is not None:
            return known
        if self._watch is None:
            self._watch = self._reads.watch(self._paths.available, self._on_change, prefix=True)
        earlier = self._earlier.get(bookie)
        if earlier is None:
            return await self._look_up(bookie)
        generation = self._generation
        try:
            async with asyncio.timeout(FRESH_WAIT_MS / 1000):
                return await self._look_up(bookie)
        except (MetadataUnavailableError, TimeoutError):
            if generation == self._generation:  # the watch fires once the store is reachable again
                self._registrations[bookie] = earlier
            return earlier

    async def _look_up(self, bookie: BookieId) -> Registration:
        generation = self._generation
        for value in await self._registration_values(bookie):
            if value is not None:
                return self._keep_registration(bookie, value, generation)
        self._earlier.pop(bookie, None)
        raise BookieUnavailableError(f"bookie {bookie} is not registered")

    async def _registration_values(self, bookie: BookieId) -> list[Value | None]:
        """Read the two places of a registration, of which at most one has it."""
        paths = [self._paths.registration(bookie, read_only=flag) for flag in (False, True)]
        try:
            return await self._reads.get_all(paths, stale_ok=self._stale_ok)
        except MetadataUnavailableError as error:
            unavailable = error
        if self._stale_ok:  # one of the two is not known, and it may be the other one
            for path in paths:
                with suppress(NoNodeError, MetadataUnavailableError):
                    return [await self._reads.get(path, stale_ok=True)]
        raise unavailable

    def _keep_registration(self, bookie: BookieId, value: Value, generation: int) -> Registration:
        found = registrations.decode(bookie, value.data)
        known = self._registrations if generation == self._generation else self._earlier
        known[bookie] = found
        return found

    async def locate(self, bookies: Sequence[BookieId]) -> None:
        """Read the regions and addresses of bookies that are not cached, with one request.

        What cannot be read this way is read when it is needed.
        """
        if self._watch is None:
            self._watch = self._reads.watch(self._paths.available, self._on_change, prefix=True)
        regions = [bookie for bookie in bookies if bookie not in self._regions]
        addresses = [bookie for bookie in bookies if bookie not in self._registrations]
        paths = [self._paths.region(bookie) for bookie in regions]
        for read_only in (False, True):
            paths += [self._paths.registration(b, read_only=read_only) for b in addresses]
        if not paths or len(paths) > _READS_AT_ONCE:
            return
        generation = self._generation
        try:
            values = await self._reads.get_all(paths, stale_ok=self._stale_ok)
        except MetadataUnavailableError:
            return
        for bookie, value in zip(regions, values, strict=False):
            if value is not None:
                self._keep_region(bookie, value)
        for bookie, value in zip([*addresses, *addresses], values[len(regions) :], strict=True):
            if value is not None:
                with suppress(CorruptionError):
                    self._keep_registration(bookie, value, generation)

    def _on_change(self) -> None:
        self._generation += 1
        self._earlier.update(self._registrations)
        self._registrations.clear()

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Call ``callback`` after a bookie registered, left or changed: a hint to read again."""
        return self._store.watch(self._paths.available, callback, prefix=True)

    async def snapshot(self) -> list[BookieInfo]:
        """Return the writable bookies as placement sees them, sorted by id.

        A bookie that left during the call, or whose registration does not parse, is skipped,
        because no client can connect to it. Its region is the recorded one, not the one in the
        registration.
        """
        return await self.locations(await self.writable())

    async def locations(self, bookies: Sequence[BookieId]) -> list[BookieInfo]:
        """Return the registered ones among ``bookies`` as placement sees them, in their order."""
        found = {bookie: self._cached_info(bookie) for bookie in bookies}
        unknown = [bookie for bookie, info in found.items() if info is None]
        for start in range(0, len(unknown), _READS_AT_ONCE):
            part = unknown[start : start + _READS_AT_ONCE]
            infos = await run_all([self._info(bookie) for bookie in part], "look at bookie")
            found.update(zip(part, infos, strict=True))
        return [info for info in found.values() if info is not None]

    def last_known(self, bookie: BookieId, region: Region | None) -> BookieInfo:
        """Return a bookie with the location that this process last read, if it did.

        For members that take no new data, or are down; nothing is read.
        """
        registration = self._registrations.get(bookie) or self._earlier.get(bookie)
        if registration is None:
            return BookieInfo(bookie, region)
        return _info_of(bookie, region, registration)

    def _cached_info(self, bookie: BookieId) -> BookieInfo | None:
        registration, region = self._registrations.get(bookie), self._regions.get(bookie)
        if registration is None or region is None:
            return None
        return _info_of(bookie, region, registration)

    async def _info(self, bookie: BookieId) -> BookieInfo | None:
        try:
            registration = await self.registration(bookie)
        except (BookieUnavailableError, CorruptionError):
            return None
        return _info_of(bookie, await self.region_of(bookie), registration)

    # --- regions --------------------------------------------------------------------------------

    async def region_of(self, bookie: BookieId) -> Region | None:
        """Return the recorded region of an id; None for a bookie without one (Apache's).

        Raises MetadataUnavailableError, CorruptionError.
        """
        known = self._regions.get(bookie)
        if known is not None:
            return known
        value = await idempotent_writes.read_if_exists(
            self._reads, self._paths.region(bookie), stale_ok=self._stale_ok
        )
        return None if value is None else self._keep_region(bookie, value)

    def known_region(self, bookie: BookieId) -> Region | None:
        """Return the region of an id if this process has read it, else None."""
        return self._regions.get(bookie)

    def _keep_region(self, bookie: BookieId, value: Value) -> Region:
        try:
            region = check_region(value.data.decode("ascii"))
        except (UnicodeDecodeError, InvalidArgumentError) as error:
            raise CorruptionError(f"bookie {bookie}: region {value.data[:80]!r}") from error
        self._regions[bookie] = region
        return region

    async def record_region(self, bookie: BookieId, region: Region) -> None:
        """Record the region of an id, once. Safe to repeat with the same region.

        Raises WrongClusterError if another region is recorded.
        """
        data = check_region(region).encode("ascii")
        try:
            await idempotent_writes.create(self._store, self._paths.region(bookie), data)
        except NodeExistsError as error:
            found = await self.region_of(bookie)
            if found != region:
                raise WrongClusterError(
                    f"bookie {bookie} is recorded in region {found}, not {region}"
                ) from error

    # --- cookies --------------------------------------------------------------------------------

    async def write_cookie(self, cookie: Cookie) -> None:
        """Record that a bookie was formatted. Safe to repeat with the same cookie.

        Raises WrongClusterError if the id has another cookie.
        """
        data = cookies.encode(cookie)
        path = self._paths.cookie(cookie.bookie_id)
        try:
            await idempotent_writes.create(self._store, path, data)
        except NodeExistsError as error:
            value = await idempotent_writes.read_if_exists(self._store, path)
            if value is None or value.data != data:
                raise WrongClusterError(
                    f"bookie {cookie.bookie_id} does not match its cookie in the metadata store"
                ) from error

    async def read_cookie(self, bookie: BookieId) -> Cookie | None:
        """Return the bookie's cookie; None if it has none. Raises CorruptionError."""
        value = await idempotent_writes.read_if_exists(self._store, self._paths.cookie(bookie))
        return None if value is None else cookies.decode(value.data)

    async def delete_cookie(self, bookie: BookieId) -> None:
        """Delete the cookie of a bookie that never returns, and the record of its starts.

        Safe to repeat. Its region is kept.
        """
        await self._drop(self._paths.cookie(bookie))
        await self._drop(self._paths.start(bookie))

    # --- starts ---------------------------------------------------------------------------------

    async def read_start(self, bookie: BookieId) -> Value | None:
        """Return the record of the bookie's starts; None before the first one."""
        return await idempotent_writes.read_if_exists(self._store, self._paths.start(bookie))

    async def write_start(self, bookie: BookieId, data: bytes, expect: Version | None) -> Version:
        """Replace the record of the bookie's starts, or create it if ``expect`` is None.

        ``data`` must contain something that no other process writes. Raises BadVersionError,
        NodeExistsError, NoNodeError.
        """
        path = self._paths.start(bookie)
        if expect is None:
            return await idempotent_writes.create(self._store, path, data)
        return await idempotent_writes.put(self._store, path, data, expect)


def _info_of(bookie: BookieId, region: Region | None, registration: Registration) -> BookieInfo:
    zone, rack, host = registration.location
    return BookieInfo(bookie, region, rack, registration.free_bytes, zone, host)
