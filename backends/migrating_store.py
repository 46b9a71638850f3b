"""A store handle that follows migrations; ``open_store`` returns one.

The calls of a store that was replaced raise StoreFencedError and change nothing. The handle then
opens the successor and repeats the call there. It sets its watches in the successor and fires them;
its sessions are lost, as after an expiry, since their ephemeral nodes are not copied. The handle
also watches the fence, so that an idle process follows too. While a migration switches between the
stores, calls wait up to their timeout and then raise MetadataUnavailableError.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from random import Random
from typing import TypeVar

from ..core.protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    MetadataError,
    MetadataUnavailableError,
    SessionLostError,
    StoreFencedError,
    WrongClusterError,
)
from ..core.runtime.metadata_store import Operation, Session, Value, Version, Watch
from ..core.runtime.primitives.backoff import Backoff
from ..core.runtime.primitives.single_flight import SingleFlight
from ..core.runtime.tasks import Tasks
from .migration_fence import MovableStore, read_first
from .outage import Outage

T = TypeVar("T")
Opener = Callable[[str], Awaitable[MovableStore]]

_RETRY_MS_MIN = 20
_RETRY_MS_MAX = 1_000
_SWITCH_MS_MAX = 200
"""Longest pause while a call waits for the end of a switch, which takes well under a second."""
_HOPS_MAX = 8


class MigratingWatch:
    """A watch that is set again in the successor of its store."""

    def __init__(
        self, watches: dict["MigratingWatch", None], path: str, callback: Callable[[], None]
    ) -> None:
        self.path = path
        self.is_prefix = False
        self.inner: Watch | None = None
        self._watches = watches
        self._callback = callback

    def fire(self) -> None:
        """Call back, unless the watch was closed."""
        if self in self._watches:
            self._callback()

    def close(self) -> None:
        """Stop the watch: the callback is no longer called. Safe to repeat."""
        self._watches.pop(self, None)
        if self.inner is not None:
            self.inner.close()


class MigratingSession:
    """A session of the store that was in use when it was opened."""

    def __init__(self, inner: Session, owner: "MigratingStore") -> None:
        self.inner = inner
        self.owner = owner
        self._is_abandoned = False
        self._callbacks: list[Callable[[], None]] = []
        inner.on_lost(self._fire)

    @property
    def is_lost(self) -> bool:
        """True if the session is known to be lost."""
        return self._is_abandoned or self.inner.is_lost

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the session is lost; soon if it is lost already."""
        self._callbacks.append(callback)
        if self.is_lost:
            asyncio.get_running_loop().call_soon(self._fire)

    async def close(self) -> None:
        """End the session and remove its ephemeral nodes. Safe to repeat."""
        self._callbacks.clear()
        if not self._is_abandoned:  # otherwise closing the replaced store ends it
            await self.inner.close()

    def abandon(self) -> None:
        """Mark the session as lost because its store was replaced."""
        self._is_abandoned = True
        asyncio.get_running_loop().call_soon(self._fire)

    def _fire(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class MigratingStore:
    """A handle for one process; ``opener`` opens a store by URI without following migrations."""

    def __init__(self, store: MovableStore, opener: Opener, timeout_ms: int) -> None:
        self._store = store
        self._opener = opener
        self._timeout_ms = timeout_ms
        self._is_closed = False
        self._tasks = Tasks()
        self._random = Random()
        self._moving = asyncio.Lock()
        self._following = SingleFlight(self._tasks, self._follow_until_open, "metadata fence")
        self._watches: dict[MigratingWatch, None] = {}
        self._sessions: list[MigratingSession] = []
        self._calls: dict[MovableStore, int] = {}
        self._idle: dict[MovableStore, asyncio.Event] = {}
        self._outage = Outage()
        self._fence_watch = store.watch_fence(self._fence_changed)

    @property
    def uri(self) -> str:
        """The URI of the store in use, without secrets."""
        return self._store.uri

    @property
    def current(self) -> MovableStore:
        """The store in use."""
        return self._store

    async def start(self) -> None:
        """Switch to the store in use. Raises MetadataUnavailableError, WrongClusterError.

        If only an old state of the fence can be read, later calls find out whether the store was
        replaced.
        """
        if (await read_first(self._store.fence_state)).successor is not None:
            await self._follow(self._store)

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """Return the node's value. Raises NoNodeError, MetadataUnavailableError."""
        return await self._call(lambda store: store.get(path, stale_ok=stale_ok))

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """Return the values of several nodes, None for each that does not exist."""
        return await self._call(lambda store: store.get_all(paths, stale_ok=stale_ok))

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """Return at most ``limit`` names of direct children after ``after``, in byte order."""
        return await self._call(
            lambda store: store.children(path, after=after, limit=limit, stale_ok=stale_ok)
        )

    def is_newer(self, version: Version, than: Version) -> bool:
        """Return True if a node had the version ``than`` first and ``version`` later."""
        return self._store.is_newer(version, than)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Create a node and return its path and version."""

        def work(store: MovableStore) -> Awaitable[tuple[str, Version]]:
            held = None if ephemeral is None else self._own_session(ephemeral)
            return store.create(path, data, ephemeral=held, sequential=sequential)

        return await self._call(work)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replace a node's data. Raises NoNodeError, BadVersionError and as ``create``."""
        return await self._call(lambda store: store.put(path, data, expect=expect))

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError and as ``create``."""
        await self._call(lambda store: store.delete(path, expect=expect))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """Carry out all operations or none; return versions, None for each Check and Delete."""
        return await self._call(lambda store: store.txn(operations))

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Call ``callback`` from the loop after the node (``prefix``: its subtree) changed."""
        self._check_open()
        watch = MigratingWatch(self._watches, path, callback)
        watch.is_prefix = prefix
        watch.inner = self._store.watch(path, watch.fire, prefix=prefix)
        self._watches[watch] = None
        return watch

    async def session(self, ttl_ms: int) -> MigratingSession:
        """Open a session that survives up to ``ttl_ms`` without contact."""

        async def work(store: MovableStore) -> MigratingSession:
            session = MigratingSession(await store.session(ttl_ms), self)
            if store is not self._store:
                session.abandon()
            self._sessions = [known for known in self._sessions if not known.is_lost]
            self._sessions.append(session)
            return session

        return await self._call(work)

    async def close(self) -> None:
        """Close connections and sessions. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._tasks.aclose()
        for watch in list(self._watches):
            watch.close()
        self._fence_watch.close()
        for replaced in list(self._idle):
            await replaced.close()
        await self._store.close()

    # --- following migrations

    async def _call(self, work: Callable[[MovableStore], Awaitable[T]]) -> T:
        try:
            result = await self._call_in_use(work)
        except MetadataUnavailableError as error:
            self._outage.failed(self.uri, error)
            raise
        self._outage.answered(self.uri)
        return result

    async def _call_in_use(self, work: Callable[[MovableStore], Awaitable[T]]) -> T:
        self._check_open()
        while True:
            store = self._store
            self._calls[store] = self._calls.get(store, 0) + 1
            try:
                return await work(store)
            except StoreFencedError:
                pass
            finally:
                self._calls[store] -= 1
                if not self._calls[store] and store in self._idle:
                    self._idle[store].set()
            await self._follow(store)

    def _fence_changed(self) -> None:
        if not self._is_closed:
            self._following.request()

    async def _follow_until_open(self) -> None:
        """Retry until the store in use has an open fence."""
        backoff = Backoff(self._random, _RETRY_MS_MIN, _RETRY_MS_MAX)
        while True:
            try:
                await self.start()
            except (MetadataError, WrongClusterError):
                await backoff.pause()
            else:
                return

    async def _follow(self, replaced: MovableStore) -> None:
        """Wait until ``replaced`` is no longer the store in use, or is open again."""
        backoff = Backoff(self._random, _RETRY_MS_MIN, _SWITCH_MS_MAX, timeout_ms=self._timeout_ms)
        async with self._moving:
            opened: dict[str, MovableStore] = {}
            try:
                while self._store is replaced:
                    found = await self._find_open_store(replaced, opened)
                    if found is replaced:
                        return
                    if found is not None:
                        self._adopt(found)
                        del opened[
                            next(uri for uri, candidate in opened.items() if candidate is found)
                        ]
                        return
                    if backoff.is_over:
                        raise MetadataUnavailableError(
                            f"{replaced.uri} is being migrated; no successor was open after "
                            f"{self._timeout_ms} ms"
                        )
                    await backoff.pause()
            finally:
                for store in opened.values():
                    with suppress(MetadataError):
                        await store.close()

    async def _find_open_store(
        self, replaced: MovableStore, opened: dict[str, MovableStore]
    ) -> MovableStore | None:
        """Return the open store at the end of the chain of successors; None during a switch."""
        store, state = replaced, await replaced.fence_state()
        tree = state.tree
        for _ in range(_HOPS_MAX):
            if state.successor is None:
                if state.tree != tree:
                    raise WrongClusterError(
                        f"{store.uri} is the successor of {replaced.uri} but holds other metadata: "
                        f"tree {state.tree!r} instead of {tree!r}"
                    )
                return store
            if state.successor not in opened:
                opened[state.successor] = await self._opener(state.successor)
            store = opened[state.successor]
            state = await store.fence_state()
        return None

    def _adopt(self, store: MovableStore) -> None:
        replaced, self._store = self._store, store
        self._fence_watch.close()
        self._fence_watch = store.watch_fence(self._fence_changed)
        loop = asyncio.get_running_loop()
        for watch in self._watches:
            if watch.inner is not None:
                watch.inner.close()
            watch.inner = store.watch(watch.path, watch.fire, prefix=watch.is_prefix)
            loop.call_soon(watch.fire)
        for session in self._sessions:
            session.abandon()
        self._sessions.clear()
        self._idle[replaced] = asyncio.Event()
        self._tasks.spawn(self._close_when_idle(replaced), "close a replaced store")

    async def _close_when_idle(self, replaced: MovableStore) -> None:
        """Close a replaced store after its pending calls, so that they still get their results."""
        if self._calls.get(replaced):
            await self._idle[replaced].wait()
        await replaced.close()
        self._calls.pop(replaced, None)
        del self._idle[replaced]

    def _own_session(self, session: Session) -> Session:
        if not isinstance(session, MigratingSession) or session.owner is not self:
            raise InvalidArgumentError("the session belongs to another store handle")
        if session.is_lost:
            raise SessionLostError("the session has ended, or its store was replaced")
        return session.inner

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")
