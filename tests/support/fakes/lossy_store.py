"""A metadata store that loses requests and replies as a test prescribes."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from rhumbline.core.protocol.errors import (
    IndeterminateError,
    MetadataError,
    MetadataUnavailableError,
)
from rhumbline.core.runtime.metadata_store import (
    MetadataStore,
    Operation,
    Session,
    Value,
    Version,
    Watch,
)

T = TypeVar("T")

OK = "ok"
LOST_REPLY = "the write is carried out, but its reply is lost"
LOST_REQUEST = "the write is not carried out, and its outcome is unknown"
LATE = "the write is carried out by deliver(), and its outcome is unknown"
UNAVAILABLE = "the write is refused and certainly not carried out"


class CountedWatch:
    def __init__(self, store: "LossyStore", inner: Watch) -> None:
        self._store = store
        self._inner = inner
        store.open_watches[self] = None

    def close(self) -> None:
        self._store.open_watches.pop(self, None)
        self._inner.close()


class LossyStore:
    """A wrapper of a store. ``outcomes`` prescribes the outcome of each write in order.

    Further writes succeed.
    """

    def __init__(self, inner: MetadataStore) -> None:
        self.inner = inner
        self.uri = inner.uri
        self.outcomes: list[str] = []
        self.late: list[Callable[[], Awaitable[object]]] = []
        self.on_call: Callable[[str], None] = lambda name: None
        self.delay_s: Callable[[], float] = lambda: 0.0
        self.open_watches: dict[CountedWatch, None] = {}
        self.writes = 0
        self.reads = 0

    def _next_outcome(self) -> str:
        return self.outcomes.pop(0) if self.outcomes else OK

    async def _write(self, name: str, work: Callable[[], Awaitable[T]]) -> T:
        self.writes += 1
        self.on_call(name)
        outcome = self._next_outcome()
        await asyncio.sleep(self.delay_s())
        if outcome == UNAVAILABLE:
            raise MetadataUnavailableError("injected by the test")
        if outcome in (LOST_REQUEST, LATE):
            if outcome == LATE:
                self.late.append(work)
            raise IndeterminateError("injected by the test")
        result = await work()
        await asyncio.sleep(self.delay_s())
        if outcome == LOST_REPLY:
            raise IndeterminateError("injected by the test")
        return result

    async def deliver(self) -> None:
        """Carry out the late writes. Their results are ignored."""
        while self.late:
            with suppress(MetadataError):
                await self.late.pop(0)()

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        self.reads += 1
        self.on_call("get")
        await asyncio.sleep(self.delay_s())
        return await self.inner.get(path, stale_ok=stale_ok)

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        self.reads += 1
        self.on_call("get_all")
        await asyncio.sleep(self.delay_s())
        return await self.inner.get_all(paths, stale_ok=stale_ok)

    async def children(
        self,
        path: str,
        *,
        after: str | None = None,
        limit: int | None = None,
        stale_ok: bool = False,
    ) -> list[str]:
        self.reads += 1
        await asyncio.sleep(self.delay_s())
        return await self.inner.children(path, after=after, limit=limit, stale_ok=stale_ok)

    def is_newer(self, version: Version, than: Version) -> bool:
        return self.inner.is_newer(version, than)

    async def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: Session | None = None,
        sequential: bool = False,
    ) -> tuple[str, Version]:
        return await self._write(
            "create",
            lambda: self.inner.create(path, data, ephemeral=ephemeral, sequential=sequential),
        )

    async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
        return await self._write("put", lambda: self.inner.put(path, data, expect=expect))

    async def delete(self, path: str, *, expect: Version | None = None) -> None:
        return await self._write("delete", lambda: self.inner.delete(path, expect=expect))

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        return await self._write("txn", lambda: self.inner.txn(operations))

    def watch(self, path: str, callback: Callable[[], None], *, prefix: bool = False) -> Watch:
        return CountedWatch(self, self.inner.watch(path, callback, prefix=prefix))

    async def session(self, ttl_ms: int) -> Session:
        return await self.inner.session(ttl_ms)

    async def close(self) -> None:
        await self.inner.close()
