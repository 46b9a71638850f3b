"""A handle that goes where its store went: what ``open_store`` gives.

When a store was replaced by migration its calls raise StoreFencedError and nothing was done. Then
this handle opens the successor and repeats the call there. Its watches are set there and fire; its
sessions are lost, as after an expiry, since their ephemeral nodes stayed behind. It also watches
the gate, so a process that asks nothing moves too. While a migration is between the two stores,
calls wait, up to their time-out, and then raise MetadataUnavailableError.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
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
from ..core.runtime.tasks import Tasks
from .migration_fence import MovableStore
from .outage import Outage

T = TypeVar("T")
Opener = Callable[[str], Awaitable[MovableStore]]

_LOOK_MS = 50
_HOPS_MAX = 8


class MigratingWatch:
    """A watch that moves with its store."""

    def __init__(
        self, watches: dict["MigratingWatch", None], path: str, callback: Callable[[], None]
    ) -> None:
        self.path = path
        self.is_prefix = False
        self.inner: Watch | None = None
        self._watches = watches
        self._callback = callback

    def fire(self) -> None:
        """Calls back, unless it was closed."""
        if self in self._watches:
            self._callback()

    def close(self) -> None:
        """No further call. Safe to repeat."""
        self._watches.pop(self, None)
        if self.inner is not None:
            self.inner.close()


class MigratingSession:
    """A session of the store that was in use when it was opened."""

    def __init__(self, inner: Session, owner: "MigratingStore") -> None:
        self.inner = inner
        self.owner = owner
        self._is_left = False
        self._callbacks: list[Callable[[], None]] = []
        inner.on_lost(self._fire)

    @property
    def is_lost(self) -> bool:
        """Whether it is known to be gone."""
        return self._is_left or self.inner.is_lost

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls back once when the session is lost (at once if it is already)."""
        self._callbacks.append(callback)
        if self.is_lost:
            asyncio.get_running_loop().call_soon(self._fire)

    async def close(self) -> None:
        """Ends the session and removes its ephemeral nodes. Safe to repeat."""
        self._callbacks.clear()
        if not self._is_left:  # else the store that was left ends it
            await self.inner.close()

    def leave(self) -> None:
        """Its store was replaced."""
        self._is_left = True
        asyncio.get_running_loop().call_soon(self._fire)

    def _fire(self) -> None:
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class MigratingStore:
    """One process's handle. ``opener`` opens a store by its URI, as it is."""

    def __init__(self, store: MovableStore, opener: Opener, timeout_ms: int) -> None:
        self._store = store
        self._opener = opener
        self._timeout_ms = timeout_ms
        self._is_closed = False
        self._tasks = Tasks()
        self._moving = asyncio.Lock()
        self._looking: asyncio.Task[None] | None = None
        self._watches: dict[MigratingWatch, None] = {}
        self._sessions: list[MigratingSession] = []
        self._calls: dict[MovableStore, int] = {}
        self._left: dict[MovableStore, asyncio.Event] = {}
        self._outage = Outage()
        self._gate_watch = store.watch_gate(self._gate_changed)

    @property
    def uri(self) -> str:
        """The URI of the store in use, without secrets."""
        return self._store.uri

    @property
    def current(self) -> MovableStore:
        """The store in use."""
        return self._store

    async def start(self) -> None:
        """Goes to the store in use. Raises MetadataUnavailableError, WrongClusterError."""
        if (await self._store.gate_state()).successor is not None:
            await self._follow(self._store)

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """The node's value. Raises NoNodeError, MetadataUnavailableError."""
        return await self._call(lambda store: store.get(path, stale_ok=stale_ok))

    async def children(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Names of the direct children in byte order, from behind ``after``, at most ``limit``."""
        return await self._call(lambda store: store.children(path, after=after, limit=limit))

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Makes a node and returns its path and version."""

        def work(store: MovableStore) -> Awaitable[tuple[str, Version]]:
            held = None if ephemeral is None else self._held(ephemeral)
            return store.create(path, data, ephemeral=held, sequential=sequential)

        return await self._call(work)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replaces a node's data. Raises NoNodeError, BadVersionError, ... as ``create``."""
        return await self._call(lambda store: store.put(path, data, expect=expect))

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Removes a node. Raises NoNodeError, BadVersionError, NotEmptyError, ... as ``create``."""
        await self._call(lambda store: store.delete(path, expect=expect))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """All or nothing; the new version for each Create and Put, None for Check and Delete."""
        return await self._call(lambda store: store.txn(operations))

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Calls back (from the loop) after the node (or one below it) changed."""
        self._check_open()
        watch = MigratingWatch(self._watches, path, callback)
        watch.is_prefix = prefix
        watch.inner = self._store.watch(path, watch.fire, prefix=prefix)
        self._watches[watch] = None
        return watch

    async def session(self, ttl_ms: int) -> MigratingSession:
        """Opens a session that outlives silence of up to ``ttl_ms``."""

        async def work(store: MovableStore) -> MigratingSession:
            session = MigratingSession(await store.session(ttl_ms), self)
            if store is not self._store:
                session.leave()
            self._sessions = [known for known in self._sessions if not known.is_lost]
            self._sessions.append(session)
            return session

        return await self._call(work)

    async def close(self) -> None:
        """Closes connections and sessions. Safe to repeat."""
        if self._is_closed:
            return
        self._is_closed = True
        await self._tasks.aclose()
        for watch in list(self._watches):
            watch.close()
        self._gate_watch.close()
        for left in list(self._left):
            await left.close()
        await self._store.close()

    # --- following

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
                if not self._calls[store] and store in self._left:
                    self._left[store].set()
            await self._follow(store)

    def _gate_changed(self) -> None:
        if not self._is_closed and (self._looking is None or self._looking.done()):
            self._looking = self._tasks.spawn(self._look(), "metadata gate")

    async def _look(self) -> None:
        """Until the store in use is an open one."""
        while True:
            try:
                await self.start()
            except (MetadataError, WrongClusterError):
                await asyncio.sleep(_LOOK_MS / 1000)
            else:
                return

    async def _follow(self, left: MovableStore) -> None:
        """Returns when ``left`` is not the store in use any more, or is open again."""
        deadline = asyncio.get_running_loop().time() + self._timeout_ms / 1000
        async with self._moving:
            opened: dict[str, MovableStore] = {}
            try:
                while self._store is left:
                    found = await self._walk(left, opened)
                    if found is left:
                        return
                    if found is not None:
                        self._adopt(found)
                        del opened[next(uri for uri, one in opened.items() if one is found)]
                        return
                    if asyncio.get_running_loop().time() >= deadline:
                        raise MetadataUnavailableError(f"{left.uri} is being migrated")
                    await asyncio.sleep(_LOOK_MS / 1000)
            finally:
                for store in opened.values():
                    with suppress(MetadataError):
                        await store.close()

    async def _walk(
        self, left: MovableStore, opened: dict[str, MovableStore]
    ) -> MovableStore | None:
        """The open store at the end of the chain; None: a migration is between two of them."""
        store, state = left, await left.gate_state()
        tree = state.tree
        for _ in range(_HOPS_MAX):
            if state.successor is None:
                if state.tree != tree:
                    raise WrongClusterError(
                        f"{store.uri} should hold what {left.uri} held, and holds something else"
                    )
                return store
            if state.successor not in opened:
                opened[state.successor] = await self._opener(state.successor)
            store = opened[state.successor]
            state = await store.gate_state()
        return None

    def _adopt(self, store: MovableStore) -> None:
        left, self._store = self._store, store
        self._gate_watch.close()
        self._gate_watch = store.watch_gate(self._gate_changed)
        loop = asyncio.get_running_loop()
        for watch in self._watches:
            if watch.inner is not None:
                watch.inner.close()
            watch.inner = store.watch(watch.path, watch.fire, prefix=watch.is_prefix)
            loop.call_soon(watch.fire)
        for session in self._sessions:
            session.leave()
        self._sessions.clear()
        self._left[left] = asyncio.Event()
        self._tasks.spawn(self._close_when_idle(left), "close a store that was left")

    async def _close_when_idle(self, left: MovableStore) -> None:
        """A call that is under way may still hear how it ended."""
        if self._calls.get(left):
            await self._left[left].wait()
        await left.close()
        self._calls.pop(left, None)
        del self._left[left]

    def _held(self, session: Session) -> Session:
        if not isinstance(session, MigratingSession) or session.owner is not self:
            raise InvalidArgumentError("a session of another store")
        if session.is_lost:
            raise SessionLostError("the session is gone, or its store was replaced")
        return session.inner

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")
