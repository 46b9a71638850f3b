"""Copies a metadata store that is in use to a backup (rule BAK-8).

A scan of a store is not a snapshot. The store is therefore scanned repeatedly. What belongs
together is a *group*: all nodes of a stream, or any other node alone. A group whose nodes have the
same versions in two scans, one after the other, had exactly this state between them, because no
version ever repeats. The backup has this state of each group. It is complete when every group was
unchanged once and every segment in it has the ledger that it names.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from ..backends.migration_fence import MovableStore
from ..core.log.metadata.paths import ROOT as NAMESPACES
from ..core.metadata.cluster_layout import Paths
from ..core.protocol.errors import (
    CorruptionError,
    MetadataUnavailableError,
    StoreFencedError,
    WrongClusterError,
)
from ..core.protocol.segments import decode_segment
from ..core.runtime.clock import Clock
from ..core.runtime.metadata_store import Version
from .backup import Backup

SCANS_MAX = 32
_PAUSE_S = 0.05
_STREAM_PARTS = 4
"""Parts of a path below the root of namespaces that begin a stream: name, "streams", name."""


class ScannedNode(NamedTuple):
    """A persistent node as a scan found it."""

    data: bytes
    version: Version


Group = dict[str, ScannedNode]


class CollectProgress(NamedTuple):
    """The progress of a backup: scans so far, nodes, and groups that changed until now."""

    scans: int
    nodes: int
    unsettled: int


def _is_reservation(path: str) -> bool:
    """True for the nodes that reserve ledger ids: only the next number counts."""
    parent, _, name = path.rpartition("/")
    is_short = parent == Paths().ids
    return name.startswith("ID-") and (is_short or parent.startswith(f"{Paths().long_ids}/"))


def group_of(path: str) -> str:
    """Return the name of a node's group."""
    if not path.startswith(f"{NAMESPACES}/"):
        return path
    parts = path.removeprefix(f"{NAMESPACES}/").split("/")
    is_in_stream = len(parts) >= 3 and parts[1] == "streams"
    return "/".join([NAMESPACES, *parts[:3]]) if is_in_stream else path


class Collection:
    """The groups that are settled, fed with one scan after the other."""

    def __init__(self) -> None:
        self._last: dict[str, Group] = {}
        self.settled: dict[str, Group] = {}
        self.unsettled = 0
        self._required: frozenset[str] | None = None

    def add(self, nodes: Group) -> bool:
        """Take the nodes of a scan; return True if the collection is complete.

        A group that is settled stays as it is, until a reference shows that it is too old. What
        was created after the first scan is part of the collection only if it is referenced.
        """
        groups: dict[str, Group] = {}
        for path, node in nodes.items():
            groups.setdefault(group_of(path), {})[path] = node
        for name, group in groups.items():
            if name not in self.settled and _are_same(group, self._last.get(name)):
                self.settled[name] = group
        stale = dict.fromkeys(self._stale_references())
        for name in stale:
            del self.settled[name]
        if self._required is None:
            self._required = frozenset(groups)
        self.unsettled = sum(
            name in groups and name not in self.settled for name in self._required | stale.keys()
        )
        self._last = groups
        return self.unsettled == 0

    def nodes(self) -> dict[str, bytes]:
        """Return the nodes of the settled groups."""
        return {path: node.data for group in self.settled.values() for path, node in group.items()}

    def _stale_references(self) -> list[str]:
        """Return the groups of streams with a segment whose ledger is in no settled group.

        The ledger was created after its group was looked for, or was deleted before. Both change
        the stream: the next scans find its new state.
        """
        paths = Paths()
        stale = []
        for name, group in self.settled.items():
            for path, node in group.items():
                head, _, number = path.rpartition("/")
                if head != f"{name}/segments":
                    continue
                segment = decode_segment(int(number), node.data)
                has_ledger = segment.ledger_id >= 0 and not segment.is_archive_only
                if has_ledger and paths.ledger(segment.ledger_id) not in self.settled:
                    stale.append(name)
                    break
        return stale


def _are_same(group: Group, other: Group | None) -> bool:
    return other is not None and {path: node.version for path, node in group.items()} == {
        path: node.version for path, node in other.items()
    }


async def collect_backup(
    store: MovableStore,
    clock: Clock,
    on_progress: Callable[[CollectProgress], None] = lambda _: None,
) -> Backup:
    """Return a backup of a store that is in use.

    Raises StoreFencedError (the store was replaced, or is incomplete), WrongClusterError (it holds
    no cluster), CorruptionError, MetadataUnavailableError (it cannot be reached, or some streams
    change during every scan).
    """
    began_ms = clock.wall_ms()
    before = await store.fence_state()
    before.check_open()
    collection, sequences = Collection(), dict[str, int]()
    for scans in range(1, SCANS_MAX + 1):
        nodes: Group = {}
        async for page in store.scan():
            for path, node in page:
                if node.owner is None and path != "/" and not _is_reservation(path):
                    nodes[path] = ScannedNode(node.data, node.version)
                if node.sequence and node.owner is None:
                    sequences[path] = max(node.sequence, sequences.get(path, 0))
        is_complete = collection.add(nodes)
        on_progress(CollectProgress(scans, len(nodes), collection.unsettled))
        if is_complete:
            break
        await asyncio.sleep(_PAUSE_S)
    else:
        raise MetadataUnavailableError(
            f"{store.uri}: {collection.unsettled} streams changed during each of {SCANS_MAX} scans"
        )
    if await store.fence_state() != before:
        raise StoreFencedError(f"{store.uri} was replaced during the backup")
    found = collection.nodes()
    instance = found.get(Paths().instance_id)
    if instance is None:
        raise WrongClusterError(f"{store.uri} holds no cluster")
    try:
        instance_id = instance.decode("ascii")
    except UnicodeDecodeError as error:
        raise CorruptionError(f"{store.uri}: bad instance id {instance!r}") from error
    return Backup(store.uri, instance_id, began_ms, clock.wall_ms(), found, sequences)
