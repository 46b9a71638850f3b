"""Registration of proxies in the metadata store and the list of registered proxies (rule PRX-2).

::

    /rhumbline/proxies/write/<member id>    ephemeral: see ``registration``
    /rhumbline/proxies/read/<member id>

A member id is new with each session, so a node that an earlier session left behind is never
mistaken for the present one. Member lists are hints: a watch wakes the proxy, which then reads the
list again. A proxy that finds its own node deleted was declared lost by others (rule PRX-34).
"""

import asyncio
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial

from ..core.metadata import idempotent_writes
from ..core.protocol.errors import ClosedError, CorruptionError, NoNodeError, RhumblineError
from ..core.runtime.event_log import EventLog, LogLimit
from ..core.runtime.metadata_store import MetadataStore, Session, Watch
from ..core.runtime.primitives.backoff import Backoff
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.runtime import Runtime
from ..core.runtime.tasks import Tasks
from .registration import ProxyMember

_LOG = EventLog(__name__)

ROOT = "/rhumbline/proxies"
WRITE, READ = "write", "read"

_RETRY_MS = 200
_REFRESH_S = 60.0
"""The list is read again after this time, because a watch is only a hint."""
_ID_BYTES = 8


class ProxyMembership:
    """The registration of this process as a proxy, and the other registered proxies."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        *,
        roles: Sequence[str],
        address: str,
        region: str,
        session_ttl_ms: int,
        addresses: Sequence[tuple[str, str]] = (),
        version: str = "",
        operator_address: str = "",
    ) -> None:
        """``addresses`` are pairs (region, host:port) for the clients of other regions.

        ``operator_address`` is where administrative calls are served, if not at ``address``.
        """
        self.roles = tuple(roles)
        self.own_member = ProxyMember(
            "", address, region, True, tuple(addresses), version, operator_address
        )
        self.session: Session | None = None
        """The session in the metadata store; None while there is none, and nothing can be claimed.
        """
        self.lost_count = 0
        self.removed_count = 0
        """Number of times that the registration was found deleted: other proxies declared this one
        lost, or the session had expired and this process did not know it yet."""
        self.on_lost: list[Callable[[], None]] = []
        """Callbacks for the loss of the session: other proxies may take what was claimed in it."""
        self.on_members: list[Callable[[], None]] = []
        """Callbacks for a change of a member list."""
        self.on_reported: list[Callable[[str], None]] = []
        """Callbacks for the address of a proxy that clients could not reach."""
        self.on_alive: list[Callable[[str], None]] = []
        """Callbacks for the address of a reported proxy that was then found alive."""
        self._store = store
        self._runtime = runtime
        self._backoff = Backoff(runtime.random, _RETRY_MS, _RETRY_MS)
        self._ttl_ms = session_ttl_ms
        self._members: dict[str, tuple[ProxyMember, ...]] = {WRITE: (), READ: ()}
        self._tasks = Tasks()
        self._wakeup = Wakeup()
        self._refreshing = asyncio.Lock()
        self._watch: Watch | None = None
        self._has_left = False
        self._log_limit = LogLimit()

    def members(self, role: str) -> tuple[ProxyMember, ...]:
        """Return the registered proxies of a role as last read, sorted by address."""
        return self._members[role]

    def report(self, address: str) -> None:
        """Pass on that clients could not reach a proxy. Cheap; it may be repeated."""
        for callback in self.on_reported:
            callback(address)

    def found_alive(self, address: str) -> None:
        """Pass on that a reported proxy is alive."""
        for callback in self.on_alive:
            callback(address)

    async def is_registered(self, member_id: str) -> bool:
        """Return whether a write proxy is still registered. Raises MetadataUnavailableError."""
        path = f"{ROOT}/{WRITE}/{member_id}"
        return await idempotent_writes.read_if_exists(self._store, path) is not None

    async def remove(self, address: str, member_ids: Collection[str]) -> None:
        """Remove the registrations of a lost proxy, so that its claims are void (rule PRX-34).

        Only ids in ``member_ids`` that are listed for ``address`` are removed. Safe to repeat.
        Raises MetadataUnavailableError, IndeterminateError.
        """
        for role in (WRITE, READ):
            for member in self._members[role]:
                if member.address == address and member.id in member_ids:
                    await idempotent_writes.discard(self._store, f"{ROOT}/{role}/{member.id}")
        await self._refresh()

    async def join(self) -> None:
        """Register, and stay registered until ``leave``. Raises MetadataError."""
        self._watch = self._store.watch(ROOT, self._wakeup.wake, prefix=True)
        await self._register()
        await self._refresh()
        self._tasks.spawn(self._maintain(), "proxy membership")

    def join_later(self, error: RhumblineError) -> None:
        """Register as soon as it is possible, after ``join`` failed with ``error``."""
        assert self.session is None
        self._log_failure(error)
        self._tasks.spawn(self._maintain(), "proxy membership")
        self._wakeup.wake()

    async def set_accepting(self, is_accepting: bool) -> None:
        """Set whether this proxy accepts new streams and readers.

        Without a session the value is published with the next one. Raises MetadataError.
        """
        if is_accepting != self.own_member.is_accepting:
            if is_accepting:
                _LOG.info("proxy drain ended", proxy=self.own_member.address)
            else:
                _LOG.info("proxy drain began", proxy=self.own_member.address)
        self.own_member = self.own_member._replace(is_accepting=is_accepting)
        if self.session is None:
            return
        for role in self.roles:
            await self._store.put(f"{ROOT}/{role}/{self.own_member.id}", self.own_member.encode())
        await self._refresh()

    async def leave(self) -> None:
        """End the session, and with it all claims. Safe to repeat."""
        self._has_left = True
        if self._watch is not None:
            self._watch.close()
        await self._tasks.aclose()
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    # --- parts ----------------------------------------------------------------------------------

    async def _register(self) -> None:
        session = await self._store.session(self._ttl_ms)
        self.own_member = self.own_member._replace(id=self._runtime.random_bytes(_ID_BYTES).hex())
        try:
            for role in self.roles:
                path = f"{ROOT}/{role}/{self.own_member.id}"
                await self._store.create(path, self.own_member.encode(), ephemeral=session)
        except BaseException:
            await session.close()
            raise
        self.session = session
        session.on_lost(partial(self._session_lost, session))
        _LOG.info("proxy registered", proxy=self.own_member.address, roles=self.roles)

    def _session_lost(self, session: Session) -> None:
        if self._has_left or self.session is not session:
            return
        self.lost_count += 1
        _LOG.warning("proxy registration lost", proxy=self.own_member.address)
        self._end_registration()

    def _end_registration(self) -> None:
        self.session = None
        for callback in self.on_lost:
            callback()
        self._wakeup.wake()

    def _registration_removed(self, session: Session) -> None:
        """Give everything up: others may take the streams over, or have done so."""
        if session.is_lost:
            self._session_lost(session)
            return
        self.removed_count += 1
        _LOG.warning("proxy registration removed", proxy=self.own_member.address)
        self._end_registration()
        self._tasks.spawn(self._end_session(session), "end a removed registration")

    async def _end_session(self, session: Session) -> None:
        """End the session of a removed registration, and with it the claims that are left."""
        try:
            await session.close()
        except RhumblineError as error:
            self._log_failure(error)  # it expires

    async def _maintain(self) -> None:
        while True:
            await self._wakeup.wait(_REFRESH_S)
            try:
                if self.session is None:
                    await self._register()
                await self._refresh()
            except ClosedError:
                return
            except RhumblineError as error:
                self._log_failure(error)
                await self._backoff.pause()
                self._wakeup.wake()

    def _log_failure(self, error: RhumblineError) -> None:
        dropped = self._log_limit.admit(asyncio.get_running_loop().time())
        if dropped is not None:
            proxy = self.own_member.address
            _LOG.warning(
                "proxy registration failed", proxy=proxy, error=error, dropped=dropped or None
            )

    async def _refresh(self) -> None:
        async with self._refreshing:  # a list that was read earlier never replaces a later one
            await self._read_members()

    async def _read_members(self) -> None:
        session, own_id = self.session, self.own_member.id
        for role in (WRITE, READ):
            found = await list_members(self._store, role)
            is_listed = role not in self.roles or any(member.id == own_id for member in found)
            if not is_listed and session is not None and self.session is session:
                self._registration_removed(session)
            if found != self._members[role]:
                self._members[role] = found
                for callback in self.on_members:
                    callback()


async def list_members(store: MetadataStore, role: str) -> tuple[ProxyMember, ...]:
    """Return the registered proxies of a role by address. Raises MetadataUnavailableError."""
    try:
        names = await store.children(f"{ROOT}/{role}")
    except NoNodeError:
        return ()
    values = await store.get_all([f"{ROOT}/{role}/{name}" for name in names])
    found = []
    for name, value in zip(names, values, strict=True):
        if value is not None:  # otherwise it has just left
            with suppress(CorruptionError):  # an unreadable record
                found.append(ProxyMember.decode(name, value.data))
    return tuple(sorted(found, key=lambda member: (member.address, member.id)))
