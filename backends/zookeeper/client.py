"""An asyncio adapter for kazoo; no other module imports kazoo.

kazoo runs its client in threads of its own. Requests enter through kazoo's queue, which keeps their
order; responses, events and state changes return through ``loop.call_soon_threadsafe``. The loop
never waits for a thread. This module defines two requests that kazoo lacks: multi-requests whose
creations return the node's Stat, and persistent recursive watches (ZooKeeper 3.6).
"""

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from kazoo import exceptions as zk
from kazoo.client import KazooClient
from kazoo.protocol import serialization as jute
from kazoo.protocol.states import KazooState, KeeperState
from kazoo.retry import KazooRetry
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE

from ...core.protocol.errors import (
    BadVersionError,
    ClosedError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RhumblineError,
    SessionLostError,
    UnauthorizedError,
)
from ...core.runtime.tasks import wait_until_done

ANY_VERSION = -1
IMPOSSIBLE_VERSION = 2**31 - 1

_EPHEMERAL, _SEQUENTIAL = 1, 2
_RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_delay": 1.0}

_ERRORS: dict[type[Exception], type[RhumblineError]] = {
    zk.NoNodeError: NoNodeError,
    zk.NoWatcherError: NoNodeError,
    zk.NodeExistsError: NodeExistsError,
    zk.BadVersionError: BadVersionError,
    zk.NotEmptyError: NotEmptyError,
    zk.NoChildrenForEphemeralsError: InvalidArgumentError,
    zk.BadArgumentsError: InvalidArgumentError,
    zk.InvalidACLError: UnauthorizedError,
    zk.NoAuthError: UnauthorizedError,
    zk.AuthFailedError: UnauthorizedError,
    zk.SessionExpiredError: SessionLostError,
    zk.ConnectionClosedError: SessionLostError,
    zk.ThrottledOpError: MetadataUnavailableError,
    zk.QuotaExceededError: MetadataUnavailableError,
    zk.NotReadOnlyCallError: MetadataUnavailableError,
}
_IN_DOUBT = (
    zk.ConnectionLoss,
    zk.SessionMovedError,
    zk.OperationTimeoutError,
    zk.RequestTimeoutError,
)


@dataclass(frozen=True, slots=True)
class ZooKeeperAccess:
    """The addresses of the servers and the credentials; ``auth`` is "scheme:credential"."""

    hosts: str
    auth: str | None = None
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None

    @property
    def is_tls(self) -> bool:
        """True if any TLS option was given."""
        return any((self.tls_ca, self.tls_cert, self.tls_key))


class Request(Protocol):
    """A request that kazoo can send."""

    def serialize(self) -> bytes:
        """Return the request's bytes."""
        ...


class Stat(Protocol):
    """The part of a znode's Stat that identifies a state of the node."""

    @property
    def czxid(self) -> int:
        """The transaction that created the node."""
        ...

    @property
    def version(self) -> int:
        """The number of changes since the creation."""
        ...


class ConnectionGone(Exception):
    """The connection was lost before the response; the request may have been carried out."""


class MultiFailed(Exception):
    """A multi-request failed without effect; ``index`` is its first failed operation."""

    def __init__(self, index: int, error: RhumblineError) -> None:
        super().__init__(index, error)
        self.index = index
        self.error = error


