"""The base of all metadata stores: argument checks, life cycle, and sessions."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context

from ..core.protocol.errors import ClosedError, NoNodeError
from ..core.runtime.metadata_store import (
    Delete,
    Operation,
    Put,
    Session,
    Value,
    Version,
    Watch,
    check_path,
)
from ..core.runtime.tasks import Tasks
from .migration_fence import FENCE_PATH, FenceState
from .transaction_plan import check_data, check_operations, check_target
from .watches import Watches


class StoreSession:
    """The callbacks of a session, and whether it is lost."""

    def __init__(self) -> None:
        self.is_lost = False
        self._on_lost: list[Callable[[], None]] = []

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the session is lost; soon if it is lost already."""
        if self.is_lost:
            asyncio.get_running_loop().call_soon(callback)
        else:
            self._on_lost.append(callback)

    def mark_lost(self, context: Context | None = None) -> None:
        """Mark the session as lost and call back. Safe to repeat."""
        self.is_lost = True
        for callback in self._on_lost:
            asyncio.get_running_loop().call_soon(callback, context=context)
        self._on_lost.clear()


class StoreBase(ABC):
    """A ``MovableStore`` over the methods of a backend.

    A backend provides the abstract methods. Their arguments were checked, and the store is open
    when they are called. They raise what the public methods raise.
    """

    _watches: Watches
    """The watches of this handle, set by the backend."""

    def __init__(self, uri: str, timeout_ms: int) -> None:
        self.uri = uri
        self.timeout_ms = timeout_ms
        self._is_closed = False
        self._tasks = Tasks()

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """Return the node's value. Raises NoNodeError, MetadataUnavailableError."""
        check_path(path)
        self._check_open()
        return await self._get(path, stale_ok=stale_ok)

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """Return the values of several nodes, None for each that does not exist."""
        for path in paths:
            check_path(path)
        self._check_open()
        return await self._get_all(paths, stale_ok=stale_ok)

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """Return at most ``limit`` names of direct children after ``after``, in byte order."""
        check_path(path)
        self._check_open()
        return await self._children(path, after, limit, stale_ok=stale_ok)

    def is_newer(self, version: Version, than: Version) -> bool:
        """Return True if a node had the version ``than`` first and ``version`` later."""
        epoch, _, order = version.partition(".")
        known_epoch, _, known_order = than.partition(".")
        return epoch == known_epoch and self._order(order) > self._order(known_order)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Create a node and return its path and version."""
        check_target(path)
        check_data(data)
        self._check_open()
        return await self._create(path, data, ephemeral, sequential=sequential)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replace a node's data. Raises NoNodeError, BadVersionError and as ``create``."""
        check_target(path)
        check_data(data)
        self._check_open()
        (version,) = await self._transact([Put(path, data, expect)])
        assert version is not None
        return version

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Delete a node. Raises NoNodeError, BadVersionError, NotEmptyError and as ``create``."""
        check_target(path)
        self._check_open()
        await self._transact([Delete(path, expect)])

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """Carry out all operations or none; return versions, None for each Check and Delete."""
        check_operations(operations)
        self._check_open()
        return await self._transact(operations)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Call ``callback`` from the loop after the node (``prefix``: its subtree) changed."""
        check_path(path)
        self._check_open()
        return self._watches.add(path, callback, is_prefix=prefix)

    async def close(self) -> None:
        """End sessions and watches and close the connection. Safe to repeat."""
        if self._is_closed:
            return
        await self._end_leases()
        self._is_closed = True
        self._watches.close()
        await self._tasks.aclose()
        await self._disconnect()

    # --- migration (``MovableStore``)

    async def fence_state(self, *, stale_ok: bool = False) -> FenceState:
        """Return the state of the fence, the current one unless ``stale_ok``.

        Raises MetadataUnavailableError.
        """
        self._check_open()
        return await self._read_fence(stale_ok=stale_ok)

    async def swap_fence(self, old: FenceState, new: FenceState) -> bool:
        """Replace the fence if it is ``old``; False if it is not."""
        self._check_open()
        return await self._swap_fence(old, new)

    def watch_fence(self, callback: Callable[[], None]) -> Watch:
        """Call ``callback`` after the fence changed."""
        self._check_open()
        return self._watches.add(FENCE_PATH, callback, is_prefix=False)

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        """Write although the fence is closed, if it is exactly ``fence``."""
        check_operations(operations)
        self._check_open()
        await self._load(operations, sequences, fence)

    # --- what a backend provides

    @abstractmethod
    async def _get(self, path: str, *, stale_ok: bool) -> Value: ...

    @abstractmethod
    async def _children(
        self, path: str, after: str | None, limit: int | None, *, stale_ok: bool
    ) -> list[str]: ...

    @abstractmethod
    async def _create(
        self, path: str, data: bytes, ephemeral: Session | None, *, sequential: bool
    ) -> tuple[str, Version]: ...

    @abstractmethod
    async def _transact(self, operations: Sequence[Operation]) -> list[Version | None]: ...

    @abstractmethod
    async def _read_fence(self, *, stale_ok: bool) -> FenceState: ...

    @abstractmethod
    async def _swap_fence(self, old: FenceState, new: FenceState) -> bool: ...

    @abstractmethod
    async def _load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None: ...

    async def _get_all(self, paths: Sequence[str], *, stale_ok: bool) -> list[Value | None]:
        """Read one node after the other; a backend that can replaces it by one request."""
        values: list[Value | None] = []
        for path in paths:
            try:
                values.append(await self._get(path, stale_ok=stale_ok))
            except NoNodeError:
                values.append(None)
        return values

    def _order(self, order: str) -> tuple[int, ...]:
        """Return the place of a version, without its epoch, among the versions of its path."""
        return (int(order),)

    async def _end_leases(self) -> None:
        """End sessions that are rows of the store, which must still be open for that."""
        return

    @abstractmethod
    async def _disconnect(self) -> None:
        """End all other sessions and close the connection."""

    # --- for backends

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"{self.uri} is closed")

    def _deadline(self) -> float:
        """Return the loop time until which a call that begins now may last."""
        return asyncio.get_running_loop().time() + self.timeout_ms / 1000
