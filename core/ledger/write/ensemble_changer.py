"""Changes the ensemble of a live writer, one change at a time (rules LED-12 to LED-17, LED-25).

Failures that occur during a change are merged and handled when it has ended (bug B5). From the
moment the new fragment's first entry is derived from the LAC until the outcome of the
compare-and-set is known, the writer calls nothing back (bug B7). It uses only bookies that the
stored metadata names (bug B6). While the metadata store is unavailable, the writer continues as
long as the current ensemble satisfies P.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from ...protocol.bookie_id import BookieId, Region
from ...protocol.ensemble_change import ConflictOutcome, changed_ensemble, resolve_conflict
from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    InvariantBrokenError,
    LedgerClosedError,
    LedgerFencedError,
    LimitExceededError,
    MetadataError,
    NotEnoughBookiesError,
    RhumblineError,
    UnavailableError,
)
from ...protocol.ledger_metadata import LedgerMetadata
from ...protocol.placement import BookieInfo, is_as_spread
from ...protocol.quorum import Quorum, QuorumView
from ...runtime.metadata_store import Version
from ...runtime.tasks import wait_until_done
from ...wire.ledger_metadata import encode
from ..connection.round_trip import measure_round_trip_ms
from ..ensemble_choice import choose_replacements
from ..replica import Replica
from ..slow_departure import SlowDeparture
from .slow_members import is_no_weaker
from .writer_state import WriterState


class ChangeableWriter(Protocol):
    """The operations of a ledger writer that a change of its ensemble calls."""

    async def renew_copies(self, bookies: Sequence[BookieId]) -> int:
        """Makes bookies renew their copies of the metadata; returns the mask of the others."""
        ...

    def install(
        self,
        metadata: LedgerMetadata,
        version: Version,
        regions: Sequence[Region | None],
        old_copies: int = 0,
    ) -> None:
        """Adopts stored metadata with the regions of its last fragment's bookies.

        Bookies at the indices ``old_copies`` may not be counted.
        """
        ...

    def thaw(self) -> None:
        """Allows callbacks again, and calls back what is complete."""
        ...

    def fail(self, error: RhumblineError) -> None:
        """Fails the writer."""
        ...


class EnsembleChanger:
    """Runs the ensemble changes of one writer. Its task exists only while a change is wanted."""

    def __init__(self, state: WriterState, writer: ChangeableWriter) -> None:
        self._context = state.context
        self._state = state
        self._writer = writer
        self._wanted = 0
        self._min_regions: int | None = None
        self._slow: tuple[Replica, Callable[[SlowDeparture], None]] | None = None
        self._was_refused = False  # the store did not accept the last change
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """True while a change is under way."""
        return self._task is not None

    def replace(self, mask: int) -> None:
        """Requests other bookies at these indices, if they are still failed when it is handled."""
        self._wanted |= mask
        self._start()

    def leave(self, replica: Replica, on_left: Callable[[SlowDeparture], None]) -> None:
        """Requests another bookie instead of a slow one (rule LED-25).

        The request is dropped if an ensemble that is as good and without slow bookies does not
        exist, or if bookies fail meanwhile. Otherwise ``on_left`` is called once.
        """
        self._slow = replica, on_left
        self._start()

    def set_min_regions(self, min_regions: int) -> None:
        """Requests another R for entries that are not confirmed yet (rule PLC-12).

        The request is dropped if no legal ensemble exists for it now: repeat it. Raises
        IllegalQuorumError if R does not fit the ledger's other numbers.
        """
        if min_regions == (self._min_regions or self._state.view.quorum.min_regions):
            return
        replace(self._state.view.quorum, min_regions=min_regions)  # raises if R does not fit
        self._min_regions = min_regions
        self._start()

    async def wait_idle(self) -> None:
        """Returns when no change is under way and no outcome is unknown."""
        while self._task is not None:
            await wait_until_done(self._task)

    def _start(self) -> None:
        if not self._context.tasks.is_closed and self._state.begin_change():
            name = f"change ensemble of ledger {self._state.ledger_id}"
            self._task = self._context.tasks.spawn(self._run(), name)

    async def _run(self) -> None:
        wait_ms_max = self._context.config.replacement_wait_ms_max
        try:
            backoff = self._context.backoff(wait_ms_max)
            while self._has_work():
                try:
                    proposal = await self._propose()
                    if proposal is None:
                        continue
                    if await self._commit(*proposal):
                        backoff = self._context.backoff(wait_ms_max)
                        continue
                except NotEnoughBookiesError as error:
                    if self._slow is not None or not self._is_urgent():
                        self._drop()  # P holds without it; requested again if it lasts
                        return
                    if backoff.is_over:
                        self._writer.fail(error)
                        return
                except (UnavailableError, IndeterminateError):
                    pass  # the metadata store is unavailable and nothing was changed: try again
                except RhumblineError as error:
                    self._writer.fail(error)
                    if isinstance(error, InvariantBrokenError):
                        raise  # a bug: the owner of the task reports it with its story
                    return
                await backoff.pause()
        finally:
            self._task = None
            self._state.end_change()

    def _has_work(self) -> bool:
        """Drops requests that are obsolete, and returns whether any is left.

        A replica that has recovered needs no change, and a failed writer changes nothing. A slow
        bookie stays while bookies have failed or another R is wanted.
        """
        state = self._state
        self._wanted &= state.failed_mask
        if self._min_regions == state.view.quorum.min_regions:
            self._min_regions = None
        is_needed = self._wanted > 0 or self._min_regions is not None
        if self._slow is not None:
            replica = self._slow[0]
            if is_needed or state.failed_mask or state.replicas[replica.index] is not replica:
                self._slow = None
        return state.failure is None and (is_needed or self._slow is not None)

    def _drop(self) -> None:
        """Drops all requests."""
        self._wanted = 0
        self._min_regions = None
        self._slow = None

    def _is_urgent(self) -> bool:
        """Returns whether P cannot be satisfied without a change.

        A changed R alone is not urgent: entries are acknowledged under the stored R until then.
        """
        return self._state.view.must_change_ensemble(self._state.failed_mask)

    # --- choosing -------------------------------------------------------------------------------

    async def _propose(self) -> tuple[LedgerMetadata, list[Region | None]] | None:
        """Returns the next value of the metadata and the regions of its ensemble.

        Reads the LAC and freezes the writer in one step, without waiting in between. Returns None
        if the requests changed while the stores were read.
        """
        candidates = await self._context.candidates(self._state.metadata)
        wanted = self._wanted, self._min_regions, self._slow
        bookies, quorum = await self._choose(candidates)
        regions = await self._context.regions_of(bookies)
        if not self._is_urgent():
            await self._check_store()
        if not self._has_work() or wanted != (
            self._wanted,
            self._min_regions,
            self._slow,
        ):
            return None
        return self._freeze_and_change(bookies, quorum), regions

    async def _check_store(self) -> None:
        """Raises what the metadata store raises, unless it responds.

        P holds without this change, so callbacks must not stop for a store that is unavailable. A
        store may respond to reads only. After a change that it did not accept, it is therefore
        checked by a write, of the value that is stored already.
        """
        state, ledgers = self._state, self._context.ledgers
        if not self._was_refused:
            await ledgers.read(state.ledger_id)
            return
        with suppress(BadVersionError):  # the change itself finds out who wrote
            state.rewritten(await ledgers.write(state.metadata, state.version))
        self._was_refused = False

    async def _choose(
        self, candidates: Sequence[BookieInfo]
    ) -> tuple[tuple[BookieId, ...], Quorum]:
        """Returns an ensemble that replaces as many of the wanted indices as possible, and the
        quorum that applies to it.

        If nothing can be replaced under a lower R that was requested, and P then needs no
        replacement, R alone changes. If nothing is legal under an R that was requested, wanted
        replacements are made under the present R, so that a raised R that cannot be satisfied yet
        stops no writer. Raises NotEnoughBookiesError if nothing can be done.
        """
        state = self._state
        present = state.view.quorum
        if self._slow is not None:
            return await self._choose_faster(self._slow[0], candidates), present
        if self._min_regions is None:
            return await self._choose_for(present, candidates), present
        requested = replace(present, min_regions=self._min_regions)
        try:
            return await self._choose_for(requested, candidates), requested
        except NotEnoughBookiesError:
            if not self._wanted:
                raise
        is_lower = requested.min_regions < present.min_regions
        view = QuorumView(requested, state.view.regions)
        if is_lower and not view.must_change_ensemble(state.failed_mask):
            return state.metadata.last_fragment.bookies, requested
        return await self._choose_for(present, candidates), present

    async def _choose_for(
        self, quorum: Quorum, candidates: Sequence[BookieInfo]
    ) -> tuple[BookieId, ...]:
        """Returns an ensemble for ``quorum``.

        A change of R also replaces the failed bookies that P needs from then on, because the
        entries after it would wait for them.
        """
        state = self._state
        wanted = self._wanted
        if quorum != state.view.quorum and QuorumView(
            quorum, state.view.regions
        ).must_change_ensemble(state.failed_mask):
            wanted |= state.failed_mask
        tiers = await self._context.reachable_first(candidates, is_urgent=self._is_urgent())
        return await choose_replacements(
            self._context.placement,
            quorum,
            self._members(candidates),
            wanted,
            tiers,
            random=self._context.runtime.random,
            ledger=state.ledger_id,
            rule=state.metadata.spread_rule(),
        )

    async def _choose_faster(
        self, slow: Replica, candidates: Sequence[BookieInfo]
    ) -> tuple[BookieId, ...]:
        """Returns an ensemble without the slow bookie that is otherwise at least as good.

        The other bookie must respond much faster now than the slow one, since a path may be slow
        instead of the bookie. Raises NotEnoughBookiesError if there is none.
        """
        view = self._state.view
        fast = self._context.fast(candidates)
        bookies = self._context.placement.replace(
            view.quorum,
            self._members(candidates),
            (slow.index,),
            fast,
            random=self._context.runtime.random,
            rule=self._state.metadata.spread_rule(),
        )
        target = next(info for info in fast if info.bookie == bookies[slow.index])
        regions = [*view.regions[: slow.index], target.region, *view.regions[slow.index + 1 :]]
        if not (
            is_no_weaker(view, QuorumView(view.quorum, regions))
            and is_as_spread(view.quorum, self._members(candidates), slow.index, target)
        ):
            raise NotEnoughBookiesError(f"only weaker ensembles exist without {slow.bookie}")
        await self._check_is_nearer(bookies[slow.index], slow)
        return bookies

    async def _check_is_nearer(self, bookie: BookieId, slow: Replica) -> None:
        """Raises NotEnoughBookiesError unless the bookie responds twice as fast as the slow one."""
        pool = self._context.pool
        latency = pool.link(slow.bookie).traffic.latency
        slow_ms = latency.recent_ms(asyncio.get_running_loop().time()) or 0.0
        try:
            round_trip_ms = await measure_round_trip_ms(pool, bookie)
        except UnavailableError as error:
            raise NotEnoughBookiesError(f"{bookie} cannot be reached: {error}") from error
        if 2 * round_trip_ms > slow_ms:
            raise NotEnoughBookiesError(
                f"{bookie} responds in {round_trip_ms:.0f} ms, "
                f"not in half of the {slow_ms:.0f} ms of {slow.bookie}"
            )

    def _members(self, candidates: Sequence[BookieInfo]) -> list[BookieInfo]:
        known = {info.bookie: info for info in candidates}
        return [
            known.get(replica.bookie)
            or self._context.directory.last_known(replica.bookie, replica.region)
            for replica in self._state.replicas
        ]

    def _freeze_and_change(self, bookies: tuple[BookieId, ...], quorum: Quorum) -> LedgerMetadata:
        state = self._state
        config = self._context.config
        proposed = changed_ensemble(
            state.metadata, last_add_confirmed=state.last_add_confirmed, bookies=bookies
        )
        if quorum != state.view.quorum:
            proposed = proposed.with_r(state.last_add_confirmed + 1, quorum.min_regions)
        size = len(encode(proposed))
        if len(proposed.fragments) > config.fragments_max or size > config.metadata_bytes_max:
            raise LimitExceededError(
                f"ledger {state.ledger_id}: {len(proposed.fragments)} fragments, {size} bytes of "
                f"metadata; the limits are {config.fragments_max} and {config.metadata_bytes_max}"
            )
        state.freeze()
        return proposed

    # --- committing -----------------------------------------------------------------------------

    async def _commit(self, proposed: LedgerMetadata, regions: list[Region | None]) -> bool:
        """Writes ``proposed``; the writer stays frozen until the outcome is known.

        Returns True if the stored value was installed (this one or another's) or made the writer
        fail. Returns False if certainly nothing was written, or if the writer has failed meanwhile:
        its close then reads what is stored.
        """
        state, writer = self._state, self._writer
        is_certain = True  # every attempt so far had a known outcome
        backoff = self._context.backoff()
        try:
            while True:
                try:
                    version = await self._context.ledgers.write(proposed, state.version)
                    break
                except BadVersionError:
                    if await self._resolve_conflict(proposed, regions):
                        return True
                except IndeterminateError:
                    is_certain = False
                except (UnavailableError, MetadataError):
                    if is_certain:
                        self._was_refused = True
                        return False
                except RhumblineError as error:
                    writer.fail(error)
                    return True
                if state.failure is not None:
                    return False
                await backoff.pause()
            first = proposed.last_fragment.first_entry_id
            assert first == state.last_add_confirmed + 1, "nothing was confirmed (bug B7)"
            before = state.metadata.last_fragment.bookies
            await self._install(proposed, version, regions)
            self._report_departure(before)
            return True
        finally:
            writer.thaw()

    async def _install(
        self, stored: LedgerMetadata, version: Version, regions: Sequence[Region | None]
    ) -> None:
        """Adopts stored metadata.

        If its R is lower than before, only bookies count from then on that know it, so that it
        survives the loss of the metadata store (rule BAK-11).
        """
        state, old_copies = self._state, 0
        r = stored.quorum_at(state.last_add_confirmed + 1).min_regions
        if r < state.view.quorum.min_regions:
            old_copies = await self._writer.renew_copies(stored.last_fragment.bookies)
        self._writer.install(stored, version, regions, old_copies)

    def _report_departure(self, before: tuple[BookieId, ...]) -> None:
        """Reports that the slow bookie was left, if the installed ensemble does not have it."""
        if self._slow is None:
            return
        (replica, on_left), state = self._slow, self._state
        if state.replicas[replica.index] is not replica:
            self._slow = None
            after = state.metadata.last_fragment.bookies
            now = asyncio.get_running_loop().time()
            on_left(SlowDeparture(state.ledger_id, replica.bookie, before, after, now))

    async def _resolve_conflict(
        self, proposed: LedgerMetadata, regions: list[Region | None]
    ) -> bool:
        """Reads what is stored instead of ``proposed`` and acts on it (rule LED-16).

        Returns False if it is unchanged or cannot be read: ``proposed`` is then written again.
        """
        state, writer = self._state, self._writer
        try:
            stored, version = await self._context.ledgers.read(state.ledger_id)
            regions_stored = await self._context.regions_of(stored.last_fragment.bookies)
        except (UnavailableError, MetadataError):
            return False
        if stored == proposed:
            before = state.metadata.last_fragment.bookies
            await self._install(stored, version, regions)
            self._report_departure(before)
            return True
        if version == state.version:
            return False
        failed = {
            replica.index: replica.bookie
            for replica in state.replicas
            if self._wanted & replica.bit or (self._slow is not None and replica is self._slow[0])
        }
        match resolve_conflict(state.metadata, stored, failed):
            case ConflictOutcome.CLOSED:
                writer.fail(
                    LedgerClosedError(f"ledger {state.ledger_id} was closed by another client")
                )
            case ConflictOutcome.FENCED | ConflictOutcome.FOREIGN:
                writer.fail(LedgerFencedError(f"ledger {state.ledger_id} is being recovered"))
            case ConflictOutcome.RETRY | ConflictOutcome.SETTLED:
                await self._install(stored, version, regions_stored)
        return True
