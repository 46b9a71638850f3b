"""Decides what the writes of callers do in one transaction. Pure: reads and commits are elsewhere.

A request is decided from rows that were read before. If it needs a row that was not read,
``UnreadError`` names it, and all requests of the batch are decided again when it was.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple, Protocol

from ...core.protocol.errors import (
    LimitExceededError,
    MetadataUnavailableError,
    RhumblineError,
    SessionLostError,
)
from ...core.runtime.metadata_store import (
    Check,
    Create,
    Delete,
    Operation,
    Version,
    parent_of,
)
from ..leases import Owner
from ..migration_fence import FenceState, decode_fence
from ..snapshot import with_ancestors
from ..transaction_plan import SEQUENCE_DIGITS, Node, TransactionPlan
from .keys import ENDING, FdbKeys, decode_lease, decode_node, encode_node, encode_stamp
from .mutations import TRANSACTION_BYTES_MAX, Mutations

_PATH_COPIES = 8
"""A path is part of several keys, which are also conflict ranges."""


@dataclass(slots=True)
class Wanted:
    """Rows to be read: keys, and children of nodes up to a number for each."""

    keys: dict[bytes, None] = field(default_factory=dict)
    listings: dict[str, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.keys or self.listings)

    def add(self, other: "Wanted") -> None:
        """Add what ``other`` wants."""
        self.keys |= other.keys
        self.listings |= other.listings


class UnreadError(Exception):
    """A decision needs rows that were not read; raised within this package only."""

    def __init__(self, wanted: Wanted) -> None:
        super().__init__(f"{len(wanted.keys)} keys and {len(wanted.listings)} listings")
        self.wanted = wanted


class DeferredError(Exception):
    """A decision depends on what an earlier request of the batch writes."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that were read at one version, and names of children with the limit of the listing."""

    values: dict[bytes, bytes | None] = field(default_factory=dict)
    listings: dict[str, tuple[int, list[str]]] = field(default_factory=dict)


class BatchView:
    """The state that a request of a batch is decided on.

    It is what was read, plus the sequence numbers that earlier requests of the batch have used. The
    other writes of earlier requests have no version yet; reading them raises DeferredError.
    """

    def __init__(self, keys: FdbKeys, rows: Rows) -> None:
        self.keys = keys
        self._rows = rows
        self._counters: dict[bytes, bytes] = {}
        self._written: set[str] = set()
        self._changed_parents: set[str] = set()

    @cached_property
    def fence(self) -> FenceState:
        """The migration fence. Raises as ``fence_of``."""
        return fence_of(self._rows.values[self.keys.fence])

    def row(self, key: bytes) -> bytes | None:
        """Return the value of a key other than those of nodes."""
        if key in self._counters:
            return self._counters[key]
        if key not in self._rows.values:
            raise UnreadError(Wanted({key: None}))
        return self._rows.values[key]

    def node(self, path: str) -> Node | None:
        """Return the node at ``path``, or None if it does not exist."""
        if path == "/":
            return Node(b"", version_of(self.fence.epoch, b""))
        if path in self._written:
            raise DeferredError(path)
        key = self.keys.node(path)
        if key not in self._rows.values:
            raise UnreadError(self.unread_ancestors((path,)))
        value = self._rows.values[key]
        if value is None:
            return None
        stored = decode_node(value)
        return Node(stored.data, version_of(self.fence.epoch, stored.stamp), stored.owner)

    def unread_ancestors(self, paths: Iterable[str]) -> Wanted:
        """Return those of the nodes at ``paths``, and of their ancestors, that were not read."""
        keys = (self.keys.node(each) for path in paths for each in with_ancestors(path))
        return Wanted({key: None for key in keys if key not in self._rows.values})

    def child_names(self, path: str, limit: int) -> list[str]:
        """Return at most ``limit`` names of children."""
        if path in self._changed_parents:
            raise DeferredError(path)
        read_limit, names = self._rows.listings.get(path, (0, []))
        if limit > read_limit:
            raise UnreadError(Wanted(listings={path: limit}))
        return names[:limit]

    def use_counter(self, key: bytes, value: bytes) -> None:
        """Let later requests of the batch see a counter's new value."""
        self._counters[key] = value

    def accept(self, decision: "Decision") -> None:
        """Let later requests of the batch see that this one is carried out."""
        self._written.update(decision.paths)
        self._changed_parents.update(map(parent_of, decision.paths))


class Decision(NamedTuple):
    """The writes of a request, among them the nodes at ``paths``."""

    mutations: Mutations
    paths: tuple[str, ...]
    created: str = ""
    """The path of the node that a creation makes."""


