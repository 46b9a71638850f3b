"""Reads one ledger: its entries up to the LAC, and the progress of the LAC.

Nothing above the LAC is ever returned. The LAC of an open ledger comes from the bookies of its last
fragment and only increases (rule LED-22). The LAC of a closed ledger is the end that its metadata
records.

For a caller that keeps up with the ledger, the next long poll is sent as soon as one has brought
news, while the caller still takes the entries. Otherwise each entry would wait for two round trips:
that of the read before it, and its own.
"""

import asyncio
from collections import deque
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
from ...runtime.primitives.single_flight import SingleFlight
from ...wire.entry import Entry, EntryDigest
from ..context import LedgerContext
from .lac_read import read_lac
from .long_poll import LongPoll
from .metadata_refresh import MetadataRefresh
from .news_rhythm import NewsRhythm
from .range_reader import RangeReader
from .read_pipeline import ReadPipeline
from .replica_order import ReplicaOrder

_KEPT_MAX = 2
"""One entry that the caller takes now, and one that the next poll brings meanwhile."""


class LedgerReader:
    """A reader that ``LedgerClient.open`` returned. Its methods may be called concurrently."""

    def __init__(
        self, context: LedgerContext, metadata: LedgerMetadata, version: Version | None
    ) -> None:
        """``version`` None: it is not known, so that ``refresh`` takes what it reads for new."""
        self.ledger_id = metadata.ledger_id
        self.metadata = metadata
        self.last_add_confirmed = -1
        self.digest = EntryDigest(metadata.digest_type, metadata.password)
        self.context = context
        self.rhythm = NewsRhythm()
        self.replicas = ReplicaOrder(context)
        self._version = version
        self._ranges = RangeReader(context, self.replicas, metadata.ledger_id, self.digest)
        self._pipeline = ReadPipeline(
            self._read, context.config, f"read ledger {metadata.ledger_id}"
        )
        self._views: dict[Fragment, QuorumView] = {}
        self._kept: deque[Entry] = deque(maxlen=_KEPT_MAX)  # the newest that came with a LAC
        self._wanted = 0  # the highest entry that a caller has asked for
        self._poll: LongPoll | None = None
        self._hints = SingleFlight(
            context.tasks, self._follow_hint, f"refresh ledger {metadata.ledger_id}"
        )
        self._metadata_refresh: MetadataRefresh | None = None
        self._view_refreshes: dict[Fragment, MetadataRefresh] = {}
        self._is_abandoned = False
        self._refresh_lock = asyncio.Lock()
        self._watch = context.ledgers.watch(metadata.ledger_id, self._on_hint)
        context.handles[self] = None
        self._learn_end()

    @property
    def is_closed(self) -> bool:
        """True if the ledger is closed: ``last_add_confirmed`` is then its last entry."""
        return self.metadata.state is LedgerState.CLOSED

    # --- metadata -------------------------------------------------------------------------------

    def _on_hint(self) -> None:
        """Reads the metadata again in the background, since it may have changed."""
        if not self._is_abandoned:
            self._hints.request()

    async def _follow_hint(self) -> None:
        backoff = self.context.backoff(self.context.config.metadata_timeout_ms)
        while not self.is_closed and not self._is_abandoned:
            try:
                await self.refresh()
                return
            except NoSuchLedgerError:
                return  # deleted: reads raise it
            except UnavailableError:
                if backoff.is_over:
                    return  # the next hint or failed read tries again
                await backoff.pause()

    async def refresh(self) -> bool:
        """Reads the metadata again and returns whether it has changed. Safe to repeat.

        Raises NoSuchLedgerError and what the metadata store raises.
        """
        before = self._version
        async with self._refresh_lock:  # one at a time: an older value never replaces a newer one
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
        assert not was_closed or self.last_add_confirmed == before, (
            "the end of a closed ledger never changes"
        )
        if self._poll is not None:
            self._poll.end()

    def _learn_end(self) -> None:
        if self.is_closed:
            self.last_add_confirmed = self.metadata.last_entry_id
            self._watch.close()
        else:
            # A fragment was created to begin right above the LAC of that moment.
            self.learn_lac(self.metadata.last_fragment.first_entry_id - 1)

    async def view_of(self, fragment: Fragment) -> QuorumView:
        """Returns the quorum predicate of a fragment.

        If the regions of its bookies cannot be read now, the bookies count as having none.
        """
        if fragment not in self._views:
            self._check_open()
            refresh = self._view_refreshes.get(fragment)
            if refresh is None or refresh.is_done:
                refresh = MetadataRefresh(
                    self.context.tasks,
                    partial(self._learn_view, fragment),
                    f"regions of ledger {self.ledger_id}",
                )
                self._view_refreshes[fragment] = refresh
            await refresh.wait()
        view = self._views.get(fragment)
        if view is None:
            quorum = self.metadata.quorum_at(fragment.first_entry_id)
            return QuorumView(quorum, [None] * len(fragment.bookies))
        self._view_refreshes.pop(fragment, None)
        return view

    async def _learn_view(self, fragment: Fragment) -> None:
        regions = await self.context.regions_of(fragment.bookies)
        quorum = self.metadata.quorum_at(fragment.first_entry_id)
        self._views[fragment] = QuorumView(quorum, regions)
        if not self.context.tasks.is_closed:
            name = f"addresses of ledger {self.ledger_id}"
            self.context.tasks.spawn(self._learn_addresses(fragment.bookies), name)

    async def _learn_addresses(self, bookies: Sequence[BookieId]) -> None:
        """Caches the bookies' addresses for reads while the metadata store is unavailable."""
        for bookie in bookies:
            with suppress(RhumblineError):
                await self.context.directory.registration(bookie)

    # --- entries --------------------------------------------------------------------------------

    async def read(self, first: int, last: int, ahead_bytes: int = 0) -> list[Entry]:
        """Returns one or more entries from ``first`` on, at most up to ``last``, in order.

        With ``ahead_bytes``, about as many bytes of the entries behind them are read before the
        next call asks for them; only one caller at a time may do so.
        Their number is limited by the settings and by the end of the fragment: call it again for
        the rest. Raises InvalidArgumentError for entries above the LAC, UnavailableError,
        CorruptionError, NoSuchEntryError (if all replicas respond so), and NoSuchLedgerError.
        """
        self._check_open()
        if not 0 <= first <= last <= self.last_add_confirmed:
            raise InvalidArgumentError(
                f"ledger {self.ledger_id}: entries {first}..{last} are not within "
                f"0..{self.last_add_confirmed}"
            )
        self._wanted = max(self._wanted, first)
        for entry in self._kept:
            if entry.entry_id == first:
                return [entry]
        if ahead_bytes:
            return await self._pipeline.read(first, last, ahead_bytes)
        return await self._read(first, last)

    async def _read(self, first: int, last: int) -> list[Entry]:
        last = min(last, first + self.context.config.read_batch_entries_max - 1)
        while True:
            version = self._version
            try:
                return await self._read_fragment(first, last)
            except RhumblineError as error:
                # The known ensemble may be out of date (bug B24): read the metadata, and retry
                # only if it has changed.
                is_current = self._version == version and await self._refresh_metadata()
                if self._version != version:
                    continue
                if isinstance(error, NoSuchEntryError) and not is_current:
                    # The entry is confirmed, so a changed ensemble may hold it.
                    raise MetadataUnavailableError(
                        f"ledger {self.ledger_id}: no known bookie has entry {first}, and the "
                        "metadata cannot be read now"
                    ) from error
                raise error

    async def _refresh_metadata(self) -> bool:
        """Reads the metadata again, waiting for a limited time.

        Returns whether a refresh that this call started has succeeded. If the store is unavailable,
        reads continue with the known metadata. Raises NoSuchLedgerError and other permanent errors
        of the store.
        """
        self._check_open()
        refresh = self._metadata_refresh
        is_new = refresh is None or refresh.is_done
        if refresh is None or is_new:
            name = f"read the metadata of ledger {self.ledger_id}"
            refresh = self._metadata_refresh = MetadataRefresh(
                self.context.tasks, self.refresh, name
            )
        await refresh.wait()
        return is_new and refresh.has_succeeded

    async def _read_fragment(self, first: int, last: int) -> list[Entry]:
        fragments = self.metadata.fragments
        fragment = self.metadata.fragment_of(first)
        following = [f.first_entry_id for f in fragments if f.first_entry_id > first]
        last = min([last, *(start - 1 for start in following[:1])])
        return await self._ranges.read(fragment, await self.view_of(fragment), first, last)

    # --- the LAC --------------------------------------------------------------------------------

    def learn_lac(self, lac: int) -> None:
        """Raises the known LAC to ``lac``, unless it is already higher or the ledger is closed."""
        if self.is_closed or lac <= self.last_add_confirmed:
            return
        self.last_add_confirmed = lac
        poll = self._poll
        if poll is None or poll.is_over or lac <= poll.previous:
            return
        poll.end()
        view = self._views.get(self.metadata.last_fragment)
        if view is not None and self._wanted > poll.previous:
            self._poll = LongPoll(self, view)  # the caller keeps up, and will wait again

    def keep(self, entry: Entry) -> None:
        """Keeps an entry that came with a LAC, for the next ``wait`` or ``read``."""
        self._kept.append(entry)

    def hint(self) -> None:
        """Reads the metadata again, since something suggests that it has changed."""
        self._on_hint()

    async def update_last_add_confirmed(self, fresh: bool = True) -> int:
        """Reads the LAC from the bookies and returns it. Safe to repeat.

        If ``fresh``, the metadata is read first and enough bookies must respond to see every LAC
        that a later entry or an explicit LAC carried before this call. Otherwise the first response
        with a higher LAC is sufficient. Raises UnavailableError if too few bookies respond.
        """
        self._check_open()
        if fresh and not self.is_closed:
            await self.refresh()
        if not self.is_closed:
            fragment = self.metadata.last_fragment
            view = await self.view_of(fragment)
            lac = await read_lac(
                self.context.pool,
                self.ledger_id,
                self.digest,
                fragment,
                view,
                known=self.last_add_confirmed,
                fresh=fresh,
            )
            self.learn_lac(lac)
        return self.last_add_confirmed

    async def wait(self, beyond: int, timeout_ms: int) -> list[Entry]:
        """Waits until an entry above ``beyond`` is confirmed.

        Returns entries from ``beyond + 1`` on. Returns [] at the timeout, or if the ledger is
        closed (``is_closed``) and ends at or before ``beyond``. Raises like ``read``.
        """
        self._wanted = max(self._wanted, beyond + 1)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1000
        while self.last_add_confirmed <= beyond:
            self._check_open()
            left = deadline - loop.time()
            if self.is_closed or left <= 0:
                return []
            if self._poll is None or self._poll.is_over:
                await self._start_poll()
            else:
                await self._poll.wait(left)
        return await self.read(beyond + 1, self.last_add_confirmed)

    async def _start_poll(self) -> None:
        view = await self.view_of(self.metadata.last_fragment)
        before = self._poll
        if before is not None and not before.is_over:
            return  # another call has started one
        is_stuck = before is not None and before.previous == self.last_add_confirmed
        self._poll = LongPoll(self, view, before.backoff if before and is_stuck else None)

    # --- the end --------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self._is_abandoned:
            raise ClosedError(f"the reader of ledger {self.ledger_id} was closed")

    def abandon(self) -> None:
        """Ends this reader, or its client was closed: waiting calls raise ClosedError."""
        self._is_abandoned = True
        self._watch.close()
        self.context.handles.pop(self, None)
        if self._poll is not None:
            self._poll.end()

    async def aclose(self) -> None:
        """Closes the reader and its watch; waiting calls raise ClosedError. Safe to repeat."""
        self.abandon()
        await self._pipeline.aclose()
        await self._hints.aclose()
        for refresh in (self._metadata_refresh, *list(self._view_refreshes.values())):
            if refresh is not None:
                await refresh.aclose()
