"""Writes the tail of a ledger in recovery again, so that P holds for it (rule REC-13).

Ensemble changes remain local until the recovery's final write records them (rule REC-14, bug B3).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from ...protocol.bookie_id import BookieId
from ...protocol.ensemble_change import replaced_indices
from ...protocol.errors import NotEnoughBookiesError, RhumblineError
from ...protocol.ledger_metadata import Fragment, LedgerMetadata
from ...protocol.placement import NO_RULE, BookieInfo
from ...protocol.quorum import QuorumView
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ..connection.v3_responses import error_in
from ..context import LedgerContext
from ..ensemble_choice import choose_live_ensemble


class _Add:
    """One entry that is being written again. ``acks`` holds indices of the current ensemble."""

    __slots__ = ("acks", "entry_id", "request")

    def __init__(self, entry_id: int, request: pb.Request) -> None:
        self.entry_id = entry_id
        self.request = request
        self.acks = 0


class RecoveryAdds:
    """The writer of a recovery: sends recovery adds in order, with a bounded number pending.

    A bookie that fails receives nothing more from this recovery. It is replaced only if the others
    can no longer satisfy P.
    """

    def __init__(
        self,
        context: LedgerContext,
        snapshot: LedgerMetadata,
        first_entry_id: int,
        key: bytes,
        min_regions: int | None,
    ) -> None:
        self.fragments: list[Fragment] = []
        self._context = context
        self._snapshot = snapshot
        self._ledger_id = snapshot.ledger_id
        self._first_entry_id = first_entry_id
        self._next_entry_id = first_entry_id
        self._key = key
        quorum = snapshot.quorum_at(first_entry_id)
        wanted = quorum.min_regions if min_regions is None else snapshot.possible_r(min_regions)
        self._is_other_r = wanted != quorum.min_regions
        self._quorum = replace(quorum, min_regions=wanted)
        self._bookies: tuple[BookieId, ...] = snapshot.last_fragment.bookies
        self._pending: deque[_Add] = deque()
        self._failed = 0
        self._wake: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Reads the regions of the bookies. Call it once, before ``add``."""
        self._regions = await self._context.regions_of(self._bookies)
        self._view = QuorumView(self._quorum, self._regions)

    @property
    def recorded_min_regions(self) -> tuple[int, int] | None:
        """The (first entry id, R) to record if entries were written with another R, else None."""
        if not self._is_other_r or self._next_entry_id == self._first_entry_id:
            return None
        return self._first_entry_id, self._quorum.min_regions

    async def add(self, entry_id: int, entry: bytes) -> None:
        """Writes the next entry's unchanged bytes and waits until there is room for another.

        Raises NotEnoughBookiesError if P can no longer be satisfied.
        """
        assert entry_id == self._next_entry_id, "entries are written in order, without gaps"
        self._next_entry_id += 1
        request = v3.add_request(0, self._ledger_id, entry_id, self._key, entry, is_recovery=True)
        add = _Add(entry_id, request)
        self._pending.append(add)
        self._send(add, self._quorum.write_set(entry_id))
        config = self._context.config
        affordable = max(1, config.recovery_window_bytes // len(entry))
        await self.wait_pending(min(affordable, config.recovery_window) - 1)

    async def wait_pending(self, count_max: int) -> None:
        """Waits until at most ``count_max`` entries wait for their quorum."""
        while len(self._pending) > count_max:
            if self._view.must_change_ensemble(self._failed):
                await self._change()
                continue
            self._wake = asyncio.get_running_loop().create_future()
            await self._wake

    def _send(self, add: _Add, indices: tuple[int, ...]) -> None:
        for index in indices:
            if self._failed >> index & 1:
                continue
            bookie = self._bookies[index]
            link = self._context.pool.message_link(bookie)
            connection = link.connect()
            on_response = partial(self._on_response, add, index, bookie)
            if connection is None or not connection.send_message(add.request, on_response):
                asyncio.get_running_loop().call_soon(on_response, link.last_error, None)

    def _on_response(
        self,
        add: _Add,
        index: int,
        bookie: BookieId,
        error: RhumblineError | None,
        response: pb.Response | None,
    ) -> None:
        if self._bookies[index] != bookie:
            return  # responses of a replaced bookie do not count
        if error_in(error, response) is not None:
            self._failed |= 1 << index
            self._context.pool.on_failure(bookie)
        else:
            add.acks |= 1 << index
            while self._pending and self._view.is_acked(self._pending[0].acks):
                self._pending.popleft()
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    async def _choose(
        self, ensemble: Sequence[BookieInfo], candidates: Sequence[BookieInfo]
    ) -> tuple[BookieId, ...]:
        """Chooses other members by the ledger's spread rule; without it if that is impossible.

        A stream whose last ledger cannot be closed has no writer, and P does not need the rule.
        """
        context = self._context
        rule = self._snapshot.spread_rule()
        for chosen in (rule, NO_RULE):
            try:
                return await choose_live_ensemble(
                    context.placement,
                    self._quorum,
                    ensemble,
                    self._failed,
                    candidates,
                    random=context.runtime.random,
                    ledger=self._ledger_id,
                    rule=chosen,
                )
            except NotEnoughBookiesError:
                if chosen is NO_RULE or not rule:
                    raise
        raise AssertionError("the last choice returns or raises")

    async def _change(self) -> None:
        """Replaces failed bookies from the first entry on that waits for its quorum.

        Those for which there is no other bookie keep their index: repair fills it later.
        """
        candidates = await self._context.candidates(self._snapshot)
        known = {info.bookie: info for info in candidates}
        ensemble = [
            known.get(bookie) or self._context.directory.last_known(bookie, region)
            for bookie, region in zip(self._bookies, self._regions, strict=True)
        ]
        bookies = await self._choose(ensemble, candidates)
        regions = await self._context.regions_of(bookies)
        if not self._pending:
            return
        replaced = replaced_indices(self._bookies, bookies)
        self._bookies = bookies
        self._regions = regions
        self._view = QuorumView(self._quorum, regions)
        gone = sum(1 << index for index in replaced)
        self._failed &= ~gone
        first = self._pending[0].entry_id
        self.fragments = [f for f in self.fragments if f.first_entry_id < first]
        self.fragments.append(Fragment(first, bookies))
        for add in self._pending:
            add.acks &= ~gone
        for add in self._pending:
            write_set = self._quorum.write_set(add.entry_id)
            self._send(add, tuple(index for index in replaced if index in write_set))
