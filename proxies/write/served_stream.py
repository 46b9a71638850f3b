"""A stream that a write proxy owns: record sets go to its writer, results come back.

Invariants (rules PRX-9, PRX-12):

1. Every submitted set gets exactly one result.
2. When the writer has failed or the stream was released (``is_over``), nothing more is submitted.
   The proxy takes the stream over again, with a new object, on the next append.
3. A numbered set that is sent again gets the result of the first attempt: from this object while it
   is recent, from the log's deduplication table, or from the log itself.
4. An idle stream has no task.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from ...core.log.policy import StreamPolicy
from ...core.log.write.batch import AppendMany
from ...core.log.write.stream_writer import StreamWriter
from ...core.protocol.dlsn import dlsn_in
from ...core.protocol.errors import (
    ClosedError,
    DuplicateRecordError,
    NotOwnerError,
    OverRateError,
    OwnershipLostError,
    RhumblineError,
)
from ...core.runtime.histogram import Histogram
from ..homes.region_rates import RegionRates
from .append_item import Appended, AppendItem, OnAppended
from .duplicate_lookup import DuplicateLookup
from .rate_limits import RecordLimits
from .sequence_index import SequenceIndex

RECENT_SETS_MAX = 4096
"""Numbered sets whose results are kept, in addition to those in flight."""

_ACKS_RECENT = 256
_ACKS_STEPS = 4

_StoredPosition = tuple[int, int, int, tuple[str, ...]]
"""lssn, entry id, slot and regions of an acknowledged set.

A plain tuple, because the garbage collector does not track a tuple of plain values. Keeping tickets
instead stopped all streams for 0.1 s in a collection.
"""


class ServedStream:
    """Feeds one writer. ``on_over`` is called once, when the stream is no longer served."""

    def __init__(
        self,
        writer: StreamWriter,
        sequence_index: SequenceIndex,
        limits: RecordLimits,
        on_over: Callable[[], None],
        origins: RegionRates,
    ) -> None:
        """``origins`` counts the records by the region of the client."""
        self.is_over = False
        self.origins = origins
        self.record_count = 0
        self.set_count = 0
        self.byte_count = 0
        self.acks = Histogram(steps=_ACKS_STEPS, decay=_ACKS_RECENT)
        """Times of recent sets until they were acknowledged, within 9 %."""
        self._writer = writer
        self._limits = limits
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._recent: dict[tuple[bytes, int], AppendMany | _StoredPosition] = {}
        self._lookups = DuplicateLookup(writer.stream, sequence_index, self._end)

    @property
    def policy(self) -> StreamPolicy:
        """The policy of the stream, as its writer applies it."""
        return self._writer.policy

    def submit(self, item: AppendItem, on_result: OnAppended) -> None:
        """Append a record set. If it is refused, ``on_result`` is called immediately."""
        assert not self.is_over
        began = self._loop.time()
        try:
            ticket = self._find_recent(item) or self._append(item)
            if isinstance(ticket, tuple):
                lssn, entry_id, slot, regions = ticket
                position = dlsn_in(self._writer.stream_id, lssn, entry_id, slot)
                on_result(Appended(position, item.count, regions))
                return
        except DuplicateRecordError as error:
            self._lookups.add(item, error, on_result)
            return
        except (OwnershipLostError, ClosedError) as error:
            self._end()
            on_result(NotOwnerError(f"stream {item.stream} is no longer served here: {error}"))
            return
        except RhumblineError as error:
            if self._writer.failure is not None:
                self._end()
            on_result(error)
            return
        ticket.on_done(partial(self._on_settled, ticket, item, began, on_result))

    async def close(self) -> None:
        """Wait until everything is acknowledged and close the segment; call ``abort`` afterwards.

        Raises what ``StreamWriter.close`` raises.
        """
        self._end()
        await self._writer.close()

    async def end_stream(self) -> None:
        """End the stream permanently after all submitted sets; call ``abort`` afterwards.

        Raises what ``StreamWriter.end_stream`` raises.
        """
        self._end()
        await self._writer.end_stream()

    async def abort(self) -> None:
        """Stop immediately: sets that are not acknowledged get an unknown outcome."""
        self._end()
        await self._writer.abort()  # which settles everything, so every set gets its result
        await self._lookups.aclose()

    # --- parts ----------------------------------------------------------------------------------

    def _find_recent(self, item: AppendItem) -> AppendMany | _StoredPosition | None:
        if not item.is_numbered:
            return None
        return self._recent.get((item.producer, item.first_sequence))

    def _append(self, item: AppendItem) -> AppendMany:
        if self._limits.is_on:
            wait_ms = self._limits.wait_ms(item.count, len(item.record_set), self._loop.time())
            if wait_ms:
                raise OverRateError(f"stream {item.stream} exceeds its rate limit", wait_ms)
        ticket = self._writer.append_set(
            item.record_set,
            keeps_txids=item.keeps_txids,
            trace=item.trace,
            expected=item.expected,
        )
        self.record_count += item.count
        self.set_count += 1
        self.origins.add(item.client_region, item.count, self._loop.time())
        self.byte_count += len(item.record_set)
        if item.is_numbered:
            self._remember((item.producer, item.first_sequence), ticket)
        return ticket

    def _remember(self, key: tuple[bytes, int], ticket: AppendMany) -> None:
        recent = self._recent
        recent[key] = ticket
        while len(recent) > RECENT_SETS_MAX:
            oldest = next(iter(recent))
            if not isinstance(recent[oldest], tuple):
                break
            del recent[oldest]

    def _on_settled(
        self, ticket: AppendMany, item: AppendItem, began: float, on_result: OnAppended
    ) -> None:
        try:
            first, regions = ticket.placement()
        except (OwnershipLostError, ClosedError) as error:
            self._end()
            on_result(NotOwnerError(f"not appended: {error}"))
        except RhumblineError as error:
            if not item.is_conditional or self._writer.failure is not None:
                self._end()
            on_result(error)
        else:
            if item.is_numbered:
                stored = (first.lssn, first.entry_id, first.slot, regions)
                self._recent[item.producer, item.first_sequence] = stored
            self.acks.add(self._loop.time() - began)
            on_result(Appended(first, item.count, regions))

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._on_over()