class Requests:
    """Constructors of requests; ``is_private`` selects the access control list of new nodes."""

    def __init__(self, *, is_private: bool) -> None:
        self._acl = CREATOR_ALL_ACL if is_private else OPEN_ACL_UNSAFE

    def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> Request:
        """Create a node; the response is (path, Stat)."""
        flags = (_EPHEMERAL if ephemeral else 0) | (_SEQUENTIAL if sequential else 0)
        request: Request = jute.Create2(path, data, self._acl, flags)
        return request

    @staticmethod
    def put(path: str, data: bytes, version: int) -> Request:
        """Set the data; the response is the Stat."""
        request: Request = jute.SetData(path, data, version)
        return request

    @staticmethod
    def delete(path: str, version: int) -> Request:
        """Delete a node; the response is True."""
        request: Request = jute.Delete(path, version)
        return request

    @staticmethod
    def check(path: str, version: int) -> Request:
        """Check a version, or with ``ANY_VERSION`` the existence; only within a multi-request."""
        request: Request = jute.CheckVersion(path, version)
        return request

    @staticmethod
    def sync(path: str) -> Request:
        """Make later requests of the connection see everything committed before."""
        request: Request = jute.Sync(path)
        return request

    @staticmethod
    def get(path: str) -> Request:
        """Read a node; the response is (data, Stat)."""
        request: Request = jute.GetData(path, None)
        return request

    @staticmethod
    def exists(path: str) -> Request:
        """Read the Stat of a node; the response is the Stat or None."""
        request: Request = jute.Exists(path, None)
        return request

    @staticmethod
    def names(path: str) -> Request:
        """List children; the response is (names in arbitrary order, Stat of the parent)."""
        request: Request = jute.GetChildren2(path, None)
        return request


class Multi(NamedTuple):
    """A multi-request: operations that are carried out together or not at all."""

    operations: Sequence[Any]
    type: int = 14

    def serialize(self) -> bytes:
        """Return the bytes of the request."""
        parts = bytearray()
        for operation in self.operations:
            parts += jute.MultiHeader(operation.type, False, -1).serialize()
            parts += operation.serialize()
        return bytes(parts + jute.MultiHeader(-1, True, -1).serialize())

    @staticmethod
    def deserialize(data: bytes, offset: int) -> list[Any]:
        """Return the results; a failed multi-request has errors as results."""
        results: list[Any] = []
        while True:
            header, offset = jute.MultiHeader.deserialize(data, offset)
            if header.done:
                return results
            if header.type == jute.Create2.type:
                path, offset = jute.read_string(data, offset)
                stat, offset = _read_stat(data, offset)
                results.append((path, stat))
            elif header.type == jute.SetData.type:
                stat, offset = _read_stat(data, offset)
                results.append(stat)
            elif header.type == -1:
                (code,) = jute.int_struct.unpack_from(data, offset)
                offset += jute.int_struct.size
                results.append(zk.EXCEPTIONS[code]())
            else:
                results.append(True)


class _AddWatch(NamedTuple):
    path: str
    is_recursive: bool
    type: int = 106

    def serialize(self) -> bytes:
        return bytes(jute.write_string(self.path) + jute.int_struct.pack(self.is_recursive))

    @staticmethod
    def deserialize(data: bytes, offset: int) -> bool:
        return True


class _RemoveWatches(NamedTuple):
    path: str
    type: int = 18

    def serialize(self) -> bytes:
        return bytes(jute.write_string(self.path) + jute.int_struct.pack(3))  # of any kind

    @staticmethod
    def deserialize(data: bytes, offset: int) -> bool:
        return True


def watch_request(path: str, *, is_recursive: bool) -> Request:
    """Return a request for the events of a node, or recursively, until the connection is lost."""
    return _AddWatch(path, is_recursive)


def unwatch_request(path: str) -> Request:
    """Return a request that ends the watches of a path."""
    return _RemoveWatches(path)


def _read_stat(data: bytes, offset: int) -> tuple[Any, int]:
    stat = jute.ZnodeStat._make(jute.stat_struct.unpack_from(data, offset))
    return stat, offset + jute.stat_struct.size


class _Events(defaultdict[str, set[Any]]):
    """A replacement for kazoo's table of one-shot watches that passes every event to a function."""

    def __init__(self, on_event: Callable[[str], None]) -> None:
        super().__init__(set)
        self._on_event = on_event

    def pop(self, path: str, default: object = None) -> object:  # type: ignore[override]
        self._on_event(path)
        return default


