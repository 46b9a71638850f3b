"""Getting out of limbo: draws the bound, and lets ledgers out whose end no longer hangs on us.

That is so when a ledger is gone, or closed, or when its last fragment does not name this bookie:
every entry before the last fragment is confirmed, so no recovery will ask for it to find the end.
Then what should be here is compared with what is, and what is missing comes from the other
replicas; what none of them gives now is left to repair, which can list it as soon as the ledger is
out. A fence may have been among the lost, so a ledger that is not open any more is fenced anew.

An open ledger that counts on this bookie stays in limbo, whatever the other replicas hold: its
writer may count an acknowledgement of ours whose entry we lost, and make the quorum full with one
that is still on its way. As we take no adds its writer replaces us, or its next owner closes it
through the others; only an operator's word does it without them.

Ledgers that are not known here may have been among the lost, too. So one pass goes over the list of
all ledgers, and when it ends with nobody left the limbo is over.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, NoSuchLedgerError, RhumblineError
from ...protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...runtime.metadata_store import Version
from ...wire.entry import master_key
from ..ledger_records import limbo_cleared_record, limbo_records
from ..storage import Storage

_LOOKS_AT_ONCE = 1_000
_PAGE = 10_000
_RESTORED_MAX = 10_000

Restore = Callable[[int, int], Awaitable[bool]]
"""(ledger id, entry id) -> whether the entry came from a replica and stands here now."""


class LimboMetadata(Protocol):
    """What limbo asks of the metadata store."""

    async def next_id(self) -> int:
        """A new ledger id, above all that were ever given. Raises MetadataError."""
        ...

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        """Ids of the cluster's ledgers above ``after``, rising. Raises MetadataError."""
        ...

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        """See proofs.LedgerReader."""
        ...


class LimboRecovery:
    """Shrinks the limbo of one storage."""

    def __init__(
        self, storage: Storage, metadata: LimboMetadata, bookie: BookieId, restore: Restore
    ) -> None:
        self._storage = storage
        self._metadata = metadata
        self._bookie = bookie
        self._restore = restore
        self._after = -1
        self._is_anybody_left = False
        self.restored_count = 0
        self.missing_count = 0
        """Entries that were let out of limbo although nobody gave them back: for repair."""

    async def step(self) -> None:
        """Looks at the next ledgers. Raises MetadataError; a repeat goes on."""
        limbo = self._storage.states.limbo
        if not limbo.is_active:
            return
        if limbo.below is None:
            limbo.begin(await self._metadata.next_id())
            await self._journal_limbo()
            self._begin_pass()
        ids, is_last = await self._next_ids()
        for ledger_id in ids:
            if limbo.covers(ledger_id):
                await self._look(ledger_id)
            self._after = ledger_id
        if is_last:
            if not self._is_anybody_left:
                await clear_all(self._storage)
            self._begin_pass()

    def _begin_pass(self) -> None:
        self._after, self._is_anybody_left = -1, False

    async def _next_ids(self) -> tuple[list[int], bool]:
        """The next ledgers below the bound, listed or known here; whether these are the last."""
        below = self._storage.states.limbo.below
        assert below is not None
        listed = await self._metadata.ids(self._after, _LOOKS_AT_ONCE)
        is_last = len(listed) < _LOOKS_AT_ONCE or listed[-1] >= below
        until = below - 1 if is_last else listed[-1]
        known = [one for one in self._storage.states.ledgers if self._after < one <= until]
        return sorted(dict.fromkeys([*(one for one in listed if one < below), *known])), is_last

    async def _look(self, ledger_id: int) -> None:
        try:
            metadata, _ = await self._metadata.read(ledger_id)
        except NoSuchLedgerError:
            await self.clear(ledger_id)
            return
        except CorruptionError:
            self._is_anybody_left = True
            return
        is_ours = self._bookie in metadata.bookies()
        is_open = metadata.state is not LedgerState.CLOSED
        if is_open and self._bookie in metadata.last_fragment.bookies:
            self._is_anybody_left = True
        elif is_ours or ledger_id in self._storage.states.ledgers:
            await self._complete(metadata)
            await self.clear(ledger_id)

    async def _complete(self, metadata: LedgerMetadata) -> None:
        """Fetches what should be here and is not, and fences what is not open."""
        storage, ledger_id = self._storage, metadata.ledger_id
        ledger = storage.states.ledgers.get(ledger_id)
        if ledger is None:
            key = master_key(metadata.password)
            ledger = storage.create_ledger(ledger_id, key, is_proven=True)
        if metadata.state is not LedgerState.OPEN:
            await storage.fence_durably(ledger)
        restored, is_helped = 0, True
        for missing in self._missing(metadata):
            for entry_id in missing:
                if is_helped and restored < _RESTORED_MAX:
                    is_helped = await self._restored(ledger_id, entry_id)
                    restored += is_helped
                    self.missing_count += not is_helped
                else:
                    self.missing_count += 1
            await asyncio.sleep(0)
        self.restored_count += restored

    async def _restored(self, ledger_id: int, entry_id: int) -> bool:
        try:
            return await self._restore(ledger_id, entry_id)
        except RhumblineError:
            return False

    def _missing(self, metadata: LedgerMetadata) -> Iterator[list[int]]:
        """Entries that should be here and are not, page by page."""
        index, ledger_id = self._storage.index, metadata.ledger_id
        for span in spans_of(metadata, self._bookie):
            for start in range(span.first, span.last + 1, _PAGE):
                stop = min(start + _PAGE, span.last + 1)
                held = {row.entry_id for row in index.page(ledger_id, start, stop - start)}
                yield [one for one in range(start, stop) if span.has(one) and one not in held]

    async def _journal_limbo(self) -> None:
        states = self._storage.states
        for record in list(limbo_records(states.limbo)):
            await self._storage.journal(record)
        states.settle()

    async def clear(self, ledger_id: int) -> None:
        """The ledger's end is decided without us."""
        states = self._storage.states
        if states.limbo.covers(ledger_id):
            states.limbo.clear(ledger_id)
            await self._storage.journal(limbo_cleared_record(ledger_id))
            ledger = states.ledgers.get(ledger_id)
            if ledger is not None:
                states.settle_ledger(ledger)


@dataclass(frozen=True, slots=True)
class LimboRange:
    """A fragment that names a bookie, and which of its entries are that bookie's."""

    first: int
    last: int
    index: int
    ensemble_size: int
    write_quorum: int

    def has(self, entry_id: int) -> bool:
        """Whether the entry belongs there, by the striping rule."""
        return (self.index - entry_id) % self.ensemble_size < self.write_quorum


def spans_of(metadata: LedgerMetadata, bookie: BookieId) -> Iterator[LimboRange]:
    """The fragments that name ``bookie``, without the last one of a ledger that has no end."""
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


async def clear_all(storage: Storage) -> None:
    """Nobody is left in limbo; or, by an operator's word, nothing was lost.

    Such a word is wrong if something was: then "never had it" may be a lie, and shorten a ledger.
    """
    states = storage.states
    states.limbo.begin(0)
    for record in list(limbo_records(states.limbo)):
        await storage.journal(record)
    states.settle()
