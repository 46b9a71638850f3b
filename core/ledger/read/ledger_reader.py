"""Reads one ledger: entries up to what is confirmed, and the news of what is.

Nothing above the LAC is ever returned. For an open ledger the LAC comes from the bookies of the
last fragment and only moves forward; for a closed one it is the end in the metadata.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from ...protocol.bookie_id import BookieId
from ...protocol.errors import (
    ClosedError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnavailableError,
)
from ...protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from ...protocol.quorum import QuorumView
from ...runtime.metadata_store import Version
from ...runtime.tasks import settled
from ...wire.entry import Entry, EntryDigest
from ..context import Backoff, LedgerContext
from .lac_read import read_lac
from .long_poll import PAUSE_MS_MIN, LongPoll
from .metadata_refresh import MetadataRefresh
from .range_reader import RangeReader


class LedgerReader:
    """Made by ``LedgerClient.open``. Any number of calls may run side by side."""

    def __init__(self, context: LedgerContext, metadata: LedgerMetadata, version: Version) -> None:
        self.ledger_id = metadata.ledger_id
        self.metadata = metadata
        self.last_add_confirmed = -1
        self.digest = EntryDigest(metadata.digest_type, metadata.password)
        self.context = context
        self._version = version
        self._ranges = RangeReader(context, metadata.ledger_id, self.digest)
        self._views: dict[Fragment, QuorumView] = {}
        self._piggyback: Entry | None = None
        self._poll: LongPoll | None = None
        self._refreshing: asyncio.Task[None] | None = None
        self._look: MetadataRefresh | None = None
        self._view_looks: dict[Fragment, MetadataRefresh] = {}
        self._is_hinted = False
        self._is_over = False
        self._refresh_lock = asyncio.Lock()
        self._watch = context.ledgers.watch(metadata.ledger_id, self._on_hint)
        context.handles[self] = None
        self._learn_end()

    @property
    def is_closed(self) -> bool:
        """Whether the ledger has its end: ``last_add_confirmed`` is its last entry then."""
        return self.metadata.state is LedgerState.CLOSED

    # --- metadata -------------------------------------------------------------------------------

    def _on_hint(self) -> None:
        """The metadata may have changed: read it again."""
        self._is_hinted = True
        if self._refreshing is None and not self._is_over and not self.context.tasks.is_closed:
            name = f"refresh ledger {self.ledger_id}"
            self._refreshing = self.context.tasks.spawn(self._follow_hints(), name)

    async def _follow_hints(self) -> None:
        backoff = Backoff(self.context, self.context.config.metadata_timeout_ms)
        try:
            while self._is_hinted and not self.is_closed and not self._is_over:
                self._is_hinted = False
                try:
                    await self.refresh()
                except NoSuchLedgerError:
                    return  # deleted: reads will say so
                except UnavailableError:
                    self._is_hinted = True
                    if backoff.is_over:
                        return  # the next hint or failed read tries again
                    await backoff.pause()
        finally:
            self._refreshing = None

    async def refresh(self) -> bool:
        """Reads the metadata again; True if it is not what it was. Safe to repeat.

        Raises NoSuchLedgerError and what the metadata store raises.
        """
        before = self._version
        async with self._refresh_lock:  # in order, so that an older value never replaces a newer
            if self._version == before:
                stored, version = await self.context.ledgers.read(self.ledger_id)
                if version != self._version:
                    self._install(stored, version)
        return self._version != before

    def _install(self, metadata: LedgerMetadata, version: Version) -> None:
        was_closed, before = self.is_closed, self.last_add_confirmed
        self.metadata = metadata
        self._version = version
        self._views.clear()
        self._learn_end()
        assert not was_closed or self.last_add_confirmed == before, "an end never moves"
        if self._poll is not None:
            self._poll.end()

    def _learn_end(self) -> None:
        if self.is_closed:
            self.last_add_confirmed = self.metadata.last_entry_id
            self._watch.close()
        else:
            # A fragment begins behind what was confirmed when it was made.
            self.learn_lac(self.metadata.last_fragment.first_entry_id - 1)

    async def view_of(self, fragment: Fragment) -> QuorumView:
        """The arithmetic of a fragment; bookies whose region cannot be looked up now have none."""
        if fragment not in self._views:
            self._check_open()
            look = self._view_looks.get(fragment)
            if look is None or look.is_over:
                look = MetadataRefresh(
                    self.context.tasks,
                    partial(self._learn_view, fragment),
                    f"regions of ledger {self.ledger_id}",
                )
                self._view_looks[fragment] = look
            await look.wait()
        view = self._views.get(fragment)
        if view is None:
            quorum = self.metadata.quorum_at(fragment.first_entry_id)
            return QuorumView(quorum, [None] * len(fragment.bookies))
        self._view_looks.pop(fragment, None)
        return view

    async def _learn_view(self, fragment: Fragment) -> None:
        regions = await self.context.regions_of(fragment.bookies)
        quorum = self.metadata.quorum_at(fragment.first_entry_id)
        self._views[fragment] = QuorumView(quorum, regions)
        if not self.context.tasks.is_closed:
            name = f"addresses of ledger {self.ledger_id}"
            self.context.tasks.spawn(self._learn_addresses(fragment.bookies), name)

    async def _learn_addresses(self, bookies: Sequence[BookieId]) -> None:
        """Any replica may be needed while the metadata store is away: its address is known then."""
        for bookie in bookies:
            with suppress(RhumblineError):
                await self.context.directory.registration(bookie)

    # --- entries --------------------------------------------------------------------------------

    async def read(self, first: int, last: int) -> list[Entry]:
        """Entries from ``first`` on, at least one and at most to ``last``, in order.

        How many is bounded by the configuration and by fragments: ask again for the rest. Raises
        InvalidArgumentError beyond the LAC, UnavailableError, CorruptionError, NoSuchEntryError
        (all replicas say so), NoSuchLedgerError.
        """
        self._check_open()
        if not 0 <= first <= last <= self.last_add_confirmed:
            raise InvalidArgumentError(
                f"ledger {self.ledger_id}: entries {first}..{last} of 0..{self.last_add_confirmed}"
            )
        last = min(last, first + self.context.config.read_batch_entries_max - 1)
        while True:
            version = self._version
            try:
                return await self._read_fragment(first, last)
            except RhumblineError as error:
                # The replicas that we know may be the wrong ones (bug B24): look again, and try
                # again only if that told anything new.
                is_current = self._version == version and await self._look_again()
                if self._version != version:
                    continue
                if isinstance(error, NoSuchEntryError) and not is_current:
                    # It is confirmed, so others have it: perhaps the ensemble has changed.
                    raise MetadataUnavailableError(
                        f"ledger {self.ledger_id}: no answer who has entry {first}"
                    ) from error
                raise error

    async def _look_again(self) -> bool:
        """Reads the metadata again; where the store is away, reads go on with what they know.

        Returns whether the store was asked and has answered since. Raises NoSuchLedgerError and
        what else the store says for good.
        """
        self._check_open()
        look = self._look
        is_new = look is None or look.is_over
        if look is None or is_new:
            name = f"look at ledger {self.ledger_id}"
            look = self._look = MetadataRefresh(self.context.tasks, self.refresh, name)
        await look.wait()
        return is_new and look.has_told

    async def _read_fragment(self, first: int, last: int) -> list[Entry]:
        fragments = self.metadata.fragments
        fragment = self.metadata.fragment_of(first)
        following = [f.first_entry_id for f in fragments if f.first_entry_id > first]
        last = min([last, *(start - 1 for start in following[:1])])
        return await self._ranges.read(fragment, await self.view_of(fragment), first, last)

    # --- what is confirmed ----------------------------------------------------------------------

    def learn_lac(self, lac: int) -> None:
        """A bookie or the metadata says that entries up to ``lac`` are confirmed."""
        if not self.is_closed and lac > self.last_add_confirmed:
            self.last_add_confirmed = lac
            if self._poll is not None and lac > self._poll.previous:
                self._poll.end()

    def keep(self, entry: Entry) -> None:
        """An entry that came along with a LAC."""
        self._piggyback = entry

    def hint(self) -> None:
        """Something suggests that the metadata has changed."""
        self._on_hint()

    async def update_last_add_confirmed(self, fresh: bool = True) -> int:
        """Asks for the LAC and returns it. Safe to repeat.

        ``fresh``: by quorum and current metadata, so that everything is seen whose confirmation a
        later entry or an explicit LAC carried before this call; otherwise the first news will do.
        Raises UnavailableError when too few bookies answer.
        """
        self._check_open()
        if fresh and not self.is_closed:
            await self.refresh()
        if not self.is_closed:
            fragment = self.metadata.last_fragment
            view = await self.view_of(fragment)
            self.learn_lac(await read_lac(self, fragment, view, fresh=fresh))
        return self.last_add_confirmed

    async def wait(self, beyond: int, timeout_ms: int) -> list[Entry]:
        """Waits until something behind entry ``beyond`` is confirmed.

        Returns entries from ``beyond + 1`` on; [] when the ledger is closed and ends at or before
        ``beyond`` (``is_closed``), or at the time-out. Raises as ``read``.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while self.last_add_confirmed <= beyond:
            self._check_open()
            left = deadline - loop.time()
            if self.is_closed or left <= 0:
                return []
            if self._poll is None or self._poll.is_ended:
                await self._start_poll()
            else:
                await self._poll.wait(left)
        entry = self._piggyback
        if entry is not None and entry.entry_id == beyond + 1:
            return [entry]
        return await self.read(beyond + 1, self.last_add_confirmed)

    async def _start_poll(self) -> None:
        view = await self.view_of(self.metadata.last_fragment)
        before = self._poll
        if before is not None and not before.is_ended:
            return  # somebody else was faster
        is_stuck = before is not None and before.previous == self.last_add_confirmed
        pause_ms = before.pause_ms if before is not None and is_stuck else PAUSE_MS_MIN
        self._poll = LongPoll(self, view, pause_ms)

    # --- the end --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_over:
            raise ClosedError(f"the reader of ledger {self.ledger_id} was closed")

    def abandon(self) -> None:
        """The client was closed, or this reader: calls that wait raise ClosedError."""
        self._is_over = True
        self._watch.close()
        self.context.handles.pop(self, None)
        if self._poll is not None:
            self._poll.end()

    async def aclose(self) -> None:
        """Stops watching; calls that wait raise ClosedError. Safe to repeat."""
        self.abandon()
        if self._refreshing is not None:
            self._refreshing.cancel()
            await settled(self._refreshing)
        for look in (self._look, *list(self._view_looks.values())):
            if look is not None:
                await look.aclose()
