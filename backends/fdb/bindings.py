"""The part of FoundationDB's Python bindings that this package uses, as protocols.

The same code thus runs on the tests' model of FoundationDB's transactions.
"""

from collections.abc import Callable
from typing import Any, Protocol

WANT_ALL = -2
"""``fdb.StreamingMode.want_all``."""


class FdbFuture(Protocol):
    """A future of the bindings."""

    def is_ready(self) -> bool:
        """Return whether ``wait`` returns at once."""
        ...

    def on_ready(self, callback: "Callable[[FdbFuture], None]") -> None:
        """Call ``callback`` once, from any thread."""
        ...

    def wait(self) -> Any:  # noqa: ANN401 - each call has its own type
        """Return the result or raise the error; blocks until the future is ready."""
        ...

    def cancel(self) -> None:
        """Cancel the operation."""
        ...


class FdbTransaction(Protocol):
    """The methods of a transaction of the bindings that this package uses."""

    options: Any

    def set_read_version(self, version: int) -> None:
        """Read at this version instead of requesting the current one."""
        ...

    def get(self, key: bytes) -> FdbFuture:
        """Read a key; the result is an object whose ``value`` is the value, or None."""
        ...

    def _get_range(
        self, begin: object, end: object, limit: int, mode: int, iteration: int, reverse: bool
    ) -> FdbFuture:
        """Read a range; the result is (key-value pairs, their count, True if there are more)."""
        ...

    def set(self, key: bytes, value: bytes) -> None:
        """Write a key."""
        ...

    def set_versionstamped_value(self, key: bytes, param: bytes) -> None:
        """Write a key with the transaction's versionstamp in its value."""
        ...

    def clear(self, key: bytes) -> None:
        """Remove a key."""
        ...

    def watch(self, key: bytes) -> FdbFuture:
        """Return a future that is ready when the value differs from what this transaction sees."""
        ...

    def commit(self) -> FdbFuture:
        """Commit the transaction."""
        ...

    def get_versionstamp(self) -> FdbFuture:
        """Return a future of the versionstamp; to be called before the commit."""
        ...

    def on_error(self, error: Exception) -> FdbFuture:
        """Wait and reset the transaction if the error allows a retry, else raise the error."""
        ...


class Bindings(Protocol):
    """An open database, and the other parts of the bindings that this package uses."""

    error: type[Exception]

    @property
    def hint(self) -> str:
        """A possible reason why the cluster never responded, for the texts of errors."""
        ...

    def transaction(self) -> FdbTransaction:
        """Return a new transaction."""
        ...

    def first_at_or_after(self, key: bytes) -> object:
        """Return a key selector."""
        ...
