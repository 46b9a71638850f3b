"""Lasting watches on top of FoundationDB's one-shot watches of single keys; one task per path."""

import asyncio
from collections.abc import Callable

from ...core.protocol.errors import ClosedError, MetadataUnavailableError
from ...core.runtime.tasks import Tasks
from ..migration_fence import FENCE_PATH
from ..watches import Watches
from .client import Transactions
from .keys import FdbKeys


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
        self._running: dict[str, tuple[bool, asyncio.Task[None]]] = {}

    def _path_changed(self, path: str) -> None:
        wanted = self.watches.is_prefix(path)
        running = self._running.get(path)
        if running is not None and wanted != running[0]:
            running[1].cancel()
            del self._running[path]
            running = None
        if wanted is None or self._tasks.is_closed:
            return
        if running is None:
            task = self._tasks.spawn(self._run(path, is_prefix=wanted), f"fdb watch {path}")
            self._running[path] = wanted, task
        else:
            self.watches.fire_at(path)

    async def _run(self, path: str, *, is_prefix: bool) -> None:
        if path == "/" and not is_prefix:
            return  # the root never changes
        key = self._keys.signal(path) if is_prefix else self._keys.node(path)
        if path == FENCE_PATH:
            key = self._keys.fence
        while True:
            try:
                future = await self._transactions.watch(key, self._deadline())
            except MetadataUnavailableError:
                await asyncio.sleep(0.05)
                continue
            except ClosedError:
                return
            try:
                self.watches.fire_at(path)
                if not await self._transactions.wait_fired(future):
                    await asyncio.sleep(0.05)
            finally:
                future.cancel()
