"""The kit: a world in which a check runs, and the list of all checks.

A check is a coroutine function that takes a ``World`` and raises when the store breaks a promise of
``core/runtime/metadata_store.py``. Its docstring is the promise. To test a store of your own::

    @pytest.mark.parametrize("check", all_checks(), ids=check_name)
    def test_my_store(check):
        asyncio.run(run_check(check, Target(open=lambda: open_my_store("my://host"))))

Checks work below a fresh random path, so they share a server and run in any order.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import ModuleType

from ...core.runtime.metadata_store import MetadataStore, Session
from . import races, semantics, sessions, transactions, watches

CHECK_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Target:
    """A store under test. ``open`` gives a new handle to the same store, as another process has.

    ``uri``: what ``open_store`` takes in another process, or None for a store that has none; then
    checks that need a second process skip. ``ttl_ms``: the shortest session that it offers.
    """

    open: Callable[[], Awaitable[MetadataStore]]
    uri: str | None = None
    ttl_ms: int = 300


@dataclass(slots=True)
class World:
    """What a check may use: handles to one store and a path of its own."""

    target: Target
    root: str
    store: MetadataStore
    _handles: list[MetadataStore] = field(default_factory=list)

    def path(self, name: str) -> str:
        """A path below this check's root."""
        return f"{self.root}/{name}"

    async def another(self) -> MetadataStore:
        """A further handle, as another process would have; closed at the end of the check."""
        handle = await self.target.open()
        self._handles.append(handle)
        return handle

    async def session(self, store: MetadataStore | None = None) -> Session:
        """A session with the shortest TTL."""
        return await (store or self.store).session(self.target.ttl_ms)

    async def aclose(self) -> None:
        """Closes all handles."""
        for handle in reversed(self._handles):
            await handle.close()
        await self.store.close()


Check = Callable[[World], Awaitable[None]]


def all_checks() -> list[Check]:
    """Every check of the kit."""
    return [
        check
        for module in (semantics, transactions, races, watches, sessions)
        for check in checks_of(module)
    ]


def checks_of(module: ModuleType) -> list[Check]:
    """The checks of one module: its public coroutine functions, in order of definition."""
    return [
        function
        for name, function in vars(module).items()
        if inspect.iscoroutinefunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    ]


def check_name(check: Check) -> str:
    """A name for reports."""
    return f"{check.__module__.rpartition('.')[2]}.{getattr(check, '__name__', check)}"


async def run_check(check: Check, target: Target) -> None:
    """Runs one check in a fresh world. Raises what the check raises, or Skipped."""
    world = World(target, f"/conformance-{os.urandom(6).hex()}", await target.open())
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_MS / 1000):
            await world.store.create(world.root)
            await check(world)
            await _remove(world.store, world.root)
    finally:
        await world.aclose()


async def _remove(store: MetadataStore, path: str) -> None:
    for name in await store.children(path):
        await _remove(store, f"{path}/{name}")
    await store.delete(path)
