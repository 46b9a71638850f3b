"""Our operations as one ZooKeeper multi-request.

In order: the gate, the guards of what is compared, the operations with the parents that they need,
the guards of what is created. When it fails, the origin of the operation that failed says what to
do: raise its error, look at the gate again, or try again with what was learned.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...core.protocol.errors import InvalidArgumentError, MetadataUnavailableError, NoNodeError
from ...core.runtime.metadata_store import Check, Create, Delete, Operation, Put, Version, parent_of
from ..migration_fence import FenceState
from .client import (
    ANY_VERSION,
    IMPOSSIBLE_VERSION,
    Multi,
    MultiFailed,
    Request,
    Requests,
    Stat,
    ZooKeeperConnection,
)
from .migration_fence import NAME, ZooKeeperFence

SEQUENCE_BATCH_CHILDREN_MAX = 500
"""Children made to raise a count in one request: some 100 kB."""

_FENCE, _RETRY = -1, -2


def created_children(stat: Any) -> int:  # noqa: ANN401 - kazoo's ZnodeStat
    """How many children were ever made below a znode; what the next sequential one is numbered.

    ZooKeeper reports twice that minus those that are there, as the count of changes.
    """
    count: int = (stat.cversion + stat.numChildren) // 2
    return count


class CreateFlags(NamedTuple):
    """How a single creation is made."""

    ephemeral: bool = False
    sequential: bool = False


@dataclass(slots=True)
class _RequestBuilder:
    """A multi-request in the making. ``origins`` says for each part which operation it serves."""

    parts: list[Request] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    created: list[str] = field(default_factory=list)

    def add(self, origin: int, part: Request) -> None:
        self.parts.append(part)
        self.origins.append(origin)


class ZooKeeperCommits:
    """Carries out operations whose paths are full ones, with the chroot."""

    def __init__(
        self, fence: ZooKeeperFence, requests: Requests, reader: ZooKeeperConnection
    ) -> None:
        self._fence = fence
        self._requests = requests
        self._reader = reader

    async def commit(
        self,
        operations: Sequence[Operation],
        connection: ZooKeeperConnection,
        deadline: float,
        flags: CreateFlags = CreateFlags(),  # noqa: B008 - it is immutable
        allowed_fence: FenceState | None = None,
    ) -> list[tuple[str, Version] | None]:
        """All or nothing; (path, version) of what each Create and Put wrote.

        ``connection`` is the session's for an ephemeral node. Raises the error of the first
        operation that does not hold, StoreFencedError, MetadataUnavailableError and
        IndeterminateError.
        """
        with_parents = False
        while asyncio.get_running_loop().time() < deadline:
            builder = _RequestBuilder()
            builder.add(_FENCE, await self._fence.condition(allowed_fence, deadline))
            await self._fill(builder, operations, flags, deadline, with_parents=with_parents)
            try:
                results = await connection.write(Multi(builder.parts), deadline=deadline)
            except MultiFailed as failure:
                origin = builder.origins[failure.index]
                if isinstance(failure.error, InvalidArgumentError):
                    raise InvalidArgumentError("an ephemeral node has no children") from failure
                if origin == _FENCE:
                    await self._fence.read_or_create(deadline)
                    self._fence.state.check(allowed_fence)
                elif origin >= 0 and not self._lacks_parent(failure, operations[origin]):
                    raise failure.error from failure
                else:
                    with_parents = True
                continue
            return self._written(operations, builder, results)
        raise MetadataUnavailableError("ZooKeeper: others changed the same nodes all the time")

    def _written(
        self, operations: Sequence[Operation], builder: _RequestBuilder, results: list[Any]
    ) -> list[tuple[str, Version] | None]:
        written: list[tuple[str, Version] | None] = [None] * len(operations)
        for origin, result in zip(builder.origins, results, strict=True):
            if origin < 0 or result is True:
                continue
            match operations[origin]:
                case Create():
                    path, stat = result
                    written[origin] = path, self.version(stat)
                case Put(path):
                    written[origin] = path, self.version(result)
        return written

    def version(self, stat: Stat) -> Version:
        """The version of a znode: the store's life, the node's life, its count of changes."""
        return Version(f"{self._fence.state.epoch}.{stat.czxid:x}.{stat.version}")

    @staticmethod
    def _lacks_parent(failure: MultiFailed, operation: Operation) -> bool:
        makes = isinstance(operation, Create) or (
            isinstance(operation, Check) and operation.version is None
        )
        return makes and isinstance(failure.error, NoNodeError)

    async def raise_sequence(
        self, parent: str, number: int, deadline: float, allowed_fence: FenceState
    ) -> None:
        """ZooKeeper counts the children that were ever made: so they are made, and go at once."""
        while (missing := number - await self._created_children(parent, deadline)) > 0:
            name = f"{parent.rstrip('/')}/{NAME}-count"
            parts = [await self._fence.condition(allowed_fence, deadline)]
            for _ in range(min(missing, SEQUENCE_BATCH_CHILDREN_MAX)):
                parts += [self._requests.create(name, b""), self._requests.delete(name, -1)]
            try:
                await self._reader.write(Multi(parts), deadline=deadline)
            except MultiFailed as failure:
                if failure.index == 0:
                    continue
                raise failure.error from failure

    async def _created_children(self, parent: str, deadline: float) -> int:
        _, stat = await self._reader.read(
            self._requests.sync(self._fence.path), self._requests.exists(parent), deadline=deadline
        )
        if stat is None:
            raise NoNodeError(parent)
        return created_children(stat)

    async def _fill(
        self,
        builder: _RequestBuilder,
        operations: Sequence[Operation],
        flags: CreateFlags,
        deadline: float,
        *,
        with_parents: bool,
    ) -> None:
        expected = await self._expectations(operations, builder, deadline)
        parents = _Ancestors(await self._present(operations, deadline) if with_parents else None)
        for origin, operation in enumerate(operations):
            self._add(builder, origin, operation, expected, parents, flags)
        for guard in dict.fromkeys(self._fence.guard(path) for path in builder.created):
            builder.add(_RETRY, self._requests.put(guard, b"", ANY_VERSION))

    def _add(
        self,
        builder: _RequestBuilder,
        origin: int,
        operation: Operation,
        expected: dict[int, int],
        parents: "_Ancestors",
        flags: CreateFlags,
    ) -> None:
        requests = self._requests
        version = expected.get(origin, ANY_VERSION)
        match operation:
            case Check(path, None):
                self._add_absence(builder, origin, path, parents.missing(path))
            case Check(path):
                builder.add(origin, requests.check(path, version))
            case Put(path, data):
                builder.add(origin, requests.put(path, data, version))
            case Delete(path):
                builder.add(origin, requests.delete(path, version))
                parents.deleted(path)
            case Create(path, data):
                for ancestor in parents.make(path):
                    builder.add(_RETRY, requests.create(ancestor, b""))
                    builder.created.append(ancestor)
                builder.add(origin, requests.create(path, data, **flags._asdict()))
                if not flags.sequential:  # its path is not used again
                    builder.created.append(path)

    def _add_absence(
        self, builder: _RequestBuilder, origin: int, path: str, missing: list[str]
    ) -> None:
        """ZooKeeper can check that a node is not there only by making and removing it."""
        for ancestor in missing:
            builder.add(_RETRY, self._requests.create(ancestor, b""))
        builder.add(origin, self._requests.create(path, b""))
        for made in (path, *reversed(missing)):
            builder.add(_RETRY, self._requests.delete(made, ANY_VERSION))

    async def _expectations(
        self, operations: Sequence[Operation], builder: _RequestBuilder, deadline: float
    ) -> dict[int, int]:
        """The znode versions to compare, after a look at who the nodes are, with their guards.

        A version that cannot be right becomes one that no znode has, so that the server finds out
        in the order of the operations which one fails.
        """
        wanted = {
            origin: (operation.path, expect)
            for origin, operation in enumerate(operations)
            if (expect := _expect_of(operation)) is not None
        }
        if not wanted:
            return {}
        guards = list(dict.fromkeys(self._fence.guard(path) for path, _ in wanted.values()))
        requests_ = [*guards, *(path for path, _ in wanted.values())]
        _, *stats = await self._reader.read(
            self._requests.sync(self._fence.path),
            *(self._requests.exists(path) for path in requests_),
            deadline=deadline,
        )
        for guard, stat in zip(guards, stats, strict=False):
            if stat is not None:  # a store without guards has no gate either
                builder.add(_RETRY, self._requests.check(guard, stat.version))
        versions = {}
        found = stats[len(guards) :]
        for (origin, (_, expect)), stat in zip(wanted.items(), found, strict=True):
            is_right = stat is not None and self._is_same_node(expect, stat)
            versions[origin] = int(expect.rpartition(".")[2]) if is_right else IMPOSSIBLE_VERSION
        return versions

    def _is_same_node(self, expect: Version, stat: Stat) -> bool:
        head, _, count = expect.rpartition(".")
        is_number = count.isascii() and count.isdigit() and str(int(count)) == count
        return is_number and head == f"{self._fence.state.epoch}.{stat.czxid:x}"

    async def _present(self, operations: Sequence[Operation], deadline: float) -> dict[str, bool]:
        """Which ancestors of all these paths are there."""
        paths: dict[str, None] = {}
        for operation in operations:
            ancestor = parent_of(operation.path)
            while ancestor != "/":
                paths[ancestor] = None
                ancestor = parent_of(ancestor)
        requests_ = [self._requests.exists(path) for path in paths]
        _, *stats = await self._reader.read(
            self._requests.sync(self._fence.path), *requests_, deadline=deadline
        )
        return {path: stat is not None for path, stat in zip(paths, stats, strict=True)}


class _Ancestors:
    """Which ancestors are there while the operations are done one after the other."""

    def __init__(self, present: dict[str, bool] | None) -> None:
        """None: nobody looked; all are taken to be there until an operation fails."""
        self._present = present

    def missing(self, path: str) -> list[str]:
        """The ancestors that are not there, the highest first."""
        missing: list[str] = []
        if self._present is None:
            return missing
        ancestor = parent_of(path)
        while ancestor != "/" and not self._present[ancestor]:
            missing.append(ancestor)
            ancestor = parent_of(ancestor)
        return missing[::-1]

    def make(self, path: str) -> list[str]:
        """``missing``, and from now on they and ``path`` are there."""
        missing = self.missing(path)
        if self._present is not None:
            self._present.update(dict.fromkeys((*missing, path), True))
        return missing

    def deleted(self, path: str) -> None:
        """``path`` was deleted."""
        if self._present is not None:
            self._present[path] = False


def _expect_of(operation: Operation) -> Version | None:
    match operation:
        case Check(version=expect) | Put(expect=expect) | Delete(expect=expect):
            return expect
    return None
