"""Finds what a plan to rebalance starts from: used bytes, disk sizes, and copies that may move."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ...core.ledger.client import LedgerClient
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import CorruptionError, UnavailableError
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.placement import BookieInfo
from ...core.runtime.tasks import run_all
from ..ledger_scan import all_ledgers
from ..repair.entry_ranges import EntryRange, estimate_bytes, settled_ranges
from ..repair.liveness import Liveness, Standing
from .plan import BookieFill, SettledCopies

_AT_ONCE = 32


class Survey:
    """Reads the metadata of all ledgers; damaged records are left to the auditor."""

    def __init__(self, client: LedgerClient, ledgers: LedgerStore, liveness: Liveness) -> None:
        self._client = client
        self._ledgers = ledgers
        self._liveness = liveness

    async def fills(self) -> list[BookieFill]:
        """Return the bookies that may receive copies and respond. Raises as the metadata store."""
        used: dict[BookieId, int] = {}
        async for metadata, _ in all_ledgers(self._ledgers, _leave):
            for entry_range in _ranges(metadata):
                each = _bytes_each(metadata, entry_range)
                for bookie in entry_range.fragment.bookies:
                    used[bookie] = used.get(bookie, 0) + each
        found: list[BookieFill] = []
        candidates = list(self._liveness.candidates)
        for start in range(0, len(candidates), _AT_ONCE):
            batch = candidates[start : start + _AT_ONCE]
            sizes = await run_all([self._capacity(info.bookie) for info in batch], "disk size")
            for info, capacity in zip(batch, sizes, strict=True):
                if capacity is not None:
                    found.append(BookieFill(info, used.get(info.bookie, 0), capacity))
        return found

    async def _capacity(self, bookie: BookieId) -> int | None:
        try:
            return await self._client.copies.disk_bytes(bookie)
        except UnavailableError:
            return None  # neither a source nor a target in this round

    async def copies(self) -> AsyncGenerator[SettledCopies]:
        """Yield the fragments of closed ledgers whose members are all registered and stay.

        A caller that stops early closes the generator.
        """
        async with aclosing(all_ledgers(self._ledgers, _leave)) as ledgers:
            async for metadata, _ in ledgers:
                for entry_range in _ranges(metadata):
                    members = self._members(entry_range)
                    if members is not None:
                        yield SettledCopies(
                            metadata.ledger_id,
                            entry_range.first,
                            entry_range.recorded,
                            members,
                            _bytes_each(metadata, entry_range),
                        )

    def _members(self, entry_range: EntryRange) -> tuple[BookieInfo, ...] | None:
        """Return the bookies of a range; None if repair has to work on it."""
        liveness = self._liveness
        members = tuple(
            liveness.present.get(bookie, BookieInfo(bookie))
            for bookie in entry_range.fragment.bookies
        )
        are_present = all(
            liveness.standing(info.bookie, info.region) is Standing.PRESENT for info in members
        )
        return members if are_present else None


def _leave(_: CorruptionError) -> None:
    pass


def _ranges(metadata: LedgerMetadata) -> list[EntryRange]:
    return settled_ranges(metadata) if metadata.state is LedgerState.CLOSED else []


def _bytes_each(metadata: LedgerMetadata, entry_range: EntryRange) -> int:
    every = estimate_bytes(metadata, entry_range.count)
    return every * metadata.write_quorum // metadata.ensemble_size
