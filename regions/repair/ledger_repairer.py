"""Mends one ledger: copies what is missing, moves what is misplaced, records it (rule 1.11).

For each settled fragment, one after the other:

1. members that are lost or leave get successors by the placement policy; then, if the fragment does
   not keep the region rule, or would be better spread, further members do;
2. each member, old or new, is asked for the whole list of what it has; what is missing is read from
   any good copy and put there by recovery adds;
3. the lists are asked for again, and only a fragment that is whole is recorded, by compare-and-set.

A writer that is alive is never fenced: nothing here fences, and its open last fragment is not
touched. An entry that cannot be read stops its fragment, not the others, and nothing is shortened.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ...core.ledger.client import LedgerClient
from ...core.ledger.read.ledger_reader import LedgerReader
from ...core.metadata.ledger_store import LedgerStore
from ...core.protocol.bookie_id import BookieId
from ...core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    NoSuchEntryError,
    NotEnoughBookiesError,
    RhumblineError,
    UnavailableError,
)
from ...core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from ...core.protocol.placement import BookieInfo, PlacementPolicy, in_regions
from ...core.runtime.runtime import Runtime
from ...core.wire.availability import Availability
from ...placement.ensemble_improvement import indices_to_move
from ..steered_directory import SteeredDirectory
from .config import RepairConfig
from .entry_ranges import EntryRange, missing_runs, settled_spans
from .errors import NoCopyError, RepairStuckError
from .liveness import Liveness, Standing, by_region
from .rate_limiter import Pace

_CAS_ATTEMPTS = 8


@dataclass(slots=True)
class RepairCounts:
    """Plain counters for metrics."""

    ledgers: int = 0
    fragments_moved: int = 0
    entries: int = 0
    bytes: int = 0


class LedgerRepairer:
    """What all workers of a process share."""

    def __init__(
        self,
        runtime: Runtime,
        client: LedgerClient,
        ledgers: LedgerStore,
        directory: SteeredDirectory,
        placement: PlacementPolicy,
        *,
        config: RepairConfig,
    ) -> None:
        self.counts = RepairCounts()
        self._runtime = runtime
        self._client = client
        self._ledgers = ledgers
        self._directory = directory
        self._placement = placement
        self._pace = Pace(config.bytes_per_second)

    async def mend(self, ledger_id: int, census: Liveness) -> None:
        """Brings every settled fragment into order. Safe to repeat, and to do twice at a time.

        Raises RepairStuckError for what had to be left (after all else was done), NoSuchLedgerError
        when it is gone, and what the metadata store raises.
        """
        metadata, _ = await self._ledgers.read(ledger_id)
        if metadata.state is LedgerState.IN_RECOVERY:
            metadata = await self._client.recover(ledger_id, metadata.password)
        stuck: RepairStuckError | None = None
        reader = await self._client.open(ledger_id, metadata.password)
        try:
            for span in settled_spans(metadata):
                try:
                    await self._mend_until_settled(metadata, span, census, reader)
                except RepairStuckError as error:
                    if stuck is None or isinstance(error, NoCopyError):
                        stuck = error
        finally:
            await reader.aclose()
        if stuck is not None:
            raise stuck
        await self._check_tail(metadata, census)
        self.counts.ledgers += 1

    async def _check_tail(self, metadata: LedgerMetadata, census: Liveness) -> None:
        """An open last fragment on bookies that leave or are lost waits for its writer."""
        if metadata.state is LedgerState.CLOSED:
            return
        for bookie in metadata.last_fragment.bookies:
            standing = census.standing(bookie, await self._directory.region_of(bookie))
            if standing in (Standing.LEAVING, Standing.LOST):
                raise RepairStuckError(
                    f"ledger {metadata.ledger_id} is still being written, and {bookie} is "
                    f"{standing.value}: waits until its stream rolls"
                )

    # --- one fragment ---------------------------------------------------------------------------

    async def _mend_until_settled(
        self, metadata: LedgerMetadata, span: EntryRange, census: Liveness, reader: LedgerReader
    ) -> None:
        current: EntryRange | None = span
        while current is not None and await self._mend_span(metadata, current, census, reader):
            metadata, _ = await self._ledgers.read(metadata.ledger_id)
            found = [one for one in settled_spans(metadata) if one.first == span.first]
            current = found[0] if found else None

    async def _mend_span(
        self, metadata: LedgerMetadata, span: EntryRange, census: Liveness, reader: LedgerReader
    ) -> bool:
        """True when members were replaced: then the fragment is worth another look."""
        before = span.fragment.bookies
        ensemble = [await self._info(bookie, census) for bookie in before]
        after = self._successors(span, ensemble, census)
        for index, bookie in enumerate(after):
            if bookie != before[index]:
                await self._fill(metadata, span, (index, bookie), reader)
        if after != before:
            await self._record(metadata.ledger_id, span, after)
            self.counts.fragments_moved += 1
            return True
        absent = None
        for index, bookie in enumerate(before):
            if census.standing(bookie, ensemble[index].region) is Standing.ABSENT:
                absent = bookie
            else:
                await self._fill(metadata, span, (index, bookie), reader)
        if absent is not None:
            raise RepairStuckError(f"waits for {absent}, which is not registered now")
        return False

    async def _info(self, bookie: BookieId, census: Liveness) -> BookieInfo:
        known = census.present.get(bookie)
        return known or BookieInfo(bookie, await self._directory.region_of(bookie))

    def _successors(
        self, span: EntryRange, ensemble: Sequence[BookieInfo], census: Liveness
    ) -> tuple[BookieId, ...]:
        """The members that the fragment should have. Raises RepairStuckError when it cannot."""
        standings = [census.standing(info.bookie, info.region) for info in ensemble]
        going = [i for i, s in enumerate(standings) if s in (Standing.LOST, Standing.LEAVING)]
        if not going:
            layout = [info.region for info in ensemble]
            spare = census.spare([info.bookie for info in ensemble], span.allowed)
            going = list(indices_to_move(span.quorum, layout, by_region(spare)))
        if not going:
            return span.fragment.bookies
        try:
            return self._placement.replace(
                span.quorum,
                ensemble,
                going,
                in_regions(census.candidates, span.allowed),
                random=self._runtime.random,
            )
        except NotEnoughBookiesError as error:
            names = ", ".join(ensemble[index].bookie for index in going)
            raise RepairStuckError(f"no legal place for the copies of {names}: {error}") from error

    # --- copies ---------------------------------------------------------------------------------

    async def _fill(
        self,
        metadata: LedgerMetadata,
        span: EntryRange,
        place: tuple[int, BookieId],
        reader: LedgerReader,
    ) -> None:
        """Puts what is missing at a member, and makes sure that it is there."""
        index, bookie = place
        listed = await self._list(bookie, metadata.ledger_id)
        was_missing = False
        for first, last in missing_runs(span, index, listed):
            was_missing = True
            next_id = first
            while next_id <= last:
                next_id += await self._copy_some(metadata, bookie, (next_id, last), reader)
        if was_missing:
            listed = await self._list(bookie, metadata.ledger_id)
            left = next(missing_runs(span, index, listed), None)
            if left is not None:
                raise RepairStuckError(f"{bookie} took entry {left[0]} and does not have it")

    async def _copy_some(
        self,
        metadata: LedgerMetadata,
        bookie: BookieId,
        run: tuple[int, int],
        reader: LedgerReader,
    ) -> int:
        """Copies entries from the start of the run; returns how many."""
        first, last = run
        try:
            entries = await reader.read(first, last)
        except (NoSuchEntryError, CorruptionError) as error:
            raise NoCopyError(f"entry {first} has no good copy: {error}") from error
        except UnavailableError as error:
            holders = await self._lost_holders(metadata, first)
            if holders:
                raise NoCopyError(
                    f"entry {first} has no good copy unless one of {', '.join(holders)} comes back"
                ) from error
            raise RepairStuckError(f"entry {first} cannot be read now: {error}") from error
        await self._pace.take(sum(len(entry.payload) for entry in entries))
        try:
            size = await self._client.copies.put(bookie, metadata, entries)
        except RhumblineError as error:
            raise RepairStuckError(f"{bookie} does not take copies: {error}") from error
        self.counts.bytes += size  # not across an await: several workers count here
        self.counts.entries += len(entries)
        return len(entries)

    async def _lost_holders(self, metadata: LedgerMetadata, entry_id: int) -> list[BookieId]:
        """All bookies that should have the entry, if none of them is registered now; else []."""
        bookies = metadata.fragment_of(entry_id).bookies
        holders = [bookies[index] for index in metadata.quorum_at(entry_id).write_set(entry_id)]
        up = [*await self._directory.writable(), *await self._directory.read_only()]
        return [] if any(holder in up for holder in holders) else holders

    async def _list(self, bookie: BookieId, ledger_id: int) -> Availability:
        try:
            return await self._client.copies.list_entries(bookie, ledger_id)
        except RhumblineError as error:
            raise RepairStuckError(f"{bookie} does not say what it has: {error}") from error

    # --- the record -----------------------------------------------------------------------------

    async def _record(self, ledger_id: int, span: EntryRange, after: tuple[BookieId, ...]) -> None:
        """Names the new members, if the fragment is still the one that was mended."""
        for _ in range(_CAS_ATTEMPTS):
            stored, version = await self._ledgers.read(ledger_id)
            if span not in settled_spans(stored):
                raise RepairStuckError(f"the fragment at {span.first} changed meanwhile")
            with suppress(BadVersionError):
                await self._ledgers.write(stored.with_bookies_of(span.first, after), version)
                return
        raise RepairStuckError("the ledger's metadata changes again and again")
