"""The bookies of a cluster in the metadata store: who is up, where, in which region, since when.

A registration is ephemeral: it goes with the bookie's session. A cookie is persistent: it says that
a bookie with this id was formatted. A region is persistent and for the life of an id: quorums are
counted with it, so it is written once and cached for ever.
"""

import asyncio
from collections.abc import Callable
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
from ..runtime.metadata_store import MetadataStore, Session, Watch
from ..runtime.tasks import run_all
from ..wire import cookie as cookies
from ..wire import registration as registrations
from ..wire.cookie import Cookie
from ..wire.registration import HOLDER, RACK, Registration
from . import idempotent_writes
from .cluster_layout import READ_ONLY_NAME, ROOT, Paths, instance_id

REGISTER_WAIT_MS = 30_000
"""How long a bookie waits for its own earlier registration to go: longer than any session's TTL."""

_LOOK_AGAIN_MS = 1_000
_READS_AT_ONCE = 64

FRESH_WAIT_MS = 300
"""How long the address of a bookie that has one already is looked up before the old one will do:
requests wait for the connection, and must not run out of time."""

T = TypeVar("T")


class BookieDirectory:
    """One process's view of the bookies. ``close`` ends its watch."""

    __slots__ = (
        "_earlier",
        "_generation",
        "_paths",
        "_regions",
        "_registrations",
        "_store",
        "_watch",
    )

    def __init__(self, store: MetadataStore, root: str = ROOT) -> None:
        self._store = store
        self._paths = Paths(root)
        self._registrations: dict[BookieId, Registration] = {}
        self._earlier: dict[BookieId, Registration] = {}  # as it was before the last change
        self._regions: dict[BookieId, Region] = {}
        self._watch: Watch | None = None
        self._generation = 0  # of the registrations; a read of an older one is not kept

    def close(self) -> None:
        """Stops watching. Safe to repeat."""
        if self._watch is not None:
            self._watch.close()
            self._watch = None
        self._on_change()

    async def instance_id(self) -> str:
        """Which cluster this is. Raises WrongClusterError, MetadataUnavailableError."""
        return await instance_id(self._store, self._paths.root)

    async def session(self, ttl_ms: int) -> Session:
        """A session of the store, for a registration. Raises MetadataUnavailableError."""
        return await self._store.session(ttl_ms)

    # --- a bookie about itself ------------------------------------------------------------------

    async def register(
        self,
        session: Session,
        registration: Registration,
        *,
        read_only: bool = False,
        wait_ms: int = REGISTER_WAIT_MS,
    ) -> None:
        """Says that the bookie is up, for as long as ``session`` lives.

        A registration of the same id that is there already is that of the bookie's previous life,
        whose session has yet to expire, or of a copy of its disks that runs elsewhere: it is waited
        for and never removed. So is a store that is not reachable for a while. After ``wait_ms``
        the last of NodeExistsError, MetadataUnavailableError, IndeterminateError is raised; at once
        SessionLostError.
        """
        path = self._paths.registration(registration.bookie_id, read_only=read_only)
        data = registrations.encode(registration)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_ms / 1000
        changed = asyncio.Event()
        watch = self._store.watch(path, changed.set)
        # Content cannot tell this session's node from the earlier life's. So only after the node
        # was seen to be absent, and a reply was lost then, is a node that is there removed.
        may_be_ours = False
        try:
            while True:
                changed.clear()
                try:
                    if may_be_ours:
                        await self._drop(path)
                        may_be_ours = False
                    elif await idempotent_writes.look(self._store, path) is not None:
                        raise NodeExistsError(f"bookie {registration.bookie_id} is registered")
                    await self._store.create(path, data, ephemeral=session)
                    return
                except (NodeExistsError, MetadataUnavailableError, IndeterminateError) as error:
                    may_be_ours = may_be_ours or isinstance(error, IndeterminateError)
                    left = deadline - loop.time()
                    if left <= 0:
                        raise
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(left, _LOOK_AGAIN_MS / 1000)):
                        await changed.wait()
        finally:
            watch.close()

    async def reclaim(self, registration: Registration) -> None:
        """Removes registrations of the same id that the same holder made.

        The holder's name stands for an exclusive lock that the caller has: who registered under it
        is dead, or the caller itself in an earlier session. Others are left alone; so is everything
        while the store is away: then ``register`` waits.
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
                    await idempotent_writes.delete(self._store, path, value.version)

    async def set_read_only(
        self, session: Session, registration: Registration, read_only: bool
    ) -> None:
        """Moves a registered bookie between writable and read-only. Safe to repeat.

        The new registration is made before the old one goes, so that the bookie is never unknown.
        """
        bookie = registration.bookie_id
        path = self._paths.registration(bookie, read_only=read_only)
        await self._drop(path)  # what an earlier attempt may have left
        await self.register(session, registration, read_only=read_only)
        await self._drop(self._paths.registration(bookie, read_only=not read_only))

    async def refresh(self, registration: Registration) -> None:
        """Replaces what a registered bookie says about itself (free space, addresses).

        Every process that knows the bookie reads it again: not to be done for small changes.
        Raises NoNodeError when it is not registered.
        """
        data = registrations.encode(registration)
        for read_only in (False, True):
            path = self._paths.registration(registration.bookie_id, read_only=read_only)
            if await idempotent_writes.look(self._store, path) is not None:
                await self._store.put(path, data)
                return
        raise NoNodeError(f"bookie {registration.bookie_id} is not registered")

    async def unregister(self, bookie: BookieId) -> None:
        """Says that the bookie is down. Safe to repeat."""
        for read_only in (False, True):
            await self._drop(self._paths.registration(bookie, read_only=read_only))

    async def _drop(self, path: str) -> None:
        """Removes the registration that is there now, if any, and never a later one: a request that
        was given up may still arrive when the bookie has registered again."""
        for _ in range(idempotent_writes.ATTEMPTS):
            value = await idempotent_writes.look(self._store, path)
            if value is None:
                return
            try:
                return await idempotent_writes.delete(self._store, path, value.version)
            except NoNodeError:
                return
            except BadVersionError:
                continue  # refreshed meanwhile
        raise MetadataUnavailableError(f"{path} changes all the time")

    # --- who is up ------------------------------------------------------------------------------

    async def writable(self) -> list[BookieId]:
        """Bookies that are up and take new entries, sorted."""
        return await self._bookies(self._paths.available)

    async def read_only(self) -> list[BookieId]:
        """Bookies that are up and take no new entries, sorted."""
        return await self._bookies(self._paths.read_only)

    async def all_known(self) -> list[BookieId]:
        """Every bookie that was formatted and not removed since, up or not, sorted."""
        return await self._bookies(self._paths.cookies)

    async def _bookies(self, path: str) -> list[BookieId]:
        """Names that are no bookie ids are somebody else's: left out."""
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
        """What the bookie registered; cached until any registration changes.

        While the store is away it is what was known before the change: the id, which connections
        verify, says whether that still holds. Raises BookieUnavailableError when the bookie is not
        up, CorruptionError when its registration does not parse, MetadataUnavailableError.
        """
        known = self._registrations.get(bookie)
        if known is not None:
            return known
        if self._watch is None:
            self._watch = self._store.watch(self._paths.available, self._on_change, prefix=True)
        earlier = self._earlier.get(bookie)
        if earlier is None:
            return await self._look_up(bookie)
        generation = self._generation
        try:
            async with asyncio.timeout(FRESH_WAIT_MS / 1000):
                return await self._look_up(bookie)
        except (MetadataUnavailableError, TimeoutError):
            if generation == self._generation:  # the watch fires when the store is back
                self._registrations[bookie] = earlier
            return earlier

    async def _look_up(self, bookie: BookieId) -> Registration:
        generation = self._generation
        for read_only in (False, True):
            path = self._paths.registration(bookie, read_only=read_only)
            value = await idempotent_writes.look(self._store, path)
            if value is not None:
                found = registrations.decode(bookie, value.data)
                known = self._registrations if generation == self._generation else self._earlier
                known[bookie] = found
                return found
        self._earlier.pop(bookie, None)
        raise BookieUnavailableError(f"bookie {bookie} is not registered")

    def _on_change(self) -> None:
        self._generation += 1
        self._earlier.update(self._registrations)
        self._registrations.clear()

    def watch(self, callback: Callable[[], None]) -> Watch:
        """Calls back after a bookie came, went or changed: a hint to look again."""
        return self._store.watch(self._paths.available, callback, prefix=True)

    async def snapshot(self) -> list[BookieInfo]:
        """Writable bookies as placement sees them, sorted by id.

        One that went meanwhile, or whose registration does not parse, is left out: it cannot be
        connected to. The region is the one that is recorded, not what the bookie says.
        """
        bookies = await self.writable()
        found: list[BookieInfo] = []
        for start in range(0, len(bookies), _READS_AT_ONCE):
            works = [self._info(bookie) for bookie in bookies[start : start + _READS_AT_ONCE]]
            found.extend(info for info in await run_all(works, "look at bookie") if info)
        return found

    async def _info(self, bookie: BookieId) -> BookieInfo | None:
        try:
            registration = await self.registration(bookie)
        except (BookieUnavailableError, CorruptionError):
            return None
        return BookieInfo(
            bookie,
            await self.region_of(bookie),
            registration.properties.get(RACK),
            registration.free_bytes,
        )

    # --- regions --------------------------------------------------------------------------------

    async def region_of(self, bookie: BookieId) -> Region | None:
        """The region for which this id stands, cached for ever; None: unknown (not one of ours).

        Raises MetadataUnavailableError, CorruptionError.
        """
        known = self._regions.get(bookie)
        if known is not None:
            return known
        value = await idempotent_writes.look(self._store, self._paths.region(bookie))
        if value is None:
            return None
        try:
            region = check_region(value.data.decode("ascii"))
        except (UnicodeDecodeError, InvalidArgumentError) as error:
            raise CorruptionError(f"bookie {bookie}: region {value.data[:80]!r}") from error
        self._regions[bookie] = region
        return region

    async def record_region(self, bookie: BookieId, region: Region) -> None:
        """Fixes the region of an id, once. Safe to repeat with the same region.

        Raises WrongClusterError when another one is recorded.
        """
        data = check_region(region).encode("ascii")
        try:
            await idempotent_writes.create(self._store, self._paths.region(bookie), data)
        except NodeExistsError as error:
            found = await self.region_of(bookie)
            if found != region:
                raise WrongClusterError(
                    f"bookie {bookie} is in {found}, not in {region}"
                ) from error

    # --- cookies --------------------------------------------------------------------------------

    async def write_cookie(self, cookie: Cookie) -> None:
        """Records a bookie that was formatted. Safe to repeat with the same cookie.

        Raises WrongClusterError when there is another cookie under this id.
        """
        data = cookies.encode(cookie)
        path = self._paths.cookie(cookie.bookie_id)
        try:
            await idempotent_writes.create(self._store, path, data)
        except NodeExistsError as error:
            value = await idempotent_writes.look(self._store, path)
            if value is None or value.data != data:
                raise WrongClusterError(
                    f"there is another cookie of bookie {cookie.bookie_id}"
                ) from error

    async def read_cookie(self, bookie: BookieId) -> Cookie | None:
        """The bookie's cookie; None when it has none. Raises CorruptionError."""
        value = await idempotent_writes.look(self._store, self._paths.cookie(bookie))
        return None if value is None else cookies.decode(value.data)

    async def delete_cookie(self, bookie: BookieId) -> None:
        """Forgets a bookie that will never come back. Safe to repeat. Its region stays."""
        await self._drop(self._paths.cookie(bookie))
