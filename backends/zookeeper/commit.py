"""Carries out the operations of a transaction as one ZooKeeper multi-request.

The request consists of the check of the fence, checks of the guards of compared nodes, the
operations with the parents that they need, and writes of the guards of created nodes. If it fails,
the origin of the failed part decides what follows: its error is raised, the fence is read again, or
the request is built again from current data.
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
"""Children created in one request to raise a sequence number; about 100 kB."""

_FENCE, _RETRY = -1, -2


def created_children(stat: Any) -> int:  # noqa: ANN401 - kazoo's ZnodeStat
    """Return the number of children ever created below a znode: the next sequence number.

    ``cversion`` counts creations and deletions of children: it is twice this number minus the
    number of existing children.
    """
    count: int = (stat.cversion + stat.numChildren) // 2
    return count


class CreateFlags(NamedTuple):
    """The flags of a single creation."""

    ephemeral: bool = False
    sequential: bool = False


@dataclass(slots=True)
class _RequestBuilder:
    """A multi-request under construction; ``origins`` maps each part to its operation's index.

    An origin may also be ``_FENCE`` or ``_RETRY``, for parts that belong to no single operation.
    """

    parts: list[Request] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)
    created: list[str] = field(default_factory=list)

    def add(self, origin: int, part: Request) -> None:
        self.parts.append(part)
        self.origins.append(origin)


class ZooKeeperCommits:
    """Carries out operations whose paths include the chroot."""

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
        """Carry out all operations or none; return (path, version) for each Create and Put.

        For an ephemeral node, ``connection`` is that of its session. Raises the error of the first
        operation whose condition fails, StoreFencedError, MetadataUnavailableError and
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
                    raise InvalidArgumentError(
                        "an ephemeral node cannot have children"
                    ) from failure
                if origin == _FENCE:
                    await self._fence.read_or_create(deadline)
                    self._fence.state.check(allowed_fence)
                elif origin >= 0 and not self._lacks_parent(failure, operations[origin]):
                    raise failure.error from failure
                else:
                    with_parents = True
                continue
            return self._written(operations, builder, results)
        raise MetadataUnavailableError(
            "ZooKeeper: other writers kept changing the same nodes until the deadline"
        )

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
        """Return the version of a znode: epoch of the store, creation id, number of changes."""
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
        """Create and delete children until the next sequence number is at least ``number``.

        ZooKeeper numbers children by their creations and has no other way to raise the number.
        """
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
                if not flags.sequential:  # a sequential path is never used again
                    builder.created.append(path)

    def _add_absence(
        self, builder: _RequestBuilder, origin: int, path: str, missing: list[str]
    ) -> None:
        """Add a check that a node does not exist, which requires creating and deleting it."""
        for ancestor in missing:
            builder.add(_RETRY, self._requests.create(ancestor, b""))
        builder.add(origin, self._requests.create(path, b""))
        for created_path in (path, *reversed(missing)):
            builder.add(_RETRY, self._requests.delete(created_path, ANY_VERSION))

    async def _expectations(
        self, operations: Sequence[Operation], builder: _RequestBuilder, deadline: float
    ) -> dict[int, int]:
        """Return the znode versions to compare, by origin, and add the checks of their guards.

        If the node is not the one of the expected version, the result is a version that no znode
        has. The server then determines, in the order of the operations, which one fails.
        """
        expected = {
            origin: (operation.path, expect)
            for origin, operation in enumerate(operations)
            if (expect := _expect_of(operation)) is not None
        }
        if not expected:
            return {}
        guards = list(dict.fromkeys(self._fence.guard(path) for path, _ in expected.values()))
        requests_ = [*guards, *(path for path, _ in expected.values())]
        _, *stats = await self._reader.read(
            self._requests.sync(self._fence.path),
            *(self._requests.exists(path) for path in requests_),
            deadline=deadline,
        )
        for guard, stat in zip(guards, stats, strict=False):
            if stat is not None:  # a store without guards has no fence either
                builder.add(_RETRY, self._requests.check(guard, stat.version))
        versions = {}
        found = stats[len(guards) :]
        for (origin, (_, expect)), stat in zip(expected.items(), found, strict=True):
            is_right = stat is not None and self._is_same_node(expect, stat)
            versions[origin] = int(expect.rpartition(".")[2]) if is_right else IMPOSSIBLE_VERSION
        return versions

    def _is_same_node(self, expect: Version, stat: Stat) -> bool:
        head, _, count = expect.rpartition(".")
        is_number = count.isascii() and count.isdigit() and str(int(count)) == count
        return is_number and head == f"{self._fence.state.epoch}.{stat.czxid:x}"

    async def _present(self, operations: Sequence[Operation], deadline: float) -> dict[str, bool]:
        """Return for each ancestor of the operations' paths whether it exists."""
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
    """The existing ancestors while the operations are applied in order."""

    def __init__(self, present: dict[str, bool] | None) -> None:
        """``present`` is None if it is unknown; all ancestors are then assumed to exist."""
        self._present = present

    def missing(self, path: str) -> list[str]:
        """Return the missing ancestors, the highest first."""
        missing: list[str] = []
        if self._present is None:
            return missing
        ancestor = parent_of(path)
        while ancestor != "/" and not self._present[ancestor]:
            missing.append(ancestor)
            ancestor = parent_of(ancestor)
        return missing[::-1]

    def make(self, path: str) -> list[str]:
        """Return ``missing(path)``, and mark these ancestors and ``path`` as existing."""
        missing = self.missing(path)
        if self._present is not None:
            self._present.update(dict.fromkeys((*missing, path), True))
        return missing

    def deleted(self, path: str) -> None:
        """Mark ``path`` as deleted."""
        if self._present is not None:
            self._present[path] = False


def _expect_of(operation: Operation) -> Version | None:
    match operation:
        case Check(version=expect) | Put(expect=expect) | Delete(expect=expect):
            return expect
    return None
