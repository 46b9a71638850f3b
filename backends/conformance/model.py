"""The model-based check: any sequence of operations has the same outcome as on the memory store.

``programs()`` is a hypothesis strategy. ``run_program`` runs one program on the store under test
and on a new ``MemoryStore`` side by side. It compares every result and error, and at the end the
trees. Versions are opaque; it compares only which of them are equal to each other.
"""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from ...core.protocol.errors import RhumblineError
from ...core.runtime.metadata_store import (
    Check,
    Create,
    Delete,
    MetadataStore,
    Operation,
    Put,
    Session,
    Version,
)
from ..memory import MemoryStore

if TYPE_CHECKING:
    from hypothesis import strategies as st

T = TypeVar("T")

NAMES = ("a", "b", "a/a", "a/b", "a/a/a", "b/c", "ab")
HANDLES = 2
SESSION_TTL_MS = 10_000


class ModelStep(NamedTuple):
    """One operation; ``pick`` selects a version seen earlier at its path, or no version if None."""

    kind: str
    name: str
    data: bytes
    pick: int | None
    handle: int
    inner: tuple["ModelStep", ...] = ()


SINGLE = ("get", "create", "children", "put", "delete", "create", "ephemeral", "sequential", "end")
INNER = ("create", "put", "delete", "check")
DATA = (b"", b"x", b"y")
PICKS = (None, 0, None, 1, 2)
INNER_MAX = 5


def programs(steps_max: int = 40) -> "st.SearchStrategy[list[ModelStep]]":
    """Return a strategy for sequences of steps, including transactions; it needs hypothesis.

    Each step is drawn as one number, which is fast and shrinks well.
    """
    from hypothesis import strategies as st

    return st.lists(st.integers(0, 2**24), min_size=8, max_size=steps_max).map(program_of)


def program_of(numbers: list[int]) -> list[ModelStep]:
    """Decode numbers as steps; a transaction uses some following numbers as its operations."""
    program = []
    waiting = list(reversed(numbers))
    while waiting:
        kind, number = _choose((*SINGLE, "txn", "txn"), waiting.pop())
        inner = []
        if kind == "txn":
            for _ in range(min(number % (INNER_MAX + 1), len(waiting))):
                inner_kind, rest = _choose(INNER, waiting.pop())
                inner.append(_step(inner_kind, rest))
        program.append(_step(kind, number)._replace(inner=tuple(inner)))
    return program


def _step(kind: str, number: int) -> ModelStep:
    name, number = _choose(NAMES, number)
    data, number = _choose(DATA, number)
    pick, number = _choose(PICKS, number)
    return ModelStep(kind, name, data, pick, number % HANDLES)


def _choose(items: Sequence[T], number: int) -> tuple[T, int]:
    return items[number % len(items)], number // len(items)


class Twin:
    """One of the two stores: its handles, their sessions, and the versions seen by path."""

    def __init__(self, root: str, handles: list[MetadataStore]) -> None:
        self.root = root
        self._handles = handles
        self._sessions: list[Session | None] = [None] * len(handles)
        self._seen: dict[str, list[Version]] = {}

    async def run(self, step: ModelStep) -> object:
        """Return the outcome of a step in a form that is comparable between the stores."""
        try:
            return await self._run(step)
        except RhumblineError as error:
            return type(error).__name__

    async def tree(self, name: str = "") -> object:
        """Return all nodes with their data; sequential names are replaced by their order."""
        store, path = self._handles[0], f"{self.root}{name}"
        value = await store.get(path)
        children = await store.children(path)
        shown = [f"s-{i}" for i, _ in enumerate(c for c in children if c.startswith("s-"))]
        shown += [child for child in children if not child.startswith("s-")]
        subtrees = [await self.tree(f"{name}/{child}") for child in children]
        return (
            value.data,
            self._number(path, value.version),
            sorted(shown),
            len(subtrees),
            [
                subtree
                for child, subtree in zip(children, subtrees, strict=True)
                if child[:2] != "s-"
            ],
        )

    async def _run(self, step: ModelStep) -> object:
        store, path = self._handles[step.handle], f"{self.root}/{step.name}"
        match step.kind:
            case "get":
                value = await store.get(path)
                return value.data, self._number(path, value.version)
            case "children":
                return [name for name in await store.children(path) if name[:2] != "s-"]
            case "create":
                return self._number(path, (await store.create(path, step.data))[1])
            case "ephemeral":
                session = await self._session(step.handle)
                return self._number(path, (await store.create(path, ephemeral=session))[1])
            case "sequential":
                created_path, _ = await store.create(f"{path}/s-", step.data, sequential=True)
                assert created_path.startswith(f"{path}/s-")
                return "made"
            case "put":
                version = await store.put(path, step.data, expect=self._pick(path, step))
                return self._number(path, version)
            case "delete":
                await store.delete(path, expect=self._pick(path, step))
                return "deleted"
            case "end":
                await self._end_session(step.handle)
                return "ended"
            case _:
                return await self._run_transaction(store, step)

    async def _run_transaction(self, store: MetadataStore, step: ModelStep) -> object:
        operations = [self._operation(inner) for inner in step.inner]
        versions = await store.txn(operations)
        return [
            version and self._number(operation.path, version)
            for operation, version in zip(operations, versions, strict=True)
        ]

    def _operation(self, step: ModelStep) -> Operation:
        path = f"{self.root}/{step.name}"
        match step.kind:
            case "check":
                return Check(path, self._pick(path, step))
            case "create":
                return Create(path, step.data)
            case "put":
                return Put(path, step.data, self._pick(path, step))
            case _:
                return Delete(path, self._pick(path, step))

    def _pick(self, path: str, step: ModelStep) -> Version | None:
        seen = self._seen.get(path)
        return None if step.pick is None or not seen else seen[-1 - step.pick % len(seen)]

    def _number(self, path: str, version: Version) -> int:
        """Return the index of a version among those seen at the path."""
        seen = self._seen.setdefault(path, [])
        if version not in seen:
            seen.append(version)
        return seen.index(version)

    async def _session(self, handle: int) -> Session:
        session = self._sessions[handle]
        if session is None:
            session = self._sessions[handle] = await self._handles[handle].session(SESSION_TTL_MS)
        return session

    async def _end_session(self, handle: int) -> None:
        session, self._sessions[handle] = self._sessions[handle], None
        if session is not None:
            await session.close()

    async def aclose(self) -> None:
        """End the sessions."""
        for handle in range(len(self._handles)):
            await self._end_session(handle)


async def run_program(
    program: list[ModelStep], handles: list[MetadataStore], root: str | None = None
) -> None:
    """Run one program through ``HANDLES`` handles of a store, below the new node ``root``.

    Raises AssertionError at the first step whose outcome differs.
    """
    root = root or f"/model-{os.urandom(6).hex()}"
    memory = MemoryStore()
    real = Twin(root, handles)
    model = Twin(root, [memory, MemoryStore(memory.tree)])
    await handles[0].create(root)
    await memory.create(root)
    for position, step in enumerate(program):
        got, expected = await real.run(step), await model.run(step)
        assert got == expected, f"step {position} {step}: got {got!r}, expected {expected!r}"
    got, expected = await real.tree(), await model.tree()
    assert got == expected, f"final trees differ: got {got!r}, expected {expected!r}"
    await real.aclose()
    await model.aclose()
