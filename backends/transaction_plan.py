"""What operations do to the tree, decided on what was read before anything is written.

Every backend that is not itself a tree (memory, SQLite, etcd, FoundationDB) runs its operations
through a ``TransactionPlan``: it applies them in order to a view over the nodes that were read,
raises the error of the first operation that cannot be applied, and ends with the list of changes to
write. So the rules of the contract are implemented once, and each backend adds only how to read and
how to commit.
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
    """A node as it was read: ``owner`` is the session of an ephemeral one, ``sequence`` the number
    that the next sequential child gets."""

    data: bytes
    version: Version
    owner: str | None = None
    sequence: int = 0


class Nodes(Protocol):
    """What a plan reads."""

    def node(self, path: str) -> Node | None:
        """The node at ``path``, or None."""
        ...

    def child_names(self, path: str, limit: int) -> list[str]:
        """Up to ``limit`` names of children, any of them."""
        ...


class Change(NamedTuple):
    """What a node becomes. ``data`` None: it goes. ``sequence``: its next child's number."""

    data: bytes | None
    owner: str | None
    sequence: int
    is_new: bool
    """It did not exist when it was read."""
    is_written: bool
    """It gets a new version (False: only its sequence moved on)."""


class TransactionPlan:
    """Operations applied to a view. A plan that raised is worthless; nothing was written."""

    __slots__ = ("_nodes", "changes")

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self.changes: dict[str, Change] = {}

    def apply(self, operation: Operation) -> None:
        """One operation of a transaction."""
        match operation:
            case Check(path, version):
                self.check(path, version)
            case Create(path, data):
                self.create(path, data)
            case Put(path, data, expect):
                self.put(path, data, expect)
            case Delete(path, expect):
                self.delete(path, expect)

    def before(self, path: str) -> Node | None:
        """The node as it was read."""
        return self._nodes.node(path)

    def check(self, path: str, version: Version | None) -> None:
        """The node has this version, or with None does not exist (but could)."""
        if version is not None:
            self._expect(path, version)
            return
        if self._state(path) is not None:
            raise NodeExistsError(path)
        self._missing_parents(parent_of(path))

    def create(
        self, path: str, data: bytes, owner: str | None = None, *, sequential: bool = False
    ) -> str:
        """Makes a node and its missing parents; returns its path with the digits of a sequence."""
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
        """Replaces the data of a node; it keeps its owner."""
        state = self._expect(path, expect)
        self.changes[path] = state._replace(data=data, is_written=True)

    def delete(self, path: str, expect: Version | None) -> None:
        """Removes a node that has no children."""
        state = self._expect(path, expect)
        if self._has_children(path):
            raise NotEmptyError(path)
        if self._nodes.node(path) is None:
            del self.changes[path]
        else:
            self.changes[path] = state._replace(data=None, is_written=True)

    def _make_parents(self, parent: str) -> None:
        for path in self._missing_parents(parent):
            self._write(path, b"", None)

    def _missing_parents(self, parent: str) -> list[str]:
        """Those that are not there, the highest first; none may be below an ephemeral node."""
        missing = []
        while (state := self._state(parent)) is None:
            missing.append(parent)
            parent = parent_of(parent)
        if state.owner is not None:
            raise InvalidArgumentError(f"{parent} is ephemeral and can have no children")
        return missing[::-1]

    def _write(self, path: str, data: bytes, owner: str | None) -> None:
        is_new = self._nodes.node(path) is None
        self.changes[path] = Change(data, owner, 0, is_new, is_written=True)

    def _state(self, path: str) -> Change | None:
        """The node as the operations so far leave it, in the form of a change; None: not there."""
        change = self.changes.get(path)
        if change is None:
            node = self._nodes.node(path)
            if node is None:
                return None
            return Change(node.data, node.owner, node.sequence, is_new=False, is_written=False)
        return None if change.data is None else change

    def _expect(self, path: str, version: Version | None) -> Change:
        state = self._state(path)
        if state is None:
            raise NoNodeError(path)
        if version is not None:
            node = self._nodes.node(path)
            if node is None or state.is_written or node.version != version:
                raise BadVersionError(path)
        return state

    def _has_children(self, path: str) -> bool:
        prefix = child_prefix(path)
        gone = set()
        for changed, change in self.changes.items():
            if changed.startswith(prefix) and "/" not in changed[len(prefix) :]:
                if change.data is not None:
                    return True
                gone.add(changed[len(prefix) :])
        return any(name not in gone for name in self._nodes.child_names(path, len(gone) + 1))


def child_prefix(path: str) -> str:
    """What the paths of all nodes below ``path`` begin with."""
    return path if path == "/" else path + "/"


def check_operations(operations: Sequence[Operation]) -> None:
    """Refuses what no store may take: bad paths, too many or too large operations, a path twice."""
    if len(operations) > TXN_OPERATIONS_MAX:
        raise LimitExceededError(
            f"{len(operations)} operations in a transaction; the limit is {TXN_OPERATIONS_MAX}"
        )
    named: set[str] = set()
    size = 0
    for operation in operations:
        check_target(operation.path)
        size += len(operation.path)
        if operation.path in named:
            raise InvalidArgumentError(f"{operation.path} is named twice in a transaction")
        named.add(operation.path)
        if isinstance(operation, Create | Put):
            check_data(operation.data)
            size += len(operation.data)
    if size > TXN_BYTES_MAX:
        raise LimitExceededError(
            f"a transaction of {size} bytes in paths and data; the limit is {TXN_BYTES_MAX}"
        )


def check_target(path: str) -> None:
    """A path that may be written: well-formed and not the root."""
    if check_path(path) == "/":
        raise InvalidArgumentError("the root cannot be written")


def check_data(data: bytes) -> None:
    """Refuses a value above the limit."""
    if len(data) > VALUE_BYTES_MAX:
        raise LimitExceededError(f"a value of {len(data)} bytes; the limit is {VALUE_BYTES_MAX}")


def versions_of(operations: Sequence[Operation], version: Version) -> list[Version | None]:
    """The answer of a transaction whose writes all got one version."""
    return [version if isinstance(operation, Create | Put) else None for operation in operations]
