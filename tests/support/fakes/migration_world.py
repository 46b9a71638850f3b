"""Trees in memory, writers that count what was acknowledged, a mover that dies on command."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar, cast

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.backends.migrating_store import MigratingStore
from rhumbline.backends.migration import End, Migration
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
"""How many of its numbers the first writer leaves in the tree: what grows with time would make each
copy longer than the one before."""


class Killed(Exception):
    """The mover's process is gone. No handler of ours knows it."""


class Mortal:
    """A mover's handle, as far as a mover uses one: each call has a moment before and one after
    its effect."""

    def __init__(self, inner: MovableStore, moment: Callable[[], None]) -> None:
        self.uri = inner.uri
        self._inner = inner
        self._moment = moment

    async def gate_state(self) -> FenceState:
        return await self._lived(self._inner.gate_state)

    async def swap_gate(self, old: FenceState, new: FenceState) -> bool:
        return await self._lived(partial(self._inner.swap_gate, old, new))

    async def scan(self) -> AsyncIterator[list[tuple[str, Node]]]:
        async for page in self._inner.scan():
            await self._lived(partial(asyncio.sleep, 0))
            yield page

    async def load(
        self, operations: Sequence[Operation], sequences: Mapping[str, int], gate: FenceState
    ) -> None:
        await self._lived(partial(self._inner.load, operations, sequences, gate))

    async def _lived(self, work: Callable[[], Awaitable[T]]) -> T:
        await asyncio.sleep(0.001)  # others run
        self._moment()
        result = await work()
        self._moment()
        return result


def mortal(inner: MovableStore, moment: Callable[[], None]) -> MovableStore:
    """A handle whose calls may be the mover's last."""
    return cast("MovableStore", Mortal(inner, moment))


class World:
    """Trees by URI, as servers are, and handles that follow."""

    def __init__(self, *uris: str) -> None:
        self.trees = {uri: MemoryTree(uri) for uri in uris}
        self._tokens = 0
        self.handles: list[MigratingStore] = []

    async def open_as_it_is(self, uri: str) -> MovableStore:
        return MemoryStore(self.trees[uri], uri)

    async def open(self, uri: str) -> MigratingStore:
        store = MigratingStore(await self.open_as_it_is(uri), self.open_as_it_is, TIMEOUT_MS)
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
        longest_pause_ms: int = 10_000,
    ) -> Migration:
        return Migration(
            End(mortal(MemoryStore(self.trees[source], source), moment), source),
            End(mortal(MemoryStore(self.trees[target], target), moment), target),
            longest_pause_ms=longest_pause_ms,
            new_token=self.new_token,
        )

    async def aclose(self) -> None:
        for handle in self.handles:
            await handle.close()


class Deaths:
    """Kills at one moment, and at every later one: who is dead does nothing more."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.moments = 0

    def __call__(self) -> None:
        self.moments += 1
        if self.moments > self.at:
            raise Killed


class Writers:
    """Counters, a queue of numbered nodes, and what was acknowledged of them.

    Their tree stays as large as it is, so that what is measured on it is of the migration.
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
        """One writer; it makes its own number and takes it away, as ledgers get their ids."""
        loop = asyncio.get_running_loop()
        last = loop.time()
        while not self.is_stopped:
            await asyncio.sleep(self._pause_s)
            try:
                await self._once(store, key)
            except (BadVersionError, MetadataUnavailableError):
                self.refused += 1
            else:
                self.longest_pause_s = max(self.longest_pause_s, loop.time() - last)
                last = loop.time()

    async def _once(self, store: MetadataStore, key: int) -> None:
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
        """Nothing acknowledged is lost, nothing was done twice, no number was given twice."""
        for key in range(KEYS):
            found = int((await store.get(f"/counters/{key}")).data)
            assert self.known[key] <= found <= self.known[key] + self.unsure[key]
        assert len(set(self.numbers)) == len(self.numbers)