class WriteRequest(Protocol):
    """A write of one caller."""

    @property
    def touches(self) -> frozenset[str]:
        """Paths, and marks of sequence counters. Requests that share one cannot run in parallel."""
        ...

    @property
    def size_bytes(self) -> int:
        """Estimated size of the request in a transaction."""
        ...

    def first_reads(self, keys: FdbKeys) -> Wanted:
        """Return the rows that the decision usually needs."""
        ...

    def decide(self, view: BatchView) -> Decision:
        """Return what is to be written.

        Raises UnreadError, DeferredError, and the errors with which the request is refused.
        """
        ...


@dataclass(frozen=True, slots=True)
class CommitRequest:
    """Operations that are carried out together.

    ``allowed_fence`` and ``sequences`` are those of ``MovableStore.load``.
    """

    operations: Sequence[Operation]
    allowed_fence: FenceState | None = None
    sequences: Mapping[str, int] = field(default_factory=dict)

    @property
    def touches(self) -> frozenset[str]:
        """The paths of the operations, and the counters."""
        paths = [operation.path for operation in self.operations]
        return frozenset((*paths, *map(counter_mark, self.sequences)))

    @property
    def size_bytes(self) -> int:
        """Estimated size of the request in a transaction."""
        return sum(
            len(getattr(each, "data", b"")) + _PATH_COPIES * len(each.path)
            for each in self.operations
        )

    def first_reads(self, keys: FdbKeys) -> Wanted:
        """Return the nodes, the parents of new ones, the children of deleted ones, and counters."""
        wanted = Wanted()
        limit = len(self.operations) + 1
        for operation in self.operations:
            wanted.keys[keys.node(operation.path)] = None
            if isinstance(operation, Delete):
                wanted.listings[operation.path] = limit
            elif isinstance(operation, Create) or operation == Check(operation.path, None):
                _want_parent(wanted, keys, operation.path)
        for parent in self.sequences:
            wanted.keys[keys.counter(parent)] = None
        return wanted

    def decide(self, view: BatchView) -> Decision:
        """Raises StoreFencedError, the error of the first operation that fails, and as above."""
        view.fence.check(self.allowed_fence)
        plan = TransactionPlan(view)
        try:
            for operation in self.operations:
                plan.apply(operation)
        except UnreadError as unread:  # the parents of further operations may be missing too
            unread.wanted.add(view.unread_ancestors(each.path for each in self.operations))
            raise
        mutations = _mutations_of(view.keys, plan)
        for parent, number in self.sequences.items():
            key = view.keys.counter(parent)
            if number > next_number(view.row(key)):
                mutations.set(key, b"%d" % number)
                view.use_counter(key, b"%d" % number)
        return Decision(mutations, tuple(plan.changes))


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The creation of one node, ephemeral if it has an owner."""

    path: str
    data: bytes
    owner: Owner | None
    is_sequential: bool

    @property
    def touches(self) -> frozenset[str]:
        """The path, or the counter of its parent."""
        path = self.path
        return frozenset((counter_mark(parent_of(path)) if self.is_sequential else path,))

    @property
    def size_bytes(self) -> int:
        """Estimated size of the request in a transaction."""
        return len(self.data) + _PATH_COPIES * len(self.path)

    def first_reads(self, keys: FdbKeys) -> Wanted:
        """Return the node or the counter, its parent, and the lease of the owner."""
        wanted = Wanted()
        if self.is_sequential:
            wanted.keys[keys.counter(parent_of(self.path))] = None
        else:
            wanted.keys[keys.node(self.path)] = None
        _want_parent(wanted, keys, self.path)
        if self.owner is not None:
            wanted.keys[keys.lease(self.owner)] = None
        return wanted

    def decide(self, view: BatchView) -> Decision:
        """Raises StoreFencedError, SessionLostError, NodeExistsError, and as above."""
        view.fence.check_open()
        if self.owner is not None:
            row = view.row(view.keys.lease(self.owner))
            if row is None or decode_lease(row).counter == ENDING:
                raise SessionLostError(f"session {self.owner} has ended")
        target, number = self.path, 0
        counter = view.keys.counter(parent_of(self.path))
        if self.is_sequential:
            number = next_number(view.row(counter))
            target = f"{self.path}{number:0{SEQUENCE_DIGITS}d}"
            # Now, not when it is accepted: the next request can then tell which node it needs.
            view.use_counter(counter, b"%d" % (number + 1))
        plan = TransactionPlan(view)
        plan.create(target, self.data, self.owner)
        mutations = _mutations_of(view.keys, plan)
        if self.is_sequential:
            mutations.set(counter, b"%d" % (number + 1))
        return Decision(mutations, tuple(plan.changes), target)


Outcome = Decision | RhumblineError | None
"""The result of a decision; None if the request must be repeated in a later batch."""


def decide_batch(
    view: BatchView, requests: Sequence[WriteRequest]
) -> tuple[list[Outcome], Mutations]:
    """Decide requests in order; return an outcome for each, and the writes of all that passed.

    Raises UnreadError with everything that the requests still need.
    """
    merged = Mutations()
    outcomes: list[Outcome] = []
    wanted = Wanted()
    for request in requests:
        outcome: Outcome = None
        try:
            outcome = _accepted(view, merged, request.decide(view))
        except UnreadError as unread:
            wanted.add(unread.wanted)
        except DeferredError:
            pass  # the outcome stays None
        except RhumblineError as error:
            outcome = error
        outcomes.append(outcome)
    if wanted:
        raise UnreadError(wanted)
    return outcomes, merged


def _accepted(view: BatchView, merged: Mutations, decision: Decision) -> Decision:
    """Add a decision to the batch. Raises DeferredError, LimitExceededError if it is too large."""
    size_bytes = decision.mutations.size_bytes
    if size_bytes > TRANSACTION_BYTES_MAX:
        raise LimitExceededError(
            f"a transaction that needs {size_bytes} bytes in FoundationDB, with all keys that its "
            f"paths need, is above the limit of {TRANSACTION_BYTES_MAX} bytes"
        )
    if merged.size_bytes + size_bytes > TRANSACTION_BYTES_MAX:
        raise DeferredError
    merged.update(decision.mutations)
    view.accept(decision)
    return decision


def fence_of(row: bytes | None) -> FenceState:
    """Return the migration fence from its row. Raises MetadataUnavailableError if there is none.

    Every open handle has written or seen a fence. Without one, the servers have lost their data.
    """
    if row is None:
        raise MetadataUnavailableError(
            "the metadata is no longer in FoundationDB: the store is being opened as a new one"
        )
    return decode_fence(row, "the migration fence in FoundationDB")


def version_of(epoch: str, stamp: bytes) -> Version:
    """Return the version of a node with the versionstamp ``stamp``."""
    return Version(f"{epoch}.{stamp.hex()}")


def next_number(row: bytes | None) -> int:
    """Return the number of the next sequential child from the row of the counter."""
    return 0 if row is None else int(row)


def counter_mark(parent: str) -> str:
    """Return the mark of a parent's sequence counter, which equals no path."""
    return parent + "/"