class _Client(KazooClient):  # type: ignore[misc]
    """kazoo's client with the ``_Events`` table, which is created anew for each connection.

    The client never sends the id of the last transaction that it saw. A server that is behind that
    transaction would refuse the connection, permanently if the servers lost their data. Without the
    id such a server reports the session as expired, and a new one begins. Reads do not need this
    guard: current reads follow a ``sync``, and stale reads may be stale.
    """

    def __init__(self, on_event: Callable[[str], None], **options: object) -> None:
        self._on_event = on_event
        super().__init__(**options)

    @property
    def last_zxid(self) -> int:
        """The last seen transaction, as kazoo sends it when it connects; always 0."""
        return 0

    @last_zxid.setter
    def last_zxid(self, zxid: int) -> None:
        del zxid

    def _reset_watchers(self) -> None:
        super()._reset_watchers()
        self._data_watchers = _Events(self._on_event)


class _Reply:
    """A result that kazoo's thread sets, and the future of the loop that receives it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()

    def set(self, value: object) -> None:
        self._send(value, None)

    def set_exception(self, error: Exception) -> None:
        self._send(None, error)

    def _send(self, value: object, error: Exception | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._resolve, value, error)

    def _resolve(self, value: object, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(value)
        elif isinstance(error, _IN_DOUBT):
            self.future.set_exception(ConnectionGone(type(error).__name__))
        else:
            self.future.set_exception(map_error(error))


def map_error(error: Exception) -> RhumblineError:
    """Return the Rhumbline error for an error of kazoo."""
    for kazoo_type, error_type in _ERRORS.items():
        if isinstance(error, kazoo_type):
            return error_type(f"ZooKeeper: {type(error).__name__}")
    return MetadataUnavailableError(f"ZooKeeper: {error!r}")


class ZooKeeperConnection:
    """A ZooKeeper session that reconnects automatically.

    The callbacks run in the loop: ``on_connected`` after each connect, ``on_expired`` when the
    servers have expired the session (a new one begins at once), ``on_event`` with the path of a
    watched node.
    """

    def __init__(
        self,
        access: ZooKeeperAccess,
        session_ms: int,
        *,
        on_connected: Callable[[], None] = lambda: None,
        on_expired: Callable[[], None] = lambda: None,
        on_event: Callable[[str], None] = lambda _: None,
        accepts_read_only: bool = False,
    ) -> None:
        """``accepts_read_only`` permits a server that has lost its leader and serves only reads."""
        self._loop = asyncio.get_running_loop()
        self._on_connected = on_connected
        self._on_expired = on_expired
        self._on_event = on_event
        self._connected = asyncio.Event()
        self._is_closed = False
        scheme, _, credential = (access.auth or "").partition(":")
        self._client = _Client(
            self._on_kazoo_event,
            hosts=access.hosts,
            timeout=session_ms / 1000,
            read_only=accepts_read_only,
            auth_data=[(scheme, credential)] if access.auth else None,
            connection_retry=KazooRetry(**_RECONNECT),
            use_ssl=access.is_tls,
            ca=access.tls_ca,
            certfile=access.tls_cert,
            keyfile=access.tls_key,
            check_hostname=access.is_tls,
        )
        self._client.add_listener(self._on_kazoo_state)

    async def start(self) -> None:
        """Start connecting; ``read`` and ``write`` wait for the connection."""
        await _in_thread(self._client.start_async)

    async def aclose(self, *, reconnect_ms_max: int = 0) -> None:
        """End the session at the servers if they can be reached. Safe to repeat.

        A lost connection has ``reconnect_ms_max`` milliseconds to come back for this.
        """
        if self._is_closed:
            return
        self._is_closed = True
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(reconnect_ms_max / 1000):
                    await self._connected.wait()
        finally:  # also if it is cancelled: otherwise kazoo reconnects and keeps the session
            self._connected.set()
            await _in_thread(self._stop)

    async def read(
        self, *requests: Request, deadline: float, missing_ok: bool = False
    ) -> list[Any]:
        """Send requests on one connection and return the responses, in order.

        After a lost connection all requests are repeated until ``deadline``. With ``missing_ok``
        the response is None where a node does not exist. Raises the error of the first failed
        request, or MetadataUnavailableError.
        """
        while True:
            await self._wait_connected(deadline)
            try:
                return await self._answers(requests, deadline, missing_ok=missing_ok)
            except ConnectionGone:
                continue
            except SessionLostError:
                await asyncio.sleep(0.01)  # kazoo begins a new session, which serves reads as well
            except TimeoutError:
                raise MetadataUnavailableError("no response from ZooKeeper in time") from None

    async def write(self, request: Multi, *, deadline: float) -> list[Any]:
        """Send a ``Multi`` once and return its results.

        Raises MetadataUnavailableError (it was not sent), IndeterminateError, SessionLostError and
        MultiFailed.
        """
        await self._wait_connected(deadline)
        try:
            (results,) = await self._answers([request], deadline)
        except (ConnectionGone, TimeoutError) as error:
            raise IndeterminateError(f"no response from ZooKeeper to a write: {error!r}") from None
        for index, result in enumerate(results):
            if isinstance(result, Exception) and not isinstance(result, zk.RolledBackError):
                raise MultiFailed(index, map_error(result))
        assert isinstance(results, list)
        return results

    async def _answers(
        self, requests: Sequence[Request], deadline: float, *, missing_ok: bool = False
    ) -> list[Any]:
        if self._is_closed:
            raise ClosedError("the ZooKeeper connection is closed")
        futures = []
        for request in requests:
            reply = _Reply(self._loop)
            futures.append(reply.future)
            self._client._call(request, reply)
        try:
            async with asyncio.timeout_at(deadline):
                for future in futures:
                    await wait_until_done(future)
        except BaseException:
            for future in futures:
                if not future.cancel() and not future.cancelled():
                    future.exception()  # otherwise asyncio reports it as never retrieved
            raise
        outcomes = [(future.exception(), future) for future in futures]
        for error, _ in outcomes:
            if error is not None and not (missing_ok and isinstance(error, NoNodeError)):
                raise error
        return [None if error is not None else future.result() for error, future in outcomes]

    async def _wait_connected(self, deadline: float) -> None:
        try:
            async with asyncio.timeout_at(deadline):
                await self._connected.wait()
        except TimeoutError:
            if self._client.client_state == KeeperState.AUTH_FAILED:
                raise UnauthorizedError("ZooKeeper refused the credentials") from None
            raise MetadataUnavailableError("no ZooKeeper server could be reached in time") from None
        if self._loop.time() >= deadline:
            raise MetadataUnavailableError("no response from ZooKeeper in time")
        if self._is_closed:
            raise ClosedError("the ZooKeeper connection is closed")

    # --- called by kazoo's threads

    def _on_kazoo_state(self, state: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._state_changed, state)

    def _on_kazoo_event(self, path: str) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_event, path)

    # --- in the loop

    def _state_changed(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
            if not self._is_closed:
                self._on_connected()
        elif not self._is_closed:
            self._connected.clear()
            if state == KazooState.LOST:
                self._on_expired()

    def _stop(self) -> None:
        self._client.stop()
        self._client.close()


async def _in_thread(work: Callable[[], object]) -> None:
    """Run blocking work in a daemon thread, so that a hanging server does not block the exit."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def resolve(error: BaseException | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(None)
        else:
            done.set_exception(error)

    def run() -> None:
        failure: BaseException | None = None
        try:
            work()
        except Exception as error:
            failure = error
        if not loop.is_closed():
            loop.call_soon_threadsafe(resolve, failure)

    threading.Thread(target=run, name="zookeeper stop or start", daemon=True).start()
    await done
