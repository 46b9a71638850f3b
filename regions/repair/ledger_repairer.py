"""Repairs one ledger: copies missing entries, replaces members, records the result.

For each settled fragment, one after the other:

1. Members that are lost or leaving get successors by the placement policy, as far as there are
   bookies. If there are no such members, others are moved if the fragment violates the region rule
   or can be spread better over regions, zones, racks or hosts (RPR-8). R is that of the stream's
   policy (RPR-9).
2. Each member, old or new, lists its entries. Missing entries are read from any valid copy and
   stored with recovery adds (RPR-10).
3. The members list their entries again, and only a complete fragment is recorded, by a
   compare-and-set (RPR-11, RPR-12).

Nothing here fences an open ledger, and its open last fragment is not touched (RPR-2, RPR-15);
``ownerless_ledgers`` ends it before. An unreadable entry stops its own fragment only, and no ledger
is shortened (RPR-13).
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field

from ...core.ledger.client import LedgerClient
from ...core.ledger.ensemble_choice import choose_live_ensemble
from ...core.ledger.read.ledger_reader import LedgerReader
from ...core.log.metadata.ledger_policies import LedgerPolicies
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
from ...core.protocol.placement import BookieInfo, PlacementPolicy, SpreadRule, in_regions
from ...core.protocol.quorum import QuorumView
from ...core.runtime.metadata_store import MetadataStore, Version
from ...core.runtime.primitives.rate_limiter import RateLimiter
from ...core.runtime.runtime import Runtime
from ...core.runtime.tasks import run_all
from ...core.wire.availability import Availability
from ...placement.ensemble_improvement import indices_to_move
from ...placement.spread.bookie_weights import bookie_weights
from ...placement.spread.spread_improvement import move_to_spread
from ..steered_directory import SteeredDirectory
from .config import RepairConfig
from .entry_ranges import EntryRange, missing_runs, settled_ranges, with_r_limited
from .errors import NoCopyError, RepairStuckError
from .liveness import Liveness, Standing, by_region

_CAS_ATTEMPTS = 8

_BATCHES_AT_ONCE = 8
"""Maximum number of batches of large ledgers that all repairs of a process hold in memory."""

_SMALL_BYTES = 256 << 10
"""Maximum length of a closed ledger that counts as small."""


@dataclass(slots=True)
class RepairCounts:
    """Counters for metrics."""

    ledgers: int = 0
    fragments_moved: int = 0
    entries: int = 0
    bytes: int = 0


class LedgerRepairer:
    """Repairs ledgers for all workers of a process."""

    def __init__(
        self,
        runtime: Runtime,
        client: LedgerClient,
        store: MetadataStore,
        directory: SteeredDirectory,
        placement: PlacementPolicy,
        *,
        config: RepairConfig,
    ) -> None:
        self.counts = RepairCounts()
        self._store = store
        self._runtime = runtime
        self._client = client
        self._ledgers = LedgerStore(store)
        self._directory = directory
        self._placement = placement
        self._rate_limiter = RateLimiter(config.bytes_per_second)
        self._free_batches = asyncio.Semaphore(_BATCHES_AT_ONCE)
        self._lost_after_ms = config.lost_after_ms

    async def repair(self, metadata: LedgerMetadata, version: Version, liveness: Liveness) -> None:
        """Repair every settled fragment. Safe to repeat and to run twice at a time.

        ``metadata`` with its ``version`` was just read. Raises RepairStuckError for what could not
        be repaired (after everything else), NoSuchLedgerError if the ledger was deleted, and what
        the metadata store raises.
        """
        wanted_r = await self._wanted_r(metadata)
        if metadata.state is LedgerState.IN_RECOVERY:
            ledger_id = metadata.ledger_id
            await self._client.recover(ledger_id, metadata.password, min_regions=wanted_r)
            metadata, version = await self._ledgers.read(ledger_id)
        stuck: RepairStuckError | None = None
        reader = self._client.reader(metadata, version)
        try:
            for entry_range in settled_ranges(metadata, wanted_r):
                work = _RangeRepair(metadata, version, entry_range, liveness, reader, wanted_r)
                try:
                    await self._repair_range_until_stable(work)
                except RepairStuckError as error:
                    if stuck is None or isinstance(error, NoCopyError):
                        stuck = error
                metadata, version = work.metadata, work.version
        finally:
            await reader.aclose()
        if stuck is not None:
            raise stuck

    async def move(
        self,
        ledger_id: int,
        place: tuple[int, int],
        bookies: tuple[BookieId, BookieId],
        liveness: Liveness,
    ) -> None:
        """Move one copy of a closed ledger to another bookie (rule RPR-18). Safe to repeat.

        ``place`` is the first entry of the fragment and the index of the member, ``bookies`` are
        the one that holds the index and the one that should. The same steps as in a repair: the
        copy is complete before the metadata names it. Raises RepairStuckError if it cannot be moved
        now, NoSuchLedgerError, and what the metadata store raises.
        """
        (first, index), (source, target) = place, bookies
        metadata, version = await self._ledgers.read(ledger_id)
        wanted_r = await self._wanted_r(metadata)
        ranges = {found.first: found for found in settled_ranges(metadata, wanted_r)}
        entry_range = ranges.get(first)
        if metadata.state is not LedgerState.CLOSED or entry_range is None:
            raise RepairStuckError(f"ledger {ledger_id} has no closed fragment at entry {first}")
        before = entry_range.fragment.bookies
        if before[index] != source or target in before:
            raise RepairStuckError(f"the members of ledger {ledger_id} have changed: {before}")
        if target not in {info.bookie for info in liveness.candidates}:
            raise RepairStuckError(f"{target} takes no new data")
        reader = self._client.reader(metadata, version)
        try:
            work = _RangeRepair(metadata, version, entry_range, liveness, reader, wanted_r)
            await self._fill(work, (index, target))
            after = (*before[:index], target, *before[index + 1 :])
            await self._record(work, after, entry_range.recorded.min_regions)
        finally:
            await reader.aclose()
        self.counts.fragments_moved += 1

    async def _wanted_r(self, metadata: LedgerMetadata) -> int | None:
        """Return R of the stream's policy, read now; None if there is none."""
        return await LedgerPolicies(self._store).r_of(metadata)

    # --- one fragment ---------------------------------------------------------------------------

    async def _repair_range_until_stable(self, work: "_RangeRepair") -> None:
        while await self._repair_range(work):
            ranges = settled_ranges(work.metadata, work.wanted_r)
            (work.entry_range,) = [r for r in ranges if r.first == work.entry_range.first]

    async def _repair_range(self, work: "_RangeRepair") -> bool:
        """Repair one fragment. Returns True if its record was changed, so that it is checked
        again."""
        entry_range, liveness = work.entry_range, work.liveness
        before = entry_range.fragment.bookies
        ensemble = [await self._info(bookie, liveness) for bookie in before]
        after, r, stuck = await self._successors(work.metadata, entry_range, ensemble, liveness)
        if after != before:
            new = [(at, bookie) for at, bookie in enumerate(after) if bookie != before[at]]
            await self._fill_all(work, new)
            await self._record(work, after, r)
            self.counts.fragments_moved += 1
            return True
        present = []
        for index, bookie in enumerate(before):
            standing = liveness.standing(bookie, ensemble[index].region)
            if standing is Standing.ABSENT:
                stuck = stuck or self._absence_error(bookie)
            elif standing is not Standing.LOST and bookie not in work.complete:
                present.append((index, bookie))
        await self._fill_all(work, present)
        if stuck is not None:
            raise stuck
        view = QuorumView(entry_range.quorum, [info.region for info in ensemble])
        if entry_range.quorum.min_regions > entry_range.lowest_r and view.is_legal():
            await self._record_raised_r(work)
            return True
        return False

    def _absence_error(self, bookie: BookieId) -> RepairStuckError:
        return RepairStuckError(
            f"waiting for {bookie}, which is not registered; it counts as lost "
            f"{self._lost_after_ms / 1000:g} s after it disappeared, or at once by `rhumbline node "
            "decommission`"
        )

    async def _info(self, bookie: BookieId, liveness: Liveness) -> BookieInfo:
        known = liveness.present.get(bookie)
        region = await self._directory.region_of(bookie)
        return known or self._directory.last_known(bookie, region)

    async def _successors(
        self,
        metadata: LedgerMetadata,
        entry_range: EntryRange,
        ensemble: Sequence[BookieInfo],
        liveness: Liveness,
    ) -> tuple[tuple[BookieId, ...], int, RepairStuckError | None]:
        """Return the members that the fragment should have, the R that they satisfy, and an error
        if some that are lost or leaving have no successor.

        The strictest R for which there is a legal ensemble is used: the recorded one or that of the
        policy.
        """
        before = entry_range.fragment.bookies
        standings = [liveness.standing(info.bookie, info.region) for info in ensemble]
        going = sum(
            1 << index
            for index, standing in enumerate(standings)
            if standing in (Standing.LOST, Standing.LEAVING)
        )
        quorums = sorted(
            dict.fromkeys((entry_range.quorum, entry_range.recorded)),
            key=lambda quorum: -quorum.min_regions,
        )
        if not going:
            layout = [info.region for info in ensemble]
            spare = liveness.spare([info.bookie for info in ensemble], entry_range.allowed)
            moved = indices_to_move(entry_range.quorum, layout, by_region(spare))
            going = sum(1 << index for index in moved)
            quorums = [entry_range.quorum]
        if not going:
            after = self._spread(entry_range, ensemble, spare, metadata.spread_rule())
            return after, entry_range.quorum.min_regions, None
        refused: NotEnoughBookiesError | None = None
        for quorum in quorums:
            try:
                after = await choose_live_ensemble(
                    self._placement,
                    quorum,
                    ensemble,
                    going,
                    in_regions(liveness.candidates, entry_range.allowed),
                    random=self._runtime.random,
                    ledger=metadata.ledger_id,
                    rule=metadata.spread_rule(),
                )
            except NotEnoughBookiesError as error:
                refused = error
                continue
            return after, quorum.min_regions, None
        names = ", ".join(info.bookie for i, info in enumerate(ensemble) if going >> i & 1)
        stuck = RepairStuckError(f"no legal place for the copies of {names}: {refused}")
        return before, entry_range.quorum.min_regions, stuck

    def _spread(
        self,
        entry_range: EntryRange,
        ensemble: Sequence[BookieInfo],
        spare: Sequence[BookieInfo],
        rule: SpreadRule,
    ) -> tuple[BookieId, ...]:
        """Return the members after the move that spreads the copies best; the same if none does."""
        before = entry_range.fragment.bookies
        found = move_to_spread(entry_range.quorum, ensemble, spare, rule)
        if found is None:
            return before
        index, target = found
        there = [info for info in spare if info.path == target]
        (chosen,) = self._runtime.random.choices(there, weights=bookie_weights(there))
        return (*before[:index], chosen.bookie, *before[index + 1 :])

    # --- copies ---------------------------------------------------------------------------------

    async def _fill_all(self, work: "_RangeRepair", places: Sequence[tuple[int, BookieId]]) -> None:
        """Fill several members at the same time; one that fails does not stop the others."""

        async def fill(place: tuple[int, BookieId]) -> RepairStuckError | None:
            try:
                await self._fill(work, place)
            except RepairStuckError as error:
                return error
            return None

        found = await run_all([fill(place) for place in places], "fill members")
        errors = [error for error in found if error is not None]
        errors.sort(key=lambda error: not isinstance(error, NoCopyError))
        if errors:
            raise errors[0]

    async def _fill(
        self,
        work: "_RangeRepair",
        place: tuple[int, BookieId],
    ) -> None:
        """Copy missing entries to a member, and verify that the member lists them afterwards."""
        metadata, entry_range, reader = work.metadata, work.entry_range, work.reader
        index, bookie = place
        listed = await self._list(bookie, metadata.ledger_id)
        is_small = metadata.state is LedgerState.CLOSED and metadata.length <= _SMALL_BYTES
        room = nullcontext() if is_small else self._free_batches
        was_missing = False
        for first, last in missing_runs(entry_range, index, listed):
            was_missing = True
            next_id = first
            while next_id <= last:
                async with room:
                    next_id += await self._copy_some(metadata, bookie, (next_id, last), reader)
        if was_missing:
            listed = await self._list(bookie, metadata.ledger_id)
            left = next(missing_runs(entry_range, index, listed), None)
            if left is not None:
                raise RepairStuckError(f"{bookie} accepted entry {left[0]} but does not list it")
        work.complete[bookie] = None

    async def _copy_some(
        self,
        metadata: LedgerMetadata,
        bookie: BookieId,
        run: tuple[int, int],
        reader: LedgerReader,
    ) -> int:
        """Copy entries from the start of the run; return their number."""
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
        await self._rate_limiter.acquire(sum(len(entry.payload) for entry in entries))
        try:
            size = await self._client.copies.put(bookie, metadata, entries)
        except RhumblineError as error:
            raise RepairStuckError(f"{bookie} does not accept copies: {error}") from error
        self.counts.bytes += size  # no await in between: several workers count here
        self.counts.entries += len(entries)
        return len(entries)

    async def _lost_holders(self, metadata: LedgerMetadata, entry_id: int) -> list[BookieId]:
        """Return all bookies that should have the entry, if none of them is registered; else []."""
        bookies = metadata.fragment_of(entry_id).bookies
        holders = [bookies[index] for index in metadata.quorum_at(entry_id).write_set(entry_id)]
        up = await self._directory.up()
        return [] if any(holder in up for holder in holders) else holders

    async def _list(self, bookie: BookieId, ledger_id: int) -> Availability:
        try:
            return await self._client.copies.list_entries(bookie, ledger_id)
        except RhumblineError as error:
            raise RepairStuckError(f"{bookie} does not list its entries: {error}") from error

    # --- the record -----------------------------------------------------------------------------

    async def _record(self, work: "_RangeRepair", after: tuple[BookieId, ...], r: int) -> None:
        """Record the new members, and R if they satisfy less than what is recorded (RPR-9)."""
        entry_range = work.entry_range

        def changed(stored: LedgerMetadata) -> LedgerMetadata:
            moved = stored.with_bookies_of(entry_range.first, after)
            return with_r_limited(moved, entry_range, r)

        await self._change(work, changed)

    async def _record_raised_r(self, work: "_RangeRepair") -> None:
        """Record the R of the policy for a range whose members have all listed every entry."""
        entry_range = work.entry_range
        r = entry_range.quorum.min_regions
        await self._change(
            work, lambda stored: stored.with_r_between(entry_range.first, entry_range.last, r)
        )

    async def _change(
        self, work: "_RangeRepair", changed: Callable[[LedgerMetadata], LedgerMetadata]
    ) -> None:
        """Change the record, if the fragment is still the one that was repaired (rule RPR-12)."""
        for _ in range(_CAS_ATTEMPTS):
            after = changed(work.metadata)
            with suppress(BadVersionError):
                work.version = await self._ledgers.write(after, work.version)
                work.metadata = after
                return
            await self._read_again(work)
        raise RepairStuckError(f"the ledger's metadata changed during {_CAS_ATTEMPTS} attempts")

    async def _read_again(self, work: "_RangeRepair") -> None:
        stored, version = await self._ledgers.read(work.metadata.ledger_id)
        if stored.return_count != work.metadata.return_count:
            raise RepairStuckError(
                "a bookie returned surplus copies during the repair; it begins again"
            )
        if work.entry_range not in settled_ranges(stored, work.wanted_r):
            raise RepairStuckError(
                f"the fragment at entry {work.entry_range.first} changed during its repair"
            )
        work.metadata, work.version = stored, version


@dataclass(slots=True)
class _RangeRepair:
    """The repair of one fragment of a ledger in progress."""

    metadata: LedgerMetadata
    version: Version
    """The version of ``metadata``, which the next change replaces."""
    entry_range: EntryRange
    liveness: Liveness
    reader: LedgerReader
    wanted_r: int | None
    """R of the stream's policy; None if there is none."""
    complete: dict[BookieId, None] = field(default_factory=dict)
    """The bookies that have listed every entry of the range that they should have."""