def remove_node(mutations: Mutations, keys: FdbKeys, path: str, owner: str | None) -> None:
    """Remove a node with its sequence counter, ownership mark and watch signal."""
    _signal(mutations, keys, (path,))
    _remove_rows(mutations, keys, path, owner)


def _want_parent(wanted: Wanted, keys: FdbKeys, path: str) -> None:
    parent = parent_of(path)
    if parent != "/":
        wanted.keys[keys.node(parent)] = None


def _mutations_of(keys: FdbKeys, plan: TransactionPlan) -> Mutations:
    mutations = Mutations()
    _signal(mutations, keys, plan.changes)
    for path, change in plan.changes.items():
        before = plan.node_before(path)
        previous_owner = before.owner if before is not None else None
        if change.data is None:
            _remove_rows(mutations, keys, path, previous_owner)
            continue
        mutations.stamp(keys.node(path), encode_node(change.owner, change.data))
        if previous_owner is not None and previous_owner != change.owner:
            mutations.clear(keys.owned(previous_owner, path))
        if change.owner is not None:
            mutations.set(keys.owned(change.owner, path), b"")
    return mutations


def _remove_rows(mutations: Mutations, keys: FdbKeys, path: str, owner: str | None) -> None:
    mutations.clear(keys.node(path))
    mutations.clear(keys.counter(path))
    mutations.clear(keys.signal(path))
    if owner is not None:
        mutations.clear(keys.owned(owner, path))


def _signal(mutations: Mutations, keys: FdbKeys, paths: Iterable[str]) -> None:
    """Write the signals for prefix watches at and above paths; blind writes never conflict."""
    signalled: set[str] = set()
    for path in paths:
        while path not in signalled:
            signalled.add(path)
            mutations.stamp(keys.signal(path), encode_stamp())
            path = parent_of(path)
