"""A part of the tree read in advance, for a ``TransactionPlan`` on a store with asynchronous reads.

A plan is synchronous; therefore everything that its operations may read is fetched first.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.runtime.metadata_store import Delete, Operation, parent_of
from .transaction_plan import Node


@dataclass(frozen=True, slots=True)
class Footprint:
    """The data that operations read: node paths, and a number of child names for each parent."""

    paths: tuple[str, ...]
    listings: dict[str, int]


def footprint(operations: Sequence[Operation]) -> Footprint:
    """Return the paths of the operations with all ancestors, and the parents to be listed.

    Only the children of nodes that are to be deleted are listed.
    """
    paths = dict.fromkeys(
        path for operation in operations for path in with_ancestors(operation.path)
    )
    limit = len(operations) + 1
    listings = {operation.path: limit for operation in operations if isinstance(operation, Delete)}
    return Footprint(tuple(paths), listings)


def with_ancestors(path: str) -> Iterable[str]:
    """Return ``path`` and its ancestors except the root, the highest first."""
    above = []
    while path != "/":
        above.append(path)
        path = parent_of(path)
    return reversed(above)


class Snapshot:
    """Nodes at one point in time; a request for a node that was not read raises KeyError."""

    def __init__(
        self, root: Node, nodes: Mapping[str, Node | None], names: Mapping[str, list[str]]
    ) -> None:
        self.nodes = {"/": root, **nodes}
        self.names = names

    def node(self, path: str) -> Node | None:
        """Return the node at ``path``, or None if it does not exist."""
        return self.nodes[path]

    def child_names(self, path: str, limit: int) -> list[str]:
        """Return at most ``limit`` names of children."""
        return self.names[path][:limit]
