"""The writes of a transaction, collected before they are sent."""

from .bindings import FdbTransaction

TRANSACTION_BYTES_MAX = 10_000_000
"""FoundationDB's limit of a transaction, conflict ranges included."""

_KEY_COPIES = 3
"""A key is sent once with its value, and twice as a conflict range."""

_OVERHEAD_BYTES = 64
"""Upper bound of what FoundationDB counts for a write besides its keys and its value."""


class Mutations:
    """The last write of each key: a value, a value with the versionstamp in it, or removal."""

    __slots__ = ("_stamped", "_values", "size_bytes")

    def __init__(self) -> None:
        self._values: dict[bytes, bytes | None] = {}
        self._stamped: dict[bytes, bytes] = {}
        self.size_bytes = 0
        """Upper bound of the size of the transaction."""

    def set(self, key: bytes, value: bytes) -> None:
        """Write a value."""
        self._stamped.pop(key, None)
        self._count(key, value)
        self._values[key] = value

    def clear(self, key: bytes) -> None:
        """Remove a key."""
        self._stamped.pop(key, None)
        self._count(key, b"")
        self._values[key] = None

    def stamp(self, key: bytes, param: bytes) -> None:
        """Write a value with the versionstamp; ``param`` as for ``set_versionstamped_value``."""
        if key not in self._stamped:
            self._values.pop(key, None)
            self._count(key, param)
        self._stamped[key] = param

    def update(self, later: "Mutations") -> None:
        """Add the writes of ``later``, which replace those of the same keys."""
        for key, value in later._values.items():
            self._stamped.pop(key, None)
            self._values[key] = value
        for key, param in later._stamped.items():
            self._values.pop(key, None)
            self._stamped[key] = param
        self.size_bytes += later.size_bytes

    def apply(self, transaction: FdbTransaction) -> None:
        """Write everything in a transaction."""
        for key, value in self._values.items():
            if value is None:
                transaction.clear(key)
            else:
                transaction.set(key, value)
        for key, param in self._stamped.items():
            transaction.set_versionstamped_value(key, param)

    def _count(self, key: bytes, value: bytes) -> None:
        self.size_bytes += _KEY_COPIES * len(key) + len(value) + _OVERHEAD_BYTES
