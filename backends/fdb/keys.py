"""The layout of keys and values in FoundationDB, below the store's prefix.

| key | value |
|---|---|
| ``n`` parent 0 name | a node: see ``encode_node`` |
| ``c`` path | the number of the next sequential child, decimal |
| ``s`` path | versionstamp of the last change at or below the path, for prefix watches |
| ``l`` owner | a lease: TTL and counter (all ones while it is being ended) |
| ``o`` owner 0 path | a mark: the node is ephemeral and belongs to that owner |
| ``t`` token | versionstamp: the write with that token was committed |
| ``g`` | the migration fence: JSON, see ``..migration_fence`` |

0 stands for a zero byte, which no path contains.
"""

import struct
from typing import NamedTuple

from ...core.protocol.errors import CorruptionError
from ...core.runtime.metadata_store import parent_of
from ..leases import Lease, Owner

STAMP_BYTES = 10
_NO_STAMP = b"\xff" * STAMP_BYTES
_STAMP_AT_START = struct.pack("<I", 0)
_LEASE = struct.Struct("<QQ")

ENDING = (1 << 64) - 1
"""The counter of a lease whose nodes are being removed."""


class FdbKeyRange(NamedTuple):
    """A half-open range of keys: ``start`` is included, ``end`` is not."""

    start: bytes
    end: bytes


class StoredNode(NamedTuple):
    """The decoded value of a node."""

    stamp: bytes
    owner: str | None
    data: bytes


class FdbKeys:
    """The keys of one store, all below its prefix."""

    def __init__(self, prefix: bytes) -> None:
        self.use_prefix(prefix)

    def use_prefix(self, prefix: bytes) -> None:
        """Put all keys below another prefix."""
        self._prefix = prefix
        self.fence = prefix + b"g"
        self.leases = FdbKeyRange(prefix + b"l", prefix + b"m")

    def node(self, path: str) -> bytes:
        """Return the key of a node; the root has none."""
        assert path != "/", "the root has no key"
        name = path.rpartition("/")[2]
        return b"%sn%s\x00%s" % (self._prefix, parent_of(path).encode(), name.encode())

    def nodes(self) -> FdbKeyRange:
        """Return the key range of all nodes."""
        return FdbKeyRange(self._prefix + b"n", self._prefix + b"o")

    def path(self, key: bytes) -> str:
        """Return the path of a node's key."""
        parent, _, name = key[len(self._prefix) + 1 :].partition(b"\x00")
        above = "" if parent == b"/" else parent.decode()
        return f"{above}/{name.decode()}"

    def counters(self) -> FdbKeyRange:
        """Return the key range of all sequence counters."""
        return FdbKeyRange(self._prefix + b"c", self._prefix + b"d")

    def counter_parent(self, key: bytes) -> str:
        """Return the parent whose sequence counter has this key."""
        return key[len(self._prefix) + 1 :].decode()

    def children(self, path: str, after: str | None = None) -> FdbKeyRange:
        """Return the key range of the direct children after the name ``after``."""
        first = b"%sn%s\x00" % (self._prefix, path.encode())
        start = first if after is None else first + after.encode() + b"\x00"
        return FdbKeyRange(start, first[:-1] + b"\x01")

    def child_name(self, key: bytes) -> str:
        """Return the name in a node's key."""
        return key.rpartition(b"\x00")[2].decode()

    def counter(self, path: str) -> bytes:
        """Return the key of a parent's sequence counter."""
        return self._prefix + b"c" + path.encode()

    def signal(self, path: str) -> bytes:
        """Return the key that changes with every write at or below a path."""
        return self._prefix + b"s" + path.encode()

    def lease(self, owner: Owner) -> bytes:
        """Return the key of a lease."""
        return self._prefix + b"l" + owner.encode()

    def lease_owner(self, key: bytes) -> Owner:
        """Return the owner in a lease's key."""
        return Owner(key[len(self._prefix) + 1 :].decode())

    def owned(self, owner: str, path: str) -> bytes:
        """Return the key of the mark that a node belongs to an owner."""
        return b"%so%s\x00%s" % (self._prefix, owner.encode(), path.encode())

    def all_owned(self, owner: str) -> FdbKeyRange:
        """Return the key range of the marks of an owner."""
        first = b"%so%s\x00" % (self._prefix, owner.encode())
        return FdbKeyRange(first, first[:-1] + b"\x01")

    def owned_path(self, key: bytes) -> str:
        """Return the path in the key of a mark."""
        return key.rpartition(b"\x00")[2].decode()

    def token(self, token: bytes) -> bytes:
        """Return the key of a write's token."""
        return self._prefix + b"t" + token


def key_after(key: bytes) -> bytes:
    """Return the first key after ``key``."""
    return key + b"\x00"


def version_of_stamp(stamp: bytes) -> int:
    """Return the version at which a versionstamp was committed."""
    return int.from_bytes(stamp[:8], "big")


def encode_node(owner: str | None, data: bytes) -> bytes:
    """Return a node's value as the parameter of a versionstamped write; the stamp comes first."""
    name = (owner or "").encode()
    return b"".join((_NO_STAMP, bytes((len(name),)), name, data, _STAMP_AT_START))


def encode_stamp() -> bytes:
    """Return the parameter of a versionstamped write of only the stamp."""
    return _NO_STAMP + _STAMP_AT_START


def decode_node(value: bytes) -> StoredNode:
    """Decode a node's value. Raises CorruptionError."""
    if len(value) <= STAMP_BYTES or len(value) < STAMP_BYTES + 1 + value[STAMP_BYTES]:
        raise CorruptionError(f"a node in FoundationDB is truncated at {len(value)} bytes")
    start = STAMP_BYTES + 1
    end = start + value[STAMP_BYTES]
    return StoredNode(value[:STAMP_BYTES], value[start:end].decode() or None, value[end:])


def encode_lease(lease: Lease) -> bytes:
    """Return the value of a lease."""
    return _LEASE.pack(lease.ttl_ms, lease.counter)


def decode_lease(value: bytes) -> Lease:
    """Decode a lease. Raises CorruptionError."""
    if len(value) != _LEASE.size:
        raise CorruptionError(
            f"a lease in FoundationDB has {len(value)} bytes instead of {_LEASE.size}"
        )
    return Lease(*_LEASE.unpack(value))
