"""Which proxies are up: each says so in the metadata store, for as long as its session lives.

::

    /rhumbline/proxies/write/<member id>    ephemeral: address, region, whether it takes streams
    /rhumbline/proxies/read/<member id>

A member id is new with every session, so that what an earlier session left behind is never taken
for ours. Lists are hints: watches wake us, then they are read again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..core.protocol.errors import ClosedError, CorruptionError, NoNodeError, RhumblineError
from ..core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ..core.runtime.metadata_store import MetadataStore, Session, Watch
from ..core.runtime.runtime import Runtime
from ..core.runtime.tasks import Tasks

ROOT = "/rhumbline/proxies"
WRITE, READ = "write", "read"

_FORMAT = 1
_RETRY_MS = 200
_ID_BYTES = 8


class ProxyMember(NamedTuple):
    """A proxy as others see it."""

    id: str
    """Of its session."""
    address: str
    """host:port for clients and other proxies."""
    region: str
    is_accepting: bool
    """Whether it takes streams that it does not have yet."""

    def encode(self) -> bytes:
        """The value of its node."""
        fields = {"address": self.address, "region": self.region, "accepting": self.is_accepting}
        return encode_metadata_record(_FORMAT, fields)

    @classmethod
    def decode(cls, id_: str, data: bytes) -> "ProxyMember":
        """Reads its node. Raises CorruptionError, ForeignDataError."""
        fields = decode_metadata_record(
            f"proxy {id_}",
            data,
            version=_FORMAT,
            fields={"address": str, "region": str, "accepting": bool},
        )
        return cls(id_, fields["address"], fields["region"], fields["accepting"])


class ProxyMembership:
    """This process among the proxies: its session, its nodes, and who else is there."""

    def __init__(
        self,
        store: MetadataStore,
        runtime: Runtime,
        *,
        roles: Sequence[str],
        address: str,
        region: str,
        session_ttl_ms: int,
    ) -> None:
        self.roles = tuple(roles)
        self.me = ProxyMember("", address, region, True)
        self.session: Session | None = None
        """None while there is none: then nothing can be claimed."""
        self.lost_count = 0
        self.on_lost: list[Callable[[], None]] = []
        """Called when the session is lost: what was claimed in it may be others'."""
        self.on_members: list[Callable[[], None]] = []
        """Called after a list of members changed."""
        self._store = store
        self._runtime = runtime
        self._ttl_ms = session_ttl_ms
        self._members: dict[str, tuple[ProxyMember, ...]] = {WRITE: (), READ: ()}
        self._tasks = Tasks()
        self._is_due = asyncio.Event()
        self._watch: Watch | None = None
        self._is_leaving = False

    def members(self, role: str) -> tuple[ProxyMember, ...]:
        """Who is up, sorted by address, as this process last saw it."""
        return self._members[role]

    async def join(self) -> None:
        """Registers, and stays registered until ``leave``. Raises MetadataError."""
        self._watch = self._store.watch(ROOT, self._is_due.set, prefix=True)
        await self._register()
        await self._refresh()
        self._tasks.spawn(self._stay(), "presence")

    async def set_accepting(self, is_accepting: bool) -> None:
        """Says whether this proxy takes new streams and readers; so will its next session, if it
        has none now. Raises MetadataError."""
        self.me = self.me._replace(is_accepting=is_accepting)
        if self.session is None:
            return
        for role in self.roles:
            await self._store.put(f"{ROOT}/{role}/{self.me.id}", self.me.encode())
        await self._refresh()

    async def leave(self) -> None:
        """Ends the session, and with it all claims. Safe to repeat."""
        self._is_leaving = True
        if self._watch is not None:
            self._watch.close()
        await self._tasks.aclose()
        session, self.session = self.session, None
        if session is not None:
            await session.close()

    # --- parts ----------------------------------------------------------------------------------

    async def _register(self) -> None:
        session = await self._store.session(self._ttl_ms)
        self.me = self.me._replace(id=self._runtime.random_bytes(_ID_BYTES).hex())
        try:
            for role in self.roles:
                await self._store.create(
                    f"{ROOT}/{role}/{self.me.id}", self.me.encode(), ephemeral=session
                )
        except BaseException:
            await session.close()
            raise
        self.session = session
        session.on_lost(self._session_lost)

    def _session_lost(self) -> None:
        if self._is_leaving or self.session is None:
            return
        self.session = None
        self.lost_count += 1
        for callback in self.on_lost:
            callback()
        self._is_due.set()

    async def _stay(self) -> None:
        while True:
            await self._is_due.wait()
            self._is_due.clear()
            try:
                if self.session is None:
                    await self._register()
                await self._refresh()
            except ClosedError:
                return
            except RhumblineError:
                await asyncio.sleep(_RETRY_MS / 1000)
                self._is_due.set()

    async def _refresh(self) -> None:
        for role in (WRITE, READ):
            found = await list_members(self._store, role)
            if found != self._members[role]:
                self._members[role] = found
                for callback in self.on_members:
                    callback()


async def list_members(store: MetadataStore, role: str) -> tuple[ProxyMember, ...]:
    """Who is up in a role, sorted by address. Raises MetadataUnavailableError."""
    try:
        names = await store.children(f"{ROOT}/{role}")
    except NoNodeError:
        return ()
    found = []
    for name in names:
        try:
            value = await store.get(f"{ROOT}/{role}/{name}")
            found.append(ProxyMember.decode(name, value.data))
        except (NoNodeError, CorruptionError):
            continue  # it has just gone, or is nothing that can be talked to
    return tuple(sorted(found, key=lambda member: (member.address, member.id)))
