"""The cold store: objects that are put once and whole, read in ranges, listed and deleted.

Semantics that every backend keeps (one kit tests them all):

1. Keys are relative paths, ``/`` between parts; see ``check_key``.
2. ``put_if_absent`` is atomic: readers see no object or all of it, and of several writers of one
   key exactly one wins. A crash in the middle leaves nothing under the key.
3. What ``put_if_absent`` has confirmed is durable as the store understands it.
4. ``list`` may be late (object stores): absence from a list proves nothing, ``stat`` does.
5. Every call has a deadline, the store's ``timeout_ms``.
"""

import re
from typing import NamedTuple, Protocol

from ..protocol.errors import InvalidArgumentError

OBJECT_BYTES_MAX = 256 << 20
"""Largest object; an archive splits a segment into parts far below this."""

_PART = re.compile(r"[A-Za-z0-9_.=\-]{1,200}")


class ObjectStat(NamedTuple):
    """Size in bytes and, where the store keeps one, the SHA-256 of the bytes in lower-case hex."""

    size_bytes: int
    sha256: str | None


class ColdStore(Protocol):
    """One object per process and store; safe for many concurrent callers of one loop.

    All methods raise UnavailableError (retryable, nothing happened) and UnauthorizedError;
    writes also raise UnknownOutcomeError (``stat`` and compare, then decide) and DiskFullError.
    """

    @property
    def uri(self) -> str:
        """The URI it was opened with, without secrets."""
        ...

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        """Stores the object; False when the key exists already, whatever it holds."""
        ...

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        """The bytes from ``offset`` on, at most ``length``; fewer only at the end.

        Raises NoSuchObjectError.
        """
        ...

    async def stat(self, key: str) -> ObjectStat:
        """What is there. Raises NoSuchObjectError."""
        ...

    async def list(self, prefix: str = "") -> list[str]:
        """Every key that is ``prefix`` or lies below it, sorted."""
        ...

    async def delete(self, key: str) -> None:
        """Removes the object; no error when there is none. Safe to repeat."""
        ...

    async def close(self) -> None:
        """Releases threads and connections. Safe to repeat."""
        ...


def check_key(key: str) -> str:
    """Returns a well-formed key. Raises InvalidArgumentError otherwise."""
    if len(key) > 1000 or not all(
        _PART.fullmatch(part) and part not in (".", "..") for part in key.split("/")
    ):
        raise InvalidArgumentError(
            f"bad object key {key[:80]!r}: parts of letters, digits and _ . = - with / between them"
        )
    return key
