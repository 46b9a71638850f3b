"""The metadata store: a small tree of versioned values, compare-and-set, sessions and watches.

Semantics that every backend keeps (the conformance kit tests them):

1. Paths are absolute, ``/``-separated, printable, without empty, ``.`` or ``..`` parts. The tree
   works like ZooKeeper's: the root is always there; ``create`` makes missing parents as empty
   persistent nodes; a node with children cannot be deleted; an ephemeral node has no children
   (InvalidArgumentError). Names under the root that begin with ``.rhumbline`` are the backend's.
2. Versions are opaque texts. A version is never equal to another version of the same path, also
   after the node was deleted and created again, and not across stores (they carry the store's
   epoch). Only equality means anything. Reading an unchanged node gives the version that its last
   write returned.
3. Reads are linearizable unless ``stale_ok`` says otherwise: they see every write that was
   acknowledged before they began. (ZooKeeper's are as good as its ``sync``; see there.)
4. ``txn`` is all or nothing, and nobody sees anything in between.
5. Watches are hints. They coalesce, may come late, twice or once without a change (also soon after
   they were set), and always fire once after a reconnect. Whoever is woken reads again. So: first
   ``watch``, then ``get``; what changes after that ``get`` fires.
6. A request that was certainly not carried out raises MetadataUnavailableError (retryable); a
   write whose outcome is unknown raises IndeterminateError. Reads never raise IndeterminateError.
   Every call has a deadline (the store's ``timeout_ms``); none waits for ever. Cancelling a call
   leaves the outcome of a write unknown.
7. A session's ephemeral nodes go when it is closed or expires, and not before its TTL has passed
   without contact. ``SessionLostError`` for whatever is asked of a session that is gone. A store
   may round a TTL to the nearest that it offers.
8. A value holds at most ``VALUE_BYTES_MAX`` bytes, a transaction at most
   ``TXN_OPERATIONS_MAX`` operations and ``TXN_BYTES_MAX`` bytes (LimitExceededError). After
   ``close``: ClosedError.
9. A store that was replaced by migration refuses writes, sessions and linearizable reads with
   StoreFencedError, which names its successor; ``stale_ok`` reads still answer. The handles that
   ``open_store`` gives go to the successor instead.
10. A store whose servers lost their data is a new, empty one: no version, session or node of the
   old life holds in it, and handles that were open go on with what is there now.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NewType, Protocol

from ..protocol.errors import InvalidArgumentError

Version = NewType("Version", str)

VALUE_BYTES_MAX = 96 * 1024
"""Largest value that every backend takes (FoundationDB's limit is 100,000 bytes)."""

TXN_OPERATIONS_MAX = 64
"""Most operations in one transaction (etcd's default limit is 128, with what we add)."""

TXN_BYTES_MAX = 768 * 1024
"""Most bytes of paths and data in one transaction (ZooKeeper takes packets below 1 MiB)."""

PATH_BYTES_MAX = 1024


class Value(NamedTuple):
    """What a node holds and its version."""

    data: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Check:
    """In a transaction: the node must have this version; None: it must not exist (but could)."""

    path: str
    version: Version | None


@dataclass(frozen=True, slots=True)
class Create:
    """In a transaction: the node must not exist and is made (missing parents too)."""

    path: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Put:
    """In a transaction: the node exists, has ``expect`` (None: any version), gets new data."""

    path: str
    data: bytes
    expect: Version | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """In a transaction: the node exists, has ``expect`` (None: any version), and goes."""

    path: str
    expect: Version | None = None


Operation = Check | Create | Put | Delete


class Watch(Protocol):
    """A standing interest in a node or prefix; ends with ``close``."""

    def close(self) -> None:
        """No further call of the callback. Safe to repeat."""
        ...


class Session(Protocol):
    """A lease of this process in the store; its ephemeral nodes vanish with it."""

    @property
    def is_lost(self) -> bool:
        """Whether the session is known to be gone (it may be gone before this says so)."""
        ...

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Calls back once when the session is lost (at once if it is already)."""
        ...

    async def close(self) -> None:
        """Ends the session and removes its ephemeral nodes. Safe to repeat."""
        ...


class MetadataStore(Protocol):
    """The store. One object per process and store; safe for many concurrent callers of one loop."""

    @property
    def uri(self) -> str:
        """The URI it was opened with, without secrets."""
        ...

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """The node's value. Raises NoNodeError, MetadataUnavailableError."""
        ...

    async def children(
        self, path: str, *, after: str | None = None, limit: int | None = None
    ) -> list[str]:
        """Names of the direct children in byte order, from behind ``after``, at most ``limit``.

        Raises NoNodeError when the node does not exist. A page is a consistent snapshot; several
        pages together need not be.
        """
        ...

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Makes a node and returns its path and version.

        ``sequential`` appends ten or more digits that rise with every sequential creation under
        the same parent and are never given twice while that parent exists. Raises
        NodeExistsError, SessionLostError, MetadataUnavailableError, IndeterminateError (then
        look for your own token in the data).
        """
        ...

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replaces a node's data. Raises NoNodeError, BadVersionError, ... as ``create``."""
        ...

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Removes a node. Raises NoNodeError, BadVersionError, NotEmptyError, ... as ``create``."""
        ...

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """All or nothing; the new version for each Create and Put, None for Check and Delete.

        The operations count as done in order: one may create the parent of a later one, or delete
        the last child of a node that a later one deletes. No path may be named twice. Raises the
        error of the first operation that does not hold (for Check with a version: NoNodeError or
        BadVersionError; with None: NodeExistsError), else as ``create``.
        """
        ...

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Calls back (from the loop) after the node changed, appeared or went.

        With ``prefix``: also for any node below it. The callback must be cheap and not raise.
        """
        ...

    async def session(self, ttl_ms: int) -> Session:
        """Opens a session that outlives silence of up to ``ttl_ms``."""
        ...

    async def close(self) -> None:
        """Closes connections and sessions. Safe to repeat."""
        ...


def check_path(path: str) -> str:
    """Returns ``path`` if it is well-formed. Raises InvalidArgumentError otherwise."""
    if path == "/":
        return path
    parts = path.split("/")
    if (
        not path.startswith("/")
        or not path.isprintable()
        or max(path) >= "\ufff0"
        or len(path.encode()) > PATH_BYTES_MAX
        or parts[1].startswith(".rhumbline")
        or any(part in ("", ".", "..") for part in parts[1:])
    ):
        raise InvalidArgumentError(f"bad metadata path {path[:80]!r}")
    return path


def parent_of(path: str) -> str:
    """The parent of a well-formed path; "/" is its own parent."""
    return path.rpartition("/")[0] or "/"
