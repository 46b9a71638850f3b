"""A part of the tree, read beforehand: what a ``Plan`` needs where reading means waiting."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..core.runtime.metadata_store import Delete, Operation, parent_of
from .transaction_plan import Node


@dataclass(frozen=True, slots=True)
class Footprint:
    """What operations look at: nodes by path, and by parent how many child names suffice."""

    paths: tuple[str, ...]
    listings: dict[str, int]


def footprint(operations: Sequence[Operation]) -> Footprint:
    """The named paths with all their ancestors, and the children of what is to be deleted."""
    paths = dict.fromkeys(
        path for operation in operations for path in with_ancestors(operation.path)
    )
    limit = len(operations) + 1
    listings = {operation.path: limit for operation in operations if isinstance(operation, Delete)}
    return Footprint(tuple(paths), listings)


def with_ancestors(path: str) -> Iterable[str]:
    """``path`` and everything above it but the root, the highest first."""
    above = []
    while path != "/":
        above.append(path)
        path = parent_of(path)
    return reversed(above)


class Snapshot:
    """Nodes as they were at one moment. Asking for what was not read is a bug."""

    def __init__(
        self, root: Node, nodes: Mapping[str, Node | None], names: Mapping[str, list[str]]
    ) -> None:
        self.nodes = {"/": root, **nodes}
        self.names = names

    def node(self, path: str) -> Node | None:
        """The node at ``path``, or None."""
        return self.nodes[path]

    def child_names(self, path: str, limit: int) -> list[str]:
        """Up to ``limit`` names of children."""
        return self.names[path][:limit]
