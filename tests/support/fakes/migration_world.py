"""A test world of metadata migrations: trees in memory, writers, and a mover that can be killed."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.backends.migrating_store import MigratingStore
from rhumbline.backends.migration import Migration, MigrationEnd
from rhumbline.backends.migration_fence import FenceState, MovableStore
from rhumbline.backends.transaction_plan import Node
from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore, Operation

T = TypeVar("T")
KEYS = 3
TIMEOUT_MS = 2_000
KEPT = 20
"""Nodes that the first writer leaves in the tree. A tree that grew with time would make each copy
longer than the one before."""


class MoverKilled(Exception):
    """The process of the mover was killed. The product does not handle this exception."""


class KillableStore:
    """A store handle with the calls of a mover.

    ``moment`` is called before and after each effect.
    """

    def __init__(self, inner: MovableStore, moment: Callable[[], None]) -> None:
        self.uri = inner.uri
        self._inner = inner
        self._moment = moment

    async def fence_state(self, *, stale_ok: bool = False) -> FenceState:
        return await self._run_killable(partial(self._inner.fence_state, stale_ok=stale_ok))

    async def swap_fence(self, old: FenceState, new: FenceState) -> bool:
        return await self._run_killable(partial(self._inner.swap_fence, old, new))

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        async for page in self._inner.scan():
            await self._run_killable(partial(asyncio.sleep, 0))
            yield page

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], fence: FenceState
    ) -> None:
        await self._run_killable(partial(self._inner.load, operations, sequences, fence))

    async def _run_killable(self, work: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(0.001)  # lets other tasks run
        self._moment()
        result = await work()
        self._moment()
        return result


def killable(inner: MovableStore, moment: Callable[[], None]) -> MovableStore:
    """Return a handle whose calls may kill the mover."""
    return cast("MovableStore", KillableStore(inner, moment))


class MigrationWorld:
    """Metadata trees by URI, and handles that follow their migrations."""

    def __init__(self, *uris: str) -> None:
        self.trees = {uri: MemoryTree(uri) for uri in uris}
        self._tokens = 0
        self.handles: list[MigratingStore] = []

    async def open_plain(self, uri: str) -> MovableStore:
        return MemoryStore(self.trees[uri], uri)

    async def open(self, uri: str) -> MigratingStore:
        store = MigratingStore(await self.open_plain(uri), self.open_plain, TIMEOUT_MS)
        self.handles.append(store)
        await store.start()
        return store

    def new_token(self) -> str:
        self._tokens += 1
        return f"t{self._tokens}"

    def migration(
        self,
        source: str,
        target: str,
        *,
        moment: Callable[[], None] = lambda: None,
        pause_ms_max: int = 10_000,
    ) -> Migration:
        return Migration(
            MigrationEnd(killable(MemoryStore(self.trees[source], source), moment), source),
            MigrationEnd(killable(MemoryStore(self.trees[target], target), moment), target),
            pause_ms_max=pause_ms_max,
            new_token=self.new_token,
        )

    async def aclose(self) -> None:
        for handle in self.handles:
            await handle.close()


class KillAfter:
    """Raises MoverKilled at every call after the first ``at`` calls."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.moments = 0

    def __call__(self) -> None:
        self.moments += 1
        if self.moments > self.at:
            raise MoverKilled


class Writers:
    """Writers of counters and of a queue of numbered nodes, which note what was acknowledged.

    The size of the tree stays constant, so that measurements show only the migration.
    """

    def __init__(self, pause_s: float = 0.002) -> None:
        self.known = [0] * KEYS
        self.unsure = [0] * KEYS
        self.refused = 0
        self.numbers: list[str] = []
        self.is_stopped = False
        self.longest_pause_s = 0.0
        self._kept: list[deque[str]] = [deque() for _ in range(KEYS)]
        self._pause_s = pause_s

    @staticmethod
    async def prepare(store: MetadataStore) -> None:
        for key in range(KEYS):
            await store.create(f"/counters/{key}", b"0")
        await store.create("/queue")

    async def run(self, store: MetadataStore, key: int) -> None:
        """Run one writer.

        It creates and deletes numbered nodes, like the generator of ledger ids.
        """
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self.is_stopped:
            await asyncio.sleep(self._pause_s)
            try:
                await self._append_once(store, key)
            except (BadVersionError, MetadataUnavailableError):
                self.refused += 1
            else:
                self.longest_pause_s = max(self.longest_pause_s, loop.time() - last)
                last = loop.time()

    async def _append_once(self, store: MetadataStore, key: int) -> None:
        value = await store.get(f"/counters/{key}")
        try:
            await store.put(f"/counters/{key}", b"%d" % (int(value.data) + 1), expect=value.version)
        except IndeterminateError:
            self.unsure[key] += 1
            return
        self.known[key] += 1
        try:
            path, _ = await store.create("/queue/n-", sequential=True)
            self.numbers.append(path)
            self._kept[key].append(path)
            if len(self._kept[key]) > (0 if key else KEPT):
                await store.delete(self._kept[key].popleft())
        except IndeterminateError:
            return

    async def check(self, store: MetadataStore) -> None:
        """Check that no acknowledged write is lost or doubled and that no number repeats."""
        for key in range(KEYS):
            found = int((await store.get(f"/counters/{key}")).data)
            assert self.known[key] <= found <= self.known[key] + self.unsure[key]
        assert len(set(self.numbers)) == len(self.numbers)
