"""A metadata store that counts its calls by operation and result, and measures their duration."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from ..protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
)
from ..runtime.histogram import Histogram
from ..runtime.metadata_store import MetadataStore, Operation, Session, Value, Version, Watch

T = TypeVar("T")

OK = "ok"
CONFLICT = "conflict"
"""The store answered that a node exists, does not exist, or has another version."""
UNAVAILABLE = "unavailable"
INDETERMINATE = "indeterminate"
FAILED = "failed"
"""Any other error."""
CANCELLED = "cancelled"
"""The caller did not wait for the answer, for example because of a time limit of its own."""

RESULTS = (OK, CONFLICT, UNAVAILABLE, INDETERMINATE, FAILED, CANCELLED)
_RESULT_OF: tuple[tuple[type[BaseException], str], ...] = (
    (NodeExistsError, CONFLICT),
    (NoNodeError, CONFLICT),
    (BadVersionError, CONFLICT),
    (NotEmptyError, CONFLICT),
    (MetadataUnavailableError, UNAVAILABLE),
    (IndeterminateError, INDETERMINATE),
    (asyncio.CancelledError, CANCELLED),
)
_STEPS = 4  # buckets per factor of two; only the exported bounds matter here


class MeasuredStore:
    """Passes each call to ``inner``. Implements ``MetadataStore``."""

    def __init__(self, inner: MetadataStore) -> None:
        self.inner = inner
        self._loop = asyncio.get_running_loop()
        self._counts: dict[str, dict[str, int]] = {}
        self._durations: dict[str, Histogram] = {}

    def statistics(self) -> dict[str, Any]:
        """Return the number of calls by operation and result, and durations by operation."""
        return {
            "calls": {name: dict(counts) for name, counts in sorted(self._counts.items())},
            "call": {name: found.summary() for name, found in sorted(self._durations.items())},
        }

    @property
    def uri(self) -> str:
        """See MetadataReads."""
        return self.inner.uri

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        """See MetadataReads."""
        return await self._measured("get", self.inner.get(path, stale_ok=stale_ok))

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        """See MetadataReads."""
        return await self._measured("get_all", self.inner.get_all(paths, stale_ok=stale_ok))

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        """See MetadataReads."""
        call = self.inner.children(path, after=after, limit=limit, stale_ok=stale_ok)
        return await self._measured("children", call)

    def is_newer(self, version: Version, than: Version) -> bool:
        """See MetadataReads."""
        return self.inner.is_newer(version, than)

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        """See MetadataReads."""
        return self.inner.watch(path, callback, prefix=prefix)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        """See MetadataStore."""
        call = self.inner.create(path, data, ephemeral=ephemeral, sequential=sequential)
        return await self._measured("create", call)

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        """See MetadataStore."""
        return await self._measured("put", self.inner.put(path, data, expect=expect))

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        """See MetadataStore."""
        await self._measured("delete", self.inner.delete(path, expect=expect))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        """See MetadataStore."""
        return await self._measured("txn", self.inner.txn(operations))

    async def session(self, ttl_ms: int) -> Session:
        """See MetadataStore."""
        return await self._measured("session", self.inner.session(ttl_ms))

    async def close(self) -> None:
        """See MetadataStore."""
        await self.inner.close()

    async def _measured(self, operation: str, call: Awaitable[T]) -> T:
        began = self._loop.time()
        result = FAILED
        try:
            found = await call
            result = OK
        except BaseException as error:
            result = next((name for kind, name in _RESULT_OF if isinstance(error, kind)), FAILED)
            raise
        finally:
            durations = self._durations.get(operation)
            if durations is None:
                durations = self._durations[operation] = Histogram(steps=_STEPS)
                self._counts[operation] = dict.fromkeys(RESULTS, 0)
            durations.add(self._loop.time() - began)
            self._counts[operation][result] += 1
        return found
