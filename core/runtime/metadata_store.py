"""The metadata store interface: a tree of versioned values, compare-and-set, sessions and watches.

An implementation MUST provide the following guarantees. The conformance kit in
``backends/conformance`` tests them.

1. Paths. A path is absolute and printable; its parts are separated by ``/`` and are never empty,
   ``.`` or ``..``. The tree works like ZooKeeper's: the root always exists; ``create`` creates
   missing parents as empty persistent nodes; a node with children cannot be deleted; an ephemeral
   node cannot have children (InvalidArgumentError). Names below the root that begin with
   ``.rhumbline`` are reserved for the implementation.
2. Versions. A version is an opaque string that is only compared for equality. Two versions of one
   path are never equal, even if the node was deleted and created again in between, and even across
   stores (versions carry the store's epoch). Reading an unchanged node returns the version that its
   last write returned.
3. Reads. A read is linearizable unless ``stale_ok`` is set: it sees every write that was
   acknowledged before the read began. (ZooKeeper's reads are as good as its ``sync``; its backend
   describes the difference.) A read with ``stale_ok`` may see an older state, and needs no majority
   of the servers if the store can respond without it.
4. Transactions. ``txn`` is carried out completely or not at all, and no reader sees a part of it.
5. Watches. A watch is a hint to read again. Calls are coalesced, may come late, and may come twice
   or without a change (also soon after the watch was set). A watch always fires once after a
   reconnect. A caller first sets the watch, then reads: every change after that read fires.
6. Outcomes. A request that was certainly not carried out raises MetadataUnavailableError, which is
   retryable. A write whose outcome is unknown raises IndeterminateError; a read never does. Every
   call ends within the store's ``timeout_ms``. Cancelling a write leaves its outcome unknown.
7. Sessions. A session's ephemeral nodes are removed when it is closed or expires. It does not
   expire before its TTL has passed without contact; a store may round the TTL to the nearest value
   that it supports. Using a lost session raises SessionLostError.
8. Limits. A value has at most ``VALUE_BYTES_MAX`` bytes; a transaction has at most
   ``TXN_OPERATIONS_MAX`` operations and ``TXN_BYTES_MAX`` bytes. Anything larger raises
   LimitExceededError. After ``close`` every call raises ClosedError.
9. Migration. A store that a migration has replaced refuses writes, sessions and linearizable reads
   with StoreFencedError, which names its successor. Reads with ``stale_ok`` still work. Handles
   from ``open_store`` continue with the successor instead.
10. Data loss. A store whose servers lost their data is a new, empty store: no version, session or
    node of the old one is valid in it. Open handles continue with its current content.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, NewType, Protocol

from ..protocol.errors import InvalidArgumentError

Version = NewType("Version", str)
"""The version of a node: an opaque string that is only compared for equality."""

VALUE_BYTES_MAX = 96 * 1024
"""Largest value in bytes that every backend accepts (FoundationDB's limit is 100,000)."""

TXN_OPERATIONS_MAX = 64
"""Maximum operations in one transaction (etcd's default limit is 128; its backend adds some)."""

TXN_BYTES_MAX = 768 * 1024
"""Maximum bytes of paths and data in one transaction (ZooKeeper accepts packets below 1 MiB)."""

PATH_BYTES_MAX = 1024


class Value(NamedTuple):
    """The data of a node and its version."""

    data: bytes
    version: Version


@dataclass(frozen=True, slots=True)
class Check:
    """Transaction step: the node must have this version (None: it must not exist)."""

    path: str
    version: Version | None


@dataclass(frozen=True, slots=True)
class Create:
    """Transaction step: the node must not exist; it is created, with missing parents."""

    path: str
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Put:
    """Transaction step: the node must exist with ``expect`` (None: any version) and is changed."""

    path: str
    data: bytes
    expect: Version | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Transaction step: the node must exist with ``expect`` (None: any version) and is deleted."""

    path: str
    expect: Version | None = None


Operation = Check | Create | Put | Delete
"""A step of a transaction."""


class Watch(Protocol):
    """A registered callback for a node or prefix; it ends with ``close``."""

    def close(self) -> None:
        """Stop the watch: the callback is no longer called. Safe to repeat."""
        ...


class Session(Protocol):
    """A lease of this process in the store; its ephemeral nodes are removed with it."""

    @property
    def is_lost(self) -> bool:
        """True if the session is known to be lost; the store may have ended it earlier."""
        ...

    def on_lost(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once when the session is lost; immediately if it is lost already."""
        ...

    async def close(self) -> None:
        """End the session and remove its ephemeral nodes. Safe to repeat.

        If the store cannot be reached or the call is cancelled, the session is no longer renewed,
        so that it expires.
        """
        ...


class MetadataReads(Protocol):
    """The part of a metadata store that reads; a ``ReadOnlyStore`` has no other methods."""

    @property
    def uri(self) -> str:
        """The URI that the store was opened with, without secrets."""
        ...

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """Return the node's value. Raises NoNodeError, MetadataUnavailableError."""
        ...

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """Return the values of several nodes, None for each that does not exist.

        A store does this in one round trip if it can. No value is older than one of an earlier
        path. Raises MetadataUnavailableError.
        """
        ...

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """Return the names of the direct children after ``after``, at most ``limit``.

        Names are in byte order. One call returns a consistent snapshot (in FoundationDB only if it
        takes less than two seconds); several calls together need not. Raises NoNodeError,
        MetadataUnavailableError.
        """
        ...

    def is_newer(self, version: Version, than: Version) -> bool:
        """Return True if a node had the version ``than`` first and ``version`` later.

        Both are versions of one path. False if the store cannot tell, for example because the
        versions have different epochs.
        """
        ...

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """Call ``callback``, from the event loop, after the node was created, changed or deleted.

        With ``prefix`` this also holds for every node below it. The callback must be cheap and must
        not raise.
        """
        ...


class MetadataStore(MetadataReads, Protocol):
    """An open metadata store. One instance serves many concurrent callers of one event loop."""

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """Create a node and return its path and version.

        ``sequential`` appends ten or more digits to the name. They increase with every sequential
        creation under the same parent and are never used twice while that parent exists. Raises
        NodeExistsError, SessionLostError, MetadataUnavailableError, IndeterminateError (the caller
        then searches the data for its own token).
        """
        ...

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """Replace a node's data and return the new version.

        Raises NoNodeError, BadVersionError, MetadataUnavailableError, IndeterminateError.
        """
        ...

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """Delete a node.

        Raises NoNodeError, BadVersionError, NotEmptyError, MetadataUnavailableError,
        IndeterminateError.
        """
        ...

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """Carry out all operations or none; return the new version of each Create and Put, or None.

        The operations take effect in order: one may create the parent of a later one, or delete the
        last child of a node that a later one deletes. No path may occur twice. Raises the error of
        the first operation whose condition fails (Check with a version: NoNodeError or
        BadVersionError; Check with None: NodeExistsError), MetadataUnavailableError,
        IndeterminateError.
        """
        ...

    async def session(self, ttl_ms: int) -> Session:
        """Open a session that survives up to ``ttl_ms`` without contact."""
        ...

    async def close(self) -> None:
        """Close connections and sessions. Safe to repeat."""
        ...


_WRONG_NAMES = ("//", "/./", "/../")


def check_path(path: str) -> str:
    """Return ``path`` if it is well-formed. Raises InvalidArgumentError otherwise."""
    if path == "/":
        return path
    names = path + "/"
    if (
        not path.startswith("/")
        or not path.isprintable()
        or not (path.isascii() or max(path) < "\ufff0")
        or len(path.encode()) > PATH_BYTES_MAX
        or path.startswith("/.rhumbline")
        or any(wrong in names for wrong in _WRONG_NAMES)
    ):
        raise InvalidArgumentError(f"bad metadata path {path[:80]!r}")
    return path


def parent_of(path: str) -> str:
    """Return the parent of a well-formed path; "/" is its own parent."""
    return path.rpartition("/")[0] or "/"
