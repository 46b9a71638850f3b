"""The list of servers without storage that are up: proxies, repair processes and archivers.

::

    /rhumbline/servers/<id>    ephemeral: kind, address, status address and region of a server

Nothing depends on it but commands that show the state of a cluster, so a server starts without it
and registers as soon as the metadata store can be reached. Bookies have nodes of their own.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

from ..core.protocol.errors import CorruptionError, ForeignDataError, NoNodeError, RhumblineError
from ..core.protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ..core.runtime.event_log import EventLog, LogLimit
from ..core.runtime.metadata_store import MetadataReads, MetadataStore, Session
from ..core.runtime.primitives.backoff import Backoff
from ..core.runtime.primitives.wakeup import Wakeup
from ..core.runtime.runtime import Runtime
from ..core.runtime.tasks import Tasks

_LOG = EventLog(__name__)

ROOT = "/rhumbline/servers"

_FORMAT = 1
_ID_BYTES = 8
_TTL_MS = 10_000
_RETRY_MS_MIN, _RETRY_MS_MAX = 500, 10_000


class ServerRecord(NamedTuple):
    """A server that is up."""

    kind: str
    """write-proxy, read-proxy, repair or archive."""
    address: str
    """host:port for clients; empty if it has none."""
    status_address: str
    """host:port of its status server; empty if it has none."""
    region: str
    """Region of the server; empty if it has none."""

    def encode(self) -> bytes:
        """Encode the value of the server's node."""
        return encode_metadata_record(_FORMAT, self._asdict())

    @classmethod
    def decode(cls, name: str, data: bytes) -> "ServerRecord":
        """Decode the value of a server's node, also if a later program has added fields.

        Raises CorruptionError, ForeignDataError.
        """
        fields = decode_metadata_record(
            f"server {name}",
            data,
            version=_FORMAT,
            fields=dict.fromkeys(cls._fields, str),
            ignores_unknown=True,
        )
        return cls(**fields)


@asynccontextmanager
async def registered_server(
    store: MetadataStore, runtime: Runtime, record: ServerRecord
) -> AsyncIterator[None]:
    """Keep the server registered until the block ends, as far as the store can be reached."""
    async with registered_nodes(store, runtime, {ROOT: record.encode()}):
        yield


@asynccontextmanager
async def registered_nodes(
    store: MetadataStore,
    runtime: Runtime,
    nodes: Mapping[str, bytes],
    on_registered: Callable[[], Awaitable[None]] | None = None,
) -> AsyncIterator[None]:
    """Keep ephemeral nodes until the block ends, as far as the store can be reached.

    ``nodes`` maps a parent to the value of a node below it, which gets a random name. Each time
    they were created, ``on_registered`` is awaited.
    """
    tasks = Tasks()
    tasks.spawn(_stay_registered(store, runtime, nodes, on_registered), "server registration")
    try:
        yield
    finally:
        await tasks.aclose()


async def list_servers(store: MetadataReads) -> list[ServerRecord]:
    """Return the servers that are up, by kind and address. Raises MetadataUnavailableError."""
    try:
        names = await store.children(ROOT)
    except NoNodeError:
        return []
    found = []
    for name in names:
        try:
            found.append(ServerRecord.decode(name, (await store.get(f"{ROOT}/{name}")).data))
        except (NoNodeError, CorruptionError, ForeignDataError):
            continue  # it has just left, or another version wrote it
    return sorted(found)


async def _stay_registered(
    store: MetadataStore,
    runtime: Runtime,
    nodes: Mapping[str, bytes],
    on_registered: Callable[[], Awaitable[None]] | None,
) -> None:
    backoff = Backoff(runtime.random, _RETRY_MS_MIN, _RETRY_MS_MAX)
    limit = LogLimit()
    while True:
        try:
            session = await store.session(_TTL_MS)
            try:
                for parent, value in nodes.items():
                    name = runtime.random_bytes(_ID_BYTES).hex()
                    await store.create(f"{parent}/{name}", value, ephemeral=session)
                if on_registered is not None:
                    await on_registered()
                backoff.reset()
                await _until_lost(session)
            finally:
                with suppress(RhumblineError):  # the node then goes when the session ends
                    await session.close()
        except RhumblineError as error:
            dropped = limit.admit(asyncio.get_running_loop().time())
            if dropped is not None:
                _LOG.warning("server registration failed", error=error, dropped=dropped or None)
            await backoff.pause()


async def _until_lost(session: Session) -> None:
    lost = Wakeup()
    session.on_lost(lost.wake)
    while not session.is_lost:
        await lost.wait(_TTL_MS / 1000)
