"""The layout of etcd's keys.

The node ``/a/b/c`` has the key ``<prefix>/n/a/b//c``, with a double slash before the last name. The
direct children of a node, without their descendants, are thus one range of keys (``.../a/b//``),
and so is the whole subtree (``.../a/b/``). Besides the nodes there are ``<prefix>/s/a/b``, the
number of the next sequential child of ``/a/b``, and ``<prefix>/gate``, the migration fence.
"""

from typing import NamedTuple

from ...core.runtime.metadata_store import parent_of
from ..migration_fence import FENCE_PATH


class EtcdKeyRange(NamedTuple):
    """A half-open range of keys: ``start`` is included, ``end`` is not."""

    start: bytes
    end: bytes


class EtcdKeys:
    """The keys of one store, all below its prefix."""

    def __init__(self, prefix: str) -> None:
        self._nodes = f"{prefix}/n"
        self._sequences = f"{prefix}/s"
        self.fence = f"{prefix}/gate".encode()

    def node(self, path: str) -> bytes:
        """Return the key of a node; the root has none."""
        assert path != "/", "the root has no key"
        if path == FENCE_PATH:
            return self.fence
        return f"{self._container(parent_of(path))}//{path.rpartition('/')[2]}".encode()

    def path(self, key: bytes) -> str:
        """Return the path of a node's key."""
        if key == self.fence:
            return FENCE_PATH
        parent, _, name = key.decode().removeprefix(self._nodes).rpartition("//")
        return f"{parent}/{name}"

    def sequence(self, parent: str) -> bytes:
        """Return the key of a parent's sequence counter."""
        return f"{self._sequences}{parent}".encode()

    def counters(self) -> EtcdKeyRange:
        """Return the key range of all sequence counters."""
        return EtcdKeyRange(f"{self._sequences}/".encode(), _prefix_end(f"{self._sequences}/"))

    def counter_parent(self, key: bytes) -> str:
        """Return the parent whose sequence counter has this key."""
        return key.decode().removeprefix(self._sequences)

    def children(self, path: str, after: str | None = None) -> EtcdKeyRange:
        """Return the key range of the direct children after the name ``after``."""
        first = f"{self._container(path)}//"
        start = first if after is None else f"{first}{after}\x00"
        return EtcdKeyRange(start.encode(), _prefix_end(first))

    def child_name(self, key: bytes) -> str:
        """Return the last name in a node's key."""
        return key.decode().rpartition("//")[2]

    def subtree(self, path: str) -> EtcdKeyRange:
        """Return the key range of everything below a node."""
        first = f"{self._container(path)}/"
        return EtcdKeyRange(first.encode(), _prefix_end(first))

    def _container(self, path: str) -> str:
        return self._nodes if path == "/" else f"{self._nodes}{path}"


def _prefix_end(prefix: str) -> bytes:
    """Return the first key after all keys with ``prefix``, which ends in a slash."""
    assert prefix.endswith("/")
    return prefix[:-1].encode() + b"0"
