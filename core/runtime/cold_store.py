"""The cold store interface: immutable objects, read by range, listed and deleted.

An implementation MUST provide the following guarantees. The tests in
``tests/contract/test_cold_stores.py`` check them.

1. Keys. A key is a relative path whose parts are separated by ``/``; ``check_key`` defines the
   allowed form.
2. Atomic creation. ``put_if_absent`` creates an object as a whole: a reader sees either no object
   or all of its bytes. If several writers create the same key, exactly one succeeds. A crash during
   the call leaves either no object or the whole object under the key.
3. Immutability. Once created, an object never changes until it is deleted.
4. Durability. When ``put_if_absent`` returns True, the object is as durable as the store ever makes
   it.
5. Listing. ``list`` may be stale, as in object stores: the absence of a key from a list proves
   nothing. ``stat`` and ``get`` are not stale.
6. Deadlines. Every call ends within the store's ``timeout_ms``.
7. Errors. A call that certainly changed nothing raises UnavailableError or UnauthorizedError. A
   write whose outcome is unknown raises UnknownOutcomeError; the caller compares with ``stat``.
"""

import re
from typing import NamedTuple, Protocol

from ..protocol.errors import InvalidArgumentError

OBJECT_BYTES_MAX = 256 << 20
"""Largest object in bytes. The archive splits segments into much smaller parts."""

_PART = re.compile(r"[A-Za-z0-9_.=\-]{1,200}")


class ObjectStat(NamedTuple):
    """The size of an object in bytes and, if the store keeps it, its SHA-256 in lower-case hex."""

    size_bytes: int
    sha256: str | None


class ColdStore(Protocol):
    """An open cold store. One instance serves many concurrent callers of one event loop.

    Every method may raise UnavailableError (nothing changed: retry) and UnauthorizedError.
    ``put_if_absent`` and ``delete`` may also raise UnknownOutcomeError (compare with ``stat``, then
    decide), and ``put_if_absent`` DiskFullError.
    """

    @property
    def uri(self) -> str:
        """The URI that the store was opened with, without secrets."""
        ...

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """Create the object. Return False if the key already exists, whatever its content."""
        ...

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """Return the bytes from ``offset`` on, at most ``length`` (None: all).

        The result is shorter only at the end of the object. Raises NoSuchObjectError.
        """
        ...

    async def stat(self, key: str) -> ObjectStat:
        """Return size and digest of the object. Raises NoSuchObjectError."""
        ...

    async def list(self, prefix: str = "") -> list[str]:
        """Return every key that equals ``prefix`` or lies below it, sorted; "" lists all keys."""
        ...

    async def delete(self, key: str) -> None:
        """Delete the object, if it exists. Safe to repeat."""
        ...

    async def close(self) -> None:
        """Release threads and connections. Safe to repeat."""
        ...


def check_key(key: str) -> str:
    """Return ``key`` if it is well-formed. Raises InvalidArgumentError otherwise."""
    if len(key) > 1000 or not all(
        _PART.fullmatch(part) and part not in (".", "..") for part in key.split("/")
    ):
        raise InvalidArgumentError(
            f"bad object key {key[:80]!r}: parts of letters, digits and _ . = - with / between them"
        )
    return key
