"""Limbo recovery: releases ledgers from limbo when their end no longer depends on this bookie.

While a ledger is in limbo (limbo.py), this bookie may have lost some of its acknowledged entries.
The first step is to allocate a ledger id in each metadata store, as the upper bound of its ledgers.
Then a ledger is released (rule BKE-17) if it was deleted, or if two things are true:

- its end no longer depends on this bookie: it is closed, or its last fragment does not name this
  bookie. Every entry below the last fragment is confirmed, so no recovery reads it to find the end;
- the bookie has every entry for which the metadata names it. Missing entries are fetched from the
  other replicas, and repair writes them too. While one is missing the ledger stays in limbo,
  because this bookie may have acknowledged it and must not deny it.

A fence may be among the lost records, so a ledger that is no longer open is fenced again.

An open ledger whose last fragment names this bookie stays in limbo, whatever the other replicas
hold: its writer may count an acknowledgement whose entry is lost here, and complete the quorum with
one that is still in flight. Since this bookie refuses its adds, the writer replaces the bookie, or
the next owner recovers the ledger from the other replicas. Only an operator can end limbo earlier.

Ledgers that are unknown here may have been lost too. Therefore one pass goes over the list of all
ledgers in the cluster, and limbo ends when a pass leaves no ledger in it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Protocol

from ...metadata.cluster_layout import LEDGER_ID_MAX
from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, NoSuchLedgerError, RhumblineError
from ...protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...runtime.event_log import EventLog
from ...runtime.metadata_store import Version
from ...wire.entry import master_key
from ..ledger_records import limbo_cleared_record, limbo_records
from ..storage import Storage

_LOG = EventLog(__name__)

_LEDGERS_PER_STEP = 1_000
_PAGE = 10_000
_RESTORED_MAX = 10_000

Restore = Callable[[int, int], Awaitable[bool]]
"""Function of (ledger id, entry id) that restores an entry from a replica; False if it failed."""


class LimboMetadata(Protocol):
    """Access to the metadata store for limbo recovery."""

    async def next_ids(self, known: Collection[int]) -> list[int]:
        """Return a new ledger id of each store whose number is not in ``known``.

        It is above all that the store allocated before. Raises MetadataError.
        """
        ...

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Return ids of the cluster's ledgers above ``after``, rising. Raises MetadataError."""
        ...

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """See MetadataReader."""
        ...


