"""The list of all checks, and the world in which a check runs.

A check is a coroutine function that takes a ``World`` and raises if the store violates the contract
in ``core/runtime/metadata_store.py``. Its docstring states the requirement. To test your store::

    @pytest.fixture
    def rhumbline_metadata_store():
        return "my://host"

    def test_my_store(rhumbline_metadata_check):
        rhumbline_metadata_check()

Each check uses a new random path; checks may therefore share a server and run in any order, one
after the other.
"""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import ModuleType
from typing import Self, cast

from ...core.runtime.metadata_store import MetadataStore, Session
from ..migration_fence import MovableStore
from ..open_store import open_store, open_without_following
from . import migrations, programs, races, semantics, sessions, transactions, watches

CHECK_TIMEOUT_MS = 60_000


@dataclass(frozen=True, slots=True)
class StoreUnderTest:
    """The store to check.

    ``open`` returns a new handle to the same store, independent of other handles like that of
    another process. ``uri`` opens the store with ``open_store`` in another process; if it is None,
    checks that need a second process are skipped, and the handles of ``open`` are those of a
    ``MovableStore``. ``ttl_ms`` is the shortest session TTL that the store supports.
    """

    open: Callable[[], Awaitable[MetadataStore]]
    uri: str | None = None
    ttl_ms: int = 300

    @classmethod
    def at(cls, uri: str, *, ttl_ms: int = 300) -> Self:
        """Return the store that ``open_store`` opens by ``uri``."""
        return cls(lambda: open_store(uri), uri, ttl_ms)


@dataclass(slots=True)
class World:
    """The resources of one check: handles to the store, and a separate root path."""

    target: StoreUnderTest
    root: str
    store: MetadataStore
    _handles: list[MetadataStore] = field(default_factory=list)

    def path(self, name: str) -> str:
        """Return a path below this check's root."""
        return f"{self.root}/{name}"

    async def open_handle(self) -> MetadataStore:
        """Open a further, independent handle; it is closed at the end of the check."""
        handle = await self.target.open()
        self._handles.append(handle)
        return handle

    async def open_directly(self) -> MovableStore:
        """Open a handle that does not follow migrations; it is closed at the end of the check."""
        if self.target.uri is None:
            return cast(MovableStore, await self.open_handle())
        handle = await open_without_following(self.target.uri)
        self._handles.append(handle)
        return handle

    async def session(self, store: MetadataStore | None = None) -> Session:
        """Open a session with the shortest TTL."""
        return await (store or self.store).session(self.target.ttl_ms)

    async def aclose(self) -> None:
        """Close all handles."""
        for handle in reversed(self._handles):
            await handle.close()
        await self.store.close()


ConformanceCheck = Callable[[World], Awaitable[None]]


def all_checks() -> list[ConformanceCheck]:
    """Return every check of the kit."""
    return [
        check
        for module in (semantics, transactions, races, watches, sessions, migrations, programs)
        for check in checks_of(module)
    ]


def checks_of(module: ModuleType) -> list[ConformanceCheck]:
    """Return the checks of one module: its public coroutine functions, in order of definition."""
    return [
        function
        for name, function in vars(module).items()
        if inspect.iscoroutinefunction(function)
        and function.__module__ == module.__name__
        and not name.startswith("_")
    ]


def check_name(check: ConformanceCheck) -> str:
    """Return the name of a check for reports: its module and function."""
    return f"{check.__module__.rpartition('.')[2]}.{getattr(check, '__name__', check)}"


async def run_check(check: ConformanceCheck, target: StoreUnderTest) -> None:
    """Run one check in a new world. Raises the error of the check, or Skipped."""
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
