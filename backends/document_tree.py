"""The tree of a ``DocumentStore``: its content as one JSON document."""

import json
from collections.abc import Iterable
from typing import Any

from ..core.protocol.errors import CorruptionError, NoNodeError
from ..core.runtime.metadata_store import Operation, Version
from .leases import Lease, Owner
from .migration_fence import FENCE_PATH, FenceState, decode_fence
from .transaction_plan import Node, TransactionPlan, child_prefix

CHANGES_MAX = 200
"""Changes that a document remembers for watches; a handle that missed more fires all of them."""


class DocumentTree:
    """Nodes, leases of sessions, migration fence, and the paths of the last changes."""

    def __init__(self, fence: FenceState) -> None:
        self.fence = fence
        self.revision = 0
        self.leases: dict[Owner, Lease] = {}
        self._rows: dict[str, tuple[str, int, str | None, int]] = {"/": ("", 0, None, 0)}
        """By path: data as Latin-1, revision of the last write, owner, next sequence number."""
        self._changes: list[tuple[int, str]] = []

    def encode(self) -> bytes:
        """Return the document."""
        document = {
            "fence": self.fence.encode().decode(),
            "revision": self.revision,
            "leases": self.leases,
            "nodes": self._rows,
            "changes": self._changes[-CHANGES_MAX:],
        }
        return json.dumps(document).encode()

    def node(self, path: str) -> Node | None:
        """Return the node at ``path``, or None."""
        row = self._rows.get(path)
        if row is None:
            return None
        data, revision, owner, sequence = row
        return Node(data.encode("latin-1"), self._version(revision), owner, sequence)

    def paths(self) -> list[str]:
        """Return the paths of all nodes."""
        return list(self._rows)

    def child_names(self, path: str, limit: int) -> list[str]:
        """Return the first ``limit`` names of children, in order."""
        return self.names_after(path, None, limit)

    def names_after(self, path: str, after: str | None, limit: int | None) -> list[str]:
        """Return at most ``limit`` names of children after ``after``. Raises NoNodeError."""
        if path not in self._rows:
            raise NoNodeError(path)
        prefix = child_prefix(path)
        below = (child[len(prefix) :] for child in self._rows if child.startswith(prefix))
        names = (name for name in below if name and "/" not in name)
        return sorted(name for name in names if after is None or name > after)[:limit]

    def apply(self, operations: Iterable[Operation]) -> Version:
        """Carry out a transaction and return the version of everything written."""
        plan = TransactionPlan(self)
        for operation in operations:
            plan.apply(operation)
        return self.commit(plan)

    def commit(self, plan: TransactionPlan) -> Version:
        """Carry out a plan and return the version of everything written."""
        self.revision += 1
        for path, change in plan.changes.items():
            if change.is_written:
                self._changes.append((self.revision, path))
            if change.data is None:
                del self._rows[path]
                continue
            revision = self.revision if change.is_written else self._rows[path][1]
            data = change.data.decode("latin-1")
            self._rows[path] = (data, revision, change.owner, change.sequence)
        return self._version(self.revision)

    def end_lease(self, owner: Owner) -> None:
        """Remove a lease and its nodes."""
        del self.leases[owner]
        plan = TransactionPlan(self)
        for path in [path for path, row in self._rows.items() if row[2] == owner]:
            plan.delete(path, None)
        self.commit(plan)

    def raise_sequence(self, path: str, number: int) -> None:
        """Make ``number`` the minimum number of the next sequential child."""
        *row, sequence = self._rows[path]
        self._rows[path] = (*row, max(sequence, number))  # type: ignore[assignment]

    def set_fence(self, fence: FenceState) -> None:
        """Open or close the tree. If the epoch is new, all nodes get new versions."""
        self.fence = fence
        self.revision += 1
        self._changes.append((self.revision, FENCE_PATH))

    def changed_since(self, revision: int) -> list[str] | None:
        """Return the paths changed after ``revision``; None if that is not remembered."""
        oldest = self._changes[0][0] if self._changes else self.revision + 1
        if revision > self.revision or revision + 1 < min(oldest, self.revision + 1):
            return None
        return [path for number, path in self._changes if number > revision]

    def _version(self, revision: int) -> Version:
        return Version(f"{self.fence.epoch}.{revision}")


def decode_tree(data: bytes, where: str) -> DocumentTree:
    """Return the tree of a document. Raises CorruptionError; ``where`` is for its text."""
    try:
        document: dict[str, Any] = json.loads(data)
        tree = DocumentTree(decode_fence(document["fence"].encode(), where))
        tree.revision = int(document["revision"])
        tree.leases = {Owner(owner): Lease(*row) for owner, row in document["leases"].items()}
        tree._rows = {path: tuple(row) for path, row in document["nodes"].items()}
        tree._changes = [(number, path) for number, path in document["changes"]]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptionError(f"{where} holds no metadata of Rhumbline: {error}") from error
    return tree
