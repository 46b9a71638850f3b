"""The nodes of one consumer group as a metadata store, reached through proxies (rule PRX-60).

``GroupMember`` runs on it unchanged. There is at most one call at a time. A call that is lost makes
its session lost; operations and the next session use another proxy.
"""

import asyncio
from collections.abc import Callable, Sequence

from ....core.log.metadata.paths import TopicPaths
from ....core.protocol.errors import (
    IndeterminateError,
    InvalidArgumentError,
    MetadataError,
    MetadataUnavailableError,
    NoNodeError,
    RhumblineError,
    SessionLostError,
    UnavailableError,
)
from ....core.runtime.metadata_store import Operation, Session, Value, Version
from ...rpc import methods
from ...rpc import rhumbline_pb2 as pb
from ...rpc.grpc_status import is_retryable
from ..channels import Channels
from .group_connection import GroupConnection


class _Watch:
    """A callback that is called when some node of the group was changed."""

    def __init__(self, callbacks: "dict[_Watch, Callable[[], None]]") -> None:
        self._callbacks = callbacks

    def close(self) -> None:
        """See ``Watch.close``."""
        self._callbacks.pop(self, None)


class ProxyGroupStore:
    """A ``MetadataStore`` with the nodes of one group, which can also read that of the topic."""

    def __init__(self, channels: Channels, namespace: str, topic: str, group: str) -> None:
        self.uri = f"group {group} of topic {topic}, through proxies"
        self._channels = channels
        self._key = (namespace, topic, group)
        paths = TopicPaths(namespace, topic)
        self._base, self._topic = paths.group(group), paths.topic
        self._callbacks: dict[_Watch, Callable[[], None]] = {}
        self._connection: GroupConnection | None = None
        self._connecting = asyncio.Lock()

    # --- reading --------------------------------------------------------------------------------

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """See ``MetadataReads.get``."""
        if path == self._topic:
            answer = await self._read(pb.GroupRequest(read_topic=True))
        else:
            answer = await self._read(pb.GroupRequest(read=self._relative(path)))
        return Value(answer.data, Version(answer.version))

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """See ``MetadataReads.get_all``."""
        found: list[Value | None] = []
        for path in paths:
            try:
                found.append(await self.get(path))
            except NoNodeError:
                found.append(None)
        return found

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """See ``MetadataReads.children``."""
        answer = await self._read(pb.GroupRequest(list=self._relative(path)))
        names = [name for name in answer.names if after is None or name > after]
        return names if limit is None else names[:limit]

    def is_newer(self, version: Version, than: Version) -> bool:
        """Return False: only the store that made the versions can tell."""
        return False

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> _Watch:
        """Call ``callback`` after any node of the group was changed."""
        watch = _Watch(self._callbacks)
        self._callbacks[watch] = callback
        return watch

    # --- writing --------------------------------------------------------------------------------

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """See ``MetadataStore.create``; nodes are not sequential here."""
        if sequential:
            raise InvalidArgumentError("the nodes of a group are not sequential")
        connection = self._connection
        is_current = connection is not None and connection is ephemeral
        if ephemeral is not None and (not is_current or ephemeral.is_lost):
            raise SessionLostError(f"{self.uri}: the session is lost")
        is_ephemeral = ephemeral is not None
        node = pb.GroupNode(path=self._relative(path), data=data, is_ephemeral=is_ephemeral)
        answer = await self._write(pb.GroupRequest(create=node))
        return path, Version(answer.version)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """See ``MetadataStore.put``."""
        node = pb.GroupNode(path=self._relative(path), data=data, expected_version=expect)
        return Version((await self._write(pb.GroupRequest(put=node))).version)

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """See ``MetadataStore.delete``."""
        node = pb.GroupNode(path=self._relative(path), expected_version=expect)
        await self._write(pb.GroupRequest(delete=node))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """Raise InvalidArgumentError: members need no transactions on the nodes of their group."""
        raise InvalidArgumentError("the nodes of a group have no transactions")

    # --- sessions -------------------------------------------------------------------------------

    async def session(self, ttl_ms: int) -> Session:
        """Open a session, which a proxy holds.

        Raises MetadataUnavailableError, NoSuchStreamError.
        """
        async with self._connecting:
            await self._disconnect()
            self._connection = await self._connect(ttl_ms)
            return self._connection

    async def close(self) -> None:
        """End the session and the call. Safe to repeat."""
        async with self._connecting:
            await self._disconnect()

    # --- parts ----------------------------------------------------------------------------------

    def _relative(self, path: str) -> str:
        if path == self._base:
            return ""
        if not path.startswith(self._base + "/"):
            raise InvalidArgumentError(f"{path} is not a node of {self.uri}")
        return path[len(self._base) + 1 :]

    async def _read(self, request: pb.GroupRequest) -> pb.GroupResponse:
        connection = await self._connected()
        try:
            return await connection.request(request)
        except MetadataError:
            raise
        except UnavailableError as error:
            raise MetadataUnavailableError(f"{self.uri}: {error}") from error

    async def _write(self, request: pb.GroupRequest) -> pb.GroupResponse:
        connection = await self._connected()
        try:
            return await connection.request(request)
        except MetadataError:
            raise
        except UnavailableError as error:
            raise IndeterminateError(f"{self.uri}: {error}") from error

    async def _connected(self) -> GroupConnection:
        connection = self._connection
        if connection is not None and connection.failure is None:
            return connection
        async with self._connecting:
            if self._connection is None or self._connection.failure is not None:
                await self._disconnect()
                self._connection = await self._connect(0)
            return self._connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.aclose()

    async def _connect(self, ttl_ms: int) -> GroupConnection:
        """Open a call at the first proxy that accepts it."""
        channels = self._channels
        await channels.ready()
        failure: RhumblineError = UnavailableError("no known proxy")
        for address in channels.any_proxies():
            call = channels.begin(address, methods.HOLD_MEMBERSHIP)
            connection = GroupConnection(call, address, ttl_ms, self._on_changed)
            try:
                await connection.open(*self._key)
            except RhumblineError as error:
                channels.directory.report(address, error)
                if not is_retryable(error):
                    raise
                failure = error
                continue
            channels.directory.report(address, None)
            return connection
        raise MetadataUnavailableError(f"{self.uri}: {failure}") from failure

    def _on_changed(self) -> None:
        for callback in list(self._callbacks.values()):
            callback()
