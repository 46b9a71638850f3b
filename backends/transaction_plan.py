"""The effect of operations on the tree, computed from nodes that were read before any write.

Every backend whose server does not implement the tree itself (memory, SQLite, etcd, FoundationDB)
uses a ``TransactionPlan``. The plan applies operations in order to the nodes that were read, raises
the error of the first operation whose condition fails, and collects the changes to write. The rules
of the contract are thus implemented once; a backend adds only how to read and how to commit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ..core.protocol.errors import (
    BadVersionError,
    InvalidArgumentError,
    LimitExceededError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ..core.runtime.metadata_store import (
    TXN_BYTES_MAX,
    TXN_OPERATIONS_MAX,
    VALUE_BYTES_MAX,
    Check,
    Create,
    Delete,
    Operation,
    Put,
    Version,
    check_path,
    parent_of,
)

SEQUENCE_DIGITS = 10


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was read.

    ``owner`` is the session of an ephemeral node; ``sequence`` is the number of the next sequential
    child.
    """

    data: bytes
    version: Version
    owner: str | None = None
    sequence: int = 0


class Nodes(Protocol):
    """The nodes that a plan reads."""

    def node(self, path: str) -> Node | None:
        """Return the node at ``path``, or None."""
        ...

    def child_names(self, path: str, limit: int) -> list[str]:
        """Return any ``limit`` names of children, or all if there are fewer."""
        ...


class Change(NamedTuple):
    """The new state of a node.

    ``data`` is None if the node is deleted; ``sequence`` is the number of its next sequential
    child.
    """

    data: bytes | None
    owner: str | None
    sequence: int
    is_new: bool
    """True if the node did not exist when it was read."""
    is_written: bool
    """True if the node gets a new version; False if only its sequence number changes."""


class TransactionPlan:
    """Operations applied to nodes that were read. A plan that has raised must be discarded."""

    __slots__ = ("_before", "_nodes", "changes")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._before: dict[str, Node | None] = {}
        """The nodes that were read. Each is read once, which is a statement in SQLite."""
        self.changes: dict[str, Change] = {}

    def apply(self, operation: Operation) -> None:
        """Apply one operation of a transaction."""
        match operation:
            case Check(path, version):
                self.check(path, version)
            case Create(path, data):
                self.create(path, data)
            case Put(path, data, expect):
                self.put(path, data, expect)
            case Delete(path, expect):
                self.delete(path, expect)

    def node_before(self, path: str) -> Node | None:
        """Return the node as it was read, or None."""
        if path not in self._before:
            self._before[path] = self._nodes.node(path)
        return self._before[path]

    def check(self, path: str, version: Version | None) -> None:
        """Check that the node has this version; with None, that it does not exist but may."""
        if version is not None:
            self._expect(path, version)
            return
        if self._state(path) is not None:
            raise NodeExistsError(path)
        self._missing_parents(parent_of(path))

    def create(
        self, path: str, data: bytes, owner: str | None = None, *, sequential: bool = False
    ) -> str:
        """Create a node and its missing parents; return its path with any sequence digits."""
        parent = parent_of(path)
        self._make_parents(parent)
        if sequential:
            holder = self._state(parent)
            assert holder is not None, "parents were made above"
            path = f"{path}{holder.sequence:0{SEQUENCE_DIGITS}d}"
            self.changes[parent] = holder._replace(sequence=holder.sequence + 1)
        if self._state(path) is not None:
            raise NodeExistsError(path)
        self._write(path, data, owner)
        return path

    def put(self, path: str, data: bytes, expect: Version | None) -> None:
        """Replace the data of a node; it keeps its owner."""
        state = self._expect(path, expect)
        self.changes[path] = state._replace(data=data, is_written=True)

    def delete(self, path: str, expect: Version | None) -> None:
        """Delete a node without children."""
        state = self._expect(path, expect)
        if self._has_children(path):
            raise NotEmptyError(path)
        if self.node_before(path) is None:
            del self.changes[path]
        else:
            self.changes[path] = state._replace(data=None, is_written=True)

    def _make_parents(self, parent: str) -> None:
        for path in self._missing_parents(parent):
            self._write(path, b"", None)

    def _missing_parents(self, parent: str) -> list[str]:
        """Return missing ancestors, the highest first. Raises if one is below an ephemeral node."""
        missing = []
        while (state := self._state(parent)) is None:
            missing.append(parent)
            parent = parent_of(parent)
        if state.owner is not None:
            raise InvalidArgumentError(f"{parent} is ephemeral and cannot have children")
        return missing[::-1]

    def _write(self, path: str, data: bytes, owner: str | None) -> None:
        is_new = self.node_before(path) is None
        self.changes[path] = Change(data, owner, 0, is_new, is_written=True)

    def _state(self, path: str) -> Change | None:
        """Return the node after the operations so far; None if it does not exist."""
        change = self.changes.get(path)
        if change is None:
            node = self.node_before(path)
            if node is None:
                return None
            return Change(node.data, node.owner, node.sequence, is_new=False, is_written=False)
        return None if change.data is None else change

    def _expect(self, path: str, version: Version | None) -> Change:
        state = self._state(path)
        if state is None:
            raise NoNodeError(path)
        if version is not None:
            node = self.node_before(path)
            if node is None or state.is_written or node.version != version:
                raise BadVersionError(path)
        return state

    def _has_children(self, path: str) -> bool:
        prefix = child_prefix(path)
        deleted = set()
        for changed, change in self.changes.items():
            if changed.startswith(prefix) and "/" not in changed[len(prefix) :]:
                if change.data is not None:
                    return True
                deleted.add(changed[len(prefix) :])
        return any(name not in deleted for name in self._nodes.child_names(path, len(deleted) + 1))


def child_prefix(path: str) -> str:
    """Return the prefix of the paths of all nodes below ``path``."""
    return path if path == "/" else path + "/"


def check_operations(operations: Sequence[Operation]) -> None:
    """Check the paths and the limits of a transaction, and that each path occurs only once.

    Raises InvalidArgumentError, LimitExceededError.
    """
    if len(operations) > TXN_OPERATIONS_MAX:
        raise LimitExceededError(
            f"a transaction of {len(operations)} operations is above the limit of "
            f"{TXN_OPERATIONS_MAX}"
        )
    named: set[str] = set()
    size = 0
    for operation in operations:
        check_target(operation.path)
        size += len(operation.path)
        if operation.path in named:
            raise InvalidArgumentError(f"{operation.path} occurs twice in a transaction")
        named.add(operation.path)
        if isinstance(operation, Create | Put):
            check_data(operation.data)
            size += len(operation.data)
    if size > TXN_BYTES_MAX:
        raise LimitExceededError(
            f"a transaction of {size} bytes of paths and data is above the limit of "
            f"{TXN_BYTES_MAX} bytes"
        )


def check_target(path: str) -> None:
    """Check that a path may be written: it is well-formed and not the root."""
    if check_path(path) == "/":
        raise InvalidArgumentError("the root cannot be written")


def check_data(data: bytes) -> None:
    """Check the size of a value. Raises LimitExceededError."""
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceededError(
            f"a value of {len(data)} bytes is above the limit of {VALUE_BYTES_MAX} bytes"
        )


def versions_of(operations: Sequence[Operation], version: Version) -> list[Version | None]:
    """Return the result of a transaction in which all writes got the same version."""
    return [version if isinstance(operation, Create | Put) else None for operation in operations]