class LimboRecovery:
    """Releases the ledgers of one storage from limbo, step by step."""

    def __init__(
        self, storage: Storage, metadata: LimboMetadata, bookie: BookieId, restore: Restore
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._bookie = bookie
        self._restore = restore
        self._after = -1
        self._has_uncleared = False
        self._missing_in_pass = 0
        self.restored_count = 0
        self.missing_count = 0
        """Missing entries that no replica provided during the last complete pass."""

    async def step(self) -> None:
        """Examines the next ledgers. Raises MetadataError; a repeated call continues."""
        limbo = self._storage.states.limbo
        if not limbo.is_active:
            return
        bounds = await self._metadata.next_ids(limbo.bounds)
        if bounds:
            for below in bounds:
                limbo.limit(max(below, 1))  # 0 is the form of no limbo on disk
            await self._journal_limbo()
            self._begin_pass()
        ids, is_last = await self._next_ids()
        for ledger_id in ids:
            if limbo.covers(ledger_id):
                await self._examine(ledger_id)
            self._after = ledger_id
        if is_last:
            if not self._has_uncleared:
                await end_limbo(self._storage)
            self.missing_count = self._missing_in_pass
            if not self._has_uncleared:
                _LOG.info(
                    "limbo ended",
                    bookie=self._bookie,
                    restored=self.restored_count,
                    missing=self.missing_count,
                )
            self._begin_pass()

    def _begin_pass(self) -> None:
        self._after, self._has_uncleared, self._missing_in_pass = -1, False, 0

    async def _next_ids(self) -> tuple[list[int], bool]:
        """Return the next ledgers, listed or known here, and True if they are the last ones."""
        last_bound = max(self._storage.states.limbo.bounds.values())
        listed = await self._metadata.ids(self._after, _LEDGERS_PER_STEP)
        is_last = len(listed) < _LEDGERS_PER_STEP or listed[-1] >= last_bound
        until = LEDGER_ID_MAX if is_last else listed[-1]
        known = [ledger for ledger in self._storage.states.ledgers if self._after < ledger <= until]
        return sorted(dict.fromkeys([*listed, *known])), is_last

    async def _examine(self, ledger_id: int) -> None:
        try:
            metadata, _ = await self._metadata.read(ledger_id)
        except NoSuchLedgerError:
            await self.clear(ledger_id)
            return
        except CorruptionError:
            self._has_uncleared = True
            return
        is_member = self._bookie in metadata.bookies()
        is_open = metadata.state is not LedgerState.CLOSED
        if is_open and self._bookie in metadata.last_fragment.bookies:
            self._has_uncleared = True
        elif is_member or ledger_id in self._storage.states.ledgers:
            if await self._complete(metadata):
                await self.clear(ledger_id)
            else:
                self._has_uncleared = True

    async def _complete(self, metadata: LedgerMetadata) -> bool:
        """Restores the missing entries of a ledger, and fences it unless it is open.

        Returns whether the bookie then has every entry for which the metadata names it.
        """
        storage, ledger_id = self._storage, metadata.ledger_id
        ledger = storage.states.ledgers.get(ledger_id)
        if ledger is None:
            key = master_key(metadata.password)
            ledger = storage.create_ledger(ledger_id, key, is_proven=True)
        if metadata.state is not LedgerState.OPEN:
            await storage.fence_durably(ledger)
        restored, left, is_available = 0, 0, True
        async for missing in self._missing(metadata):
            for entry_id in missing:
                if is_available and restored < _RESTORED_MAX:
                    is_available = await self._try_restore(ledger_id, entry_id)
                    restored += is_available
                    left += not is_available
                else:
                    left += 1
            await asyncio.sleep(0)
        self.restored_count += restored
        self._missing_in_pass += left
        return left == 0

    async def _try_restore(self, ledger_id: int, entry_id: int) -> bool:
        try:
            return await self._restore(ledger_id, entry_id)
        except RhumblineError:
            return False

    async def _missing(self, metadata: LedgerMetadata) -> AsyncIterator[list[int]]:
        """Yield the ids of missing entries, page by page."""
        index, ledger_id = self._storage.index, metadata.ledger_id
        for span in ranges_of(metadata, self._bookie):
            for start in range(span.first, span.last + 1, _PAGE):
                stop = min(start + _PAGE, span.last + 1)
                page = await index.page(ledger_id, start, stop - start)
                held = {row.entry_id for row in page}
                entry_ids = range(start, stop)
                yield [entry for entry in entry_ids if span.has(entry) and entry not in held]

    async def _journal_limbo(self) -> None:
        states = self._storage.states
        for record in list(limbo_records(states.limbo)):
            await self._storage.journal(record)
        states.refresh_accepts_adds()

    async def clear(self, ledger_id: int) -> None:
        """Releases a ledger, whose end does not depend on this bookie."""
        states = self._storage.states
        if states.limbo.covers(ledger_id):
            states.limbo.clear(ledger_id)
            await self._storage.journal(limbo_cleared_record(ledger_id))
            ledger = states.ledgers.get(ledger_id)
            if ledger is not None:
                states.refresh_accepts_adds_of(ledger)


@dataclass(frozen=True, slots=True)
class LimboRange:
    """The entries of a fragment that belong to one of its bookies, by the striping rule."""

    first: int
    last: int
    index: int
    ensemble_size: int
    write_quorum: int

    def has(self, entry_id: int) -> bool:
        """Return whether the entry belongs to the bookie."""
        return (self.index - entry_id) % self.ensemble_size < self.write_quorum


def ranges_of(metadata: LedgerMetadata, bookie: BookieId) -> Iterator[LimboRange]:
    """Yield the fragments that name ``bookie``, except the last one of an unclosed ledger."""
    fragments = metadata.fragments
    firsts = [fragment.first_entry_id for fragment in fragments]
    lasts = [first - 1 for first in firsts[1:]]
    if metadata.state is LedgerState.CLOSED:
        lasts.append(metadata.last_entry_id)
    for fragment, last in zip(fragments, lasts, strict=False):
        if bookie in fragment.bookies:
            index = fragment.bookies.index(bookie)
            size, copies = metadata.ensemble_size, metadata.write_quorum
            yield LimboRange(fragment.first_entry_id, last, index, size, copies)


async def end_limbo(storage: Storage) -> None:
    """Ends limbo for all ledgers: none is left in it, or an operator declares no loss.

    If the declaration is wrong, the bookie may deny an entry that it acknowledged, and a recovery
    may then close a ledger before its real end.
    """
    states = storage.states
    states.limbo.end()
    for record in list(limbo_records(states.limbo)):
        await storage.journal(record)
    states.refresh_accepts_adds()
