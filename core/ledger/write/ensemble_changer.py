"""Changes the ensemble of a live writer: one machine, one change at a time (protocol rule 1.4).

Failures that arrive while a change runs are merged and looked at when it has ended (bug B5). From
the moment at which the new fragment's first entry is taken from the LAC until the outcome of the
compare-and-set is known, the writer calls nothing back (bug B7). What the stored metadata does not
say is not used (bug B6). While the metadata store is away the writer goes on as far as P allows.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING

from ...protocol.bookie_id import BookieId, Region
from ...protocol.ensemble_change import Next, changed_ensemble, reconsider
from ...protocol.errors import (
    BadVersionError,
    IndeterminateError,
    LedgerClosedError,
    LedgerFencedError,
    LimitExceededError,
    MetadataError,
    NotEnoughBookiesError,
    RhumblineError,
    UnavailableError,
)
from ...protocol.ledger_metadata import LedgerMetadata
from ...protocol.placement import BookieInfo
from ...protocol.quorum import QuorumView
from ...runtime.tasks import settled
from ...wire.ledger_metadata import encode
from ..context import Backoff, LedgerContext

if TYPE_CHECKING:
    from .ledger_writer import LedgerWriter


class EnsembleChanger:
    """The change machine of one writer. Its task lives only while there is something to change."""

    def __init__(self, context: LedgerContext, writer: "LedgerWriter") -> None:
        self._context = context
        self._writer = writer
        self._wanted = 0
        self._min_regions: int | None = None
        self._was_refused = False  # the store did not take the last change
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether a change is under way."""
        return self._task is not None

    def replace(self, mask: int) -> None:
        """Wants other bookies at these indices, if what sits there is still failed by then."""
        self._wanted |= mask
        self._start()

    def set_min_regions(self, min_regions: int) -> None:
        """Wants entries that are not confirmed yet to be acknowledged under another R.

        Raises IllegalQuorumError when R does not fit the ledger's other numbers.
        """
        replace(self._writer.view.quorum, min_regions=min_regions)
        self._min_regions = min_regions
        self._start()

    async def wait_idle(self) -> None:
        """Returns when no change is under way and no outcome is unknown."""
        while self._task is not None:
            await settled(self._task)

    def _start(self) -> None:
        if self._task is None and not self._context.tasks.is_closed:
            name = f"change ensemble of ledger {self._writer.ledger_id}"
            self._task = self._context.tasks.spawn(self._run(), name)

    async def _run(self) -> None:
        try:
            backoff = Backoff(self._context, self._context.config.replacement_wait_ms_max)
            while self._still_wanted():
                try:
                    proposal = await self._propose()
                    if proposal is None:
                        continue
                    if await self._commit(*proposal):
                        backoff = Backoff(
                            self._context, self._context.config.replacement_wait_ms_max
                        )
                        continue
                except NotEnoughBookiesError as error:
                    if not self._is_urgent():
                        self._wanted = 0  # it works without; asked again if the failure lasts
                        return
                    if backoff.is_over:
                        self._writer.fail(error)
                        return
                except (UnavailableError, IndeterminateError):
                    pass  # the metadata store is away: nothing was changed, so try again
                except RhumblineError as error:
                    self._writer.fail(error)
                    return
                await backoff.pause()
        finally:
            self._task = None

    def _still_wanted(self) -> bool:
        """Failures that healed meanwhile need no change, and a failed writer changes nothing."""
        self._wanted &= self._writer.failures.mask
        if self._min_regions == self._writer.view.quorum.min_regions:
            self._min_regions = None
        return self._writer.failure is None and (self._wanted > 0 or self._min_regions is not None)

    def _is_urgent(self) -> bool:
        return self._min_regions is not None or self._writer.view.must_change_ensemble(
            self._writer.failures.mask
        )

    # --- choosing -------------------------------------------------------------------------------

    async def _propose(self) -> tuple[LedgerMetadata, list[Region | None]] | None:
        """The next value of the metadata; takes the LAC and freezes the writer in one step.

        None when what was wanted changed while the stores were asked.
        """
        candidates = await self._context.candidates(self._writer.metadata)
        wanted = self._wanted, self._min_regions
        bookies = self._choose(candidates)
        regions = await self._context.regions_of(bookies)
        if not self._is_urgent():
            await self._ask_store()
        if not self._still_wanted() or wanted != (self._wanted, self._min_regions):
            return None
        return self._freeze_and_change(bookies), regions

    async def _ask_store(self) -> None:
        """Acknowledging works without this change: makes sure that the store answers before
        callbacks stop for it, and raises what it raises.

        A store may answer reads alone. So after a change that it did not take, it is asked by a
        write, of what is stored already.
        """
        writer, ledgers = self._writer, self._context.ledgers
        if not self._was_refused:
            await ledgers.read(writer.ledger_id)
            return
        with suppress(BadVersionError):  # by whom, the change will see
            writer.version = await ledgers.write(writer.metadata, writer.version)
        self._was_refused = False

    def _choose(self, candidates: Sequence[BookieInfo]) -> tuple[BookieId, ...]:
        """Other bookies for as many of the wanted indices as can be had."""
        writer = self._writer
        quorum = writer.view.quorum
        if self._min_regions is not None:
            quorum = replace(quorum, min_regions=self._min_regions)
        known = {info.bookie: info for info in candidates}
        ensemble = [
            known.get(replica.bookie, BookieInfo(replica.bookie, replica.region))
            for replica in writer.replicas
        ]
        choices: Iterable[tuple[int, ...]]
        if self._wanted:
            choices = _subsets(self._wanted)
        elif QuorumView(quorum, writer.view.regions).is_legal():
            return writer.metadata.last_fragment.bookies
        else:  # another R needs other bookies: as few as possible
            choices = reversed(list(_subsets((1 << quorum.ensemble_size) - 1)))
        refused: NotEnoughBookiesError | None = None
        random = self._context.runtime.random
        for failed in choices:
            for some in (self._context.healthy(candidates), candidates):
                try:
                    return self._context.placement.replace(
                        quorum, ensemble, failed, some, random=random
                    )
                except NotEnoughBookiesError as error:
                    refused = refused or error
        assert refused is not None
        raise refused

    def _freeze_and_change(self, bookies: tuple[BookieId, ...]) -> LedgerMetadata:
        writer = self._writer
        config = self._context.config
        proposed = changed_ensemble(
            writer.metadata, last_add_confirmed=writer.last_add_confirmed, bookies=bookies
        )
        if self._min_regions is not None:
            proposed = proposed.with_r(writer.last_add_confirmed + 1, self._min_regions)
        size = len(encode(proposed))
        if len(proposed.fragments) > config.fragments_max or size > config.metadata_bytes_max:
            raise LimitExceededError(
                f"ledger {writer.ledger_id}: {len(proposed.fragments)} fragments, {size} bytes of "
                f"metadata; the limits are {config.fragments_max} and {config.metadata_bytes_max}"
            )
        writer.freeze()
        return proposed

    # --- committing -----------------------------------------------------------------------------

    async def _commit(self, proposed: LedgerMetadata, regions: list[Region | None]) -> bool:
        """Writes ``proposed``; the writer is frozen until the outcome is known.

        True: the stored value is installed, ours or another's, or the writer has failed by it.
        False: certainly nothing was written, or the writer has failed meanwhile and its close
        will see what was.
        """
        writer = self._writer
        is_certain = True  # no attempt of unknown outcome is out
        backoff = Backoff(self._context, None)
        try:
            while True:
                try:
                    version = await self._context.ledgers.write(proposed, writer.version)
                    first = proposed.last_fragment.first_entry_id
                    assert first == writer.last_add_confirmed + 1, "nothing was confirmed (bug B7)"
                    writer.install(proposed, version, regions)
                    return True
                except BadVersionError:
                    if await self._adopt(proposed, regions):
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
                if writer.failure is not None:
                    return False
                await backoff.pause()
        finally:
            writer.thaw()

    async def _adopt(self, proposed: LedgerMetadata, regions: list[Region | None]) -> bool:
        """Looks at what is stored instead; False: unchanged, or it cannot be seen: write again."""
        writer = self._writer
        try:
            stored, version = await self._context.ledgers.read(writer.ledger_id)
            regions_stored = await self._context.regions_of(stored.last_fragment.bookies)
        except (UnavailableError, MetadataError):
            return False
        if stored == proposed:
            writer.install(stored, version, regions)
            return True
        if version == writer.version:
            return False
        failed = {
            replica.index: replica.bookie
            for replica in writer.replicas
            if self._wanted & replica.bit
        }
        match reconsider(writer.metadata, stored, failed):
            case Next.CLOSED:
                writer.fail(LedgerClosedError(f"ledger {writer.ledger_id} was closed by another"))
            case Next.FENCED | Next.FOREIGN:
                writer.fail(LedgerFencedError(f"ledger {writer.ledger_id} is being recovered"))
            case Next.RETRY | Next.SETTLED:
                writer.install(stored, version, regions_stored)
        return True


def _subsets(mask: int) -> Iterator[tuple[int, ...]]:
    """The indices in ``mask``, then all their subsets, larger ones first."""
    indices = [index for index in range(mask.bit_length()) if mask >> index & 1]
    for size in range(len(indices), 0, -1):
        yield from combinations(indices, size)
