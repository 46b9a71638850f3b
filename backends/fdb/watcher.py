"""Lasting watches on top of FoundationDB's one-shot watches of single keys.

A watch that was set costs neither a task nor a timer. Watches that must be set, because they are
new, have fired or were lost, are collected, and one task sets many of them in one transaction.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from ...core.protocol.errors import ClosedError, MetadataUnavailableError
from ...core.runtime.tasks import Tasks
from ..migration_fence import FENCE_PATH
from ..watches import Watches
from .bindings import FdbFuture
from .client import Transactions
from .keys import FdbKeys

BATCH_MAX = 200
"""Number of watches that one transaction sets."""

RETRY_S = 0.05
"""Pause before watches are set again that were lost or could not be set."""


class _NativeWatch(NamedTuple):
    """A watch of FoundationDB that was set for a path."""

    key: bytes
    future: FdbFuture


class FdbWatcher:
    """Keeps one native watch for each watched path.

    For a path with a prefix watch, the native watch covers the path's signal key, which changes
    with the node and everything below it. Plain watches at the same path may then fire without a
    change of their node, which the contract permits.
    """

    def __init__(
        self, transactions: Transactions, keys: FdbKeys, tasks: Tasks, deadline: Callable[[], float]
    ) -> None:
        self.watches = Watches(self._path_changed)
        self._transactions = transactions
        self._keys = keys
        self._tasks = tasks
        self._deadline = deadline
        self._native: dict[str, _NativeWatch] = {}
        self._due: dict[str, None] = {}
        self._is_setting = False

    def set_again(self) -> None:
        """Set all watches at the present keys; their callbacks are called then."""
        native, self._native = self._native, {}
        for each in native.values():
            each.future.cancel()
        for path in self.watches.paths():
            self._path_changed(path)

    def _path_changed(self, path: str) -> None:
        """Follow a change of the watches that callers have set at a path."""
        key = self._key_of(path)
        native = self._native.get(path)
        if native is not None and native.key != key:
            del self._native[path]
            native.future.cancel()
            native = None
        if key is None:
            self._due.pop(path, None)
        elif native is not None:
            self.watches.fire_at(path)
        else:
            self._set_soon(path)

    def _key_of(self, path: str) -> bytes | None:
        """Return the key to be watched for a path; None if there is nothing to watch."""
        is_prefix = self.watches.is_prefix(path)
        if is_prefix is None or (path == "/" and not is_prefix):  # the root never changes
            return None
        if path == FENCE_PATH:
            return self._keys.fence
        return self._keys.signal(path) if is_prefix else self._keys.node(path)

    def _set_soon(self, path: str) -> None:
        if self._tasks.is_closed:
            return
        self._due[path] = None
        if not self._is_setting:
            self._is_setting = True
            self._tasks.spawn(self._set_watches(), "fdb watches")

    async def _set_watches(self) -> None:
        """Set watches until none is due. Each path's callbacks are then called once."""
        try:
            while self._due:
                await self._set_batch(list(self._due)[:BATCH_MAX])
        finally:
            self._is_setting = False

    async def _set_batch(self, paths: list[str]) -> None:
        keys = {path: key for path in paths if (key := self._key_of(path)) is not None}
        try:
            futures = await self._transactions.watch(list(keys.values()), self._deadline())
        except MetadataUnavailableError:
            await asyncio.sleep(RETRY_S)
            return
        except ClosedError:
            self._due.clear()
            return
        for (path, key), future in zip(keys.items(), futures, strict=True):
            if path not in self._due or self._key_of(path) != key:
                future.cancel()  # the callers' watches have changed meanwhile
                continue
            del self._due[path]
            self._native[path] = _NativeWatch(key, future)
            self._transactions.when_ready(future, partial(self._ready, path))
            self.watches.fire_at(path)

    def _ready(self, path: str, future: FdbFuture) -> None:
        """Set a watch again that has fired; one that was lost, after a pause."""
        native = self._native.get(path)
        if native is None or native.future is not future:
            return  # it was cancelled
        del self._native[path]
        if self._transactions.has_failed(future):
            asyncio.get_running_loop().call_later(RETRY_S, self._path_changed, path)
        else:
            self._set_soon(path)
