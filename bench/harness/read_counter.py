"""Counts requests that read metadata and reads of entries."""

from collections.abc import Sequence
from typing import Any, cast

from ...core.log.ledger_interface import LedgerEntry, LedgerProvider, ReadableLedger
from ...core.protocol.ledger_metadata import LedgerMetadata
from ...core.runtime.metadata_store import MetadataStore, Value


class _CountingStore:
    def __init__(self, inner: MetadataStore, counter: "ReadCounter") -> None:
        self._inner = inner
        self._counter = counter

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - delegates to the inner store
        return getattr(self._inner, name)

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        self._counter.metadata += 1
        return await self._inner.get(path, stale_ok=stale_ok)

    async def get_all(self, paths: Sequence[str], *, stale_ok: bool = False) -> list[Value | None]:
        self._counter.metadata += 1
        return await self._inner.get_all(paths, stale_ok=stale_ok)


class _CountingReader:
    def __init__(self, inner: ReadableLedger, counter: "ReadCounter") -> None:
        self._inner = inner
        self._counter = counter

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._inner, name)

    async def read(self, first: int, last: int, ahead_bytes: int = 0) -> Sequence[LedgerEntry]:
        self._counter.entries += 1
        return await self._inner.read(first, last, ahead_bytes)


class _CountingLedgers:
    def __init__(self, inner: LedgerProvider, counter: "ReadCounter") -> None:
        self._inner = inner
        self._counter = counter

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._inner, name)

    async def open(
        self, ledger_id: int, password: bytes = b"", *, stale_ok: bool = False
    ) -> ReadableLedger:
        return self._counted(await self._inner.open(ledger_id, password, stale_ok=stale_ok))

    async def open_recovered(self, metadata: LedgerMetadata) -> ReadableLedger:
        return self._counted(await self._inner.open_recovered(metadata))

    def _counted(self, reader: ReadableLedger) -> ReadableLedger:
        return cast(ReadableLedger, _CountingReader(reader, self._counter))


class ReadCounter:
    """The number of metadata requests and entry reads since ``clear``."""

    def __init__(self) -> None:
        self.metadata = 0
        self.entries = 0

    def clear(self) -> None:
        """Reset both counters."""
        self.metadata = self.entries = 0

    def store(self, inner: MetadataStore) -> MetadataStore:
        """Wrap ``inner`` so that its reads are counted."""
        return cast(MetadataStore, _CountingStore(inner, self))

    def ledgers(self, inner: LedgerProvider) -> LedgerProvider:
        """Wrap ``inner`` so that its reads are counted."""
        return cast(LedgerProvider, _CountingLedgers(inner, self))
