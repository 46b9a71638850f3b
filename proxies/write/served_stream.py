"""One stream that a write proxy owns: sets go into its writer, answers come out.

Invariants:

1. Every set that was submitted is answered exactly once.
2. After the writer failed or the stream was given up nothing more is submitted to it (``is_over``);
   the proxy takes the stream again, with another object, when somebody wants it.
3. A numbered set that is sent again gets the answer of the first one: from here while it is on its
   way, from the log's table of producers, or from the log itself.
4. An idle stream has no task.
"""

import asyncio
from collections.abc import Callable
from functools import partial

from ...core.log.write.batch import AppendMany
from ...core.log.write.stream_writer import StreamWriter
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    ClosedError,
    DuplicateRecordError,
    NotOwnerError,
    OverRateError,
    OwnershipLostError,
    RhumblineError,
)
from .append_item import Appended, AppendItem, Done
from .duplicate_lookup import DuplicateLookup
from .rate_limits import RecordLimits
from .sequence_index import SequenceIndex

RECENT_SETS_MAX = 4096
"""Numbered sets whose answers are kept; those on their way are kept beyond it."""

_Place = tuple[int, int, int, tuple[str, ...]]
"""Of an acknowledged set: lssn, entry id, slot, regions. The collector of garbage walks nothing of
it; when it walked what a ticket holds, all streams stood still for a tenth of a second."""


class ServedStream:
    """Feeds one writer. ``on_over`` is called once, when the stream is not served any more."""

    def __init__(
        self,
        writer: StreamWriter,
        places: SequenceIndex,
        limits: RecordLimits,
        on_over: Callable[[], None],
    ) -> None:
        self.is_over = False
        self.record_count = 0
        self.set_count = 0
        self._writer = writer
        self._limits = limits
        self._on_over = on_over
        self._loop = asyncio.get_running_loop()
        self._recent: dict[tuple[bytes, int], AppendMany | _Place] = {}
        self._lookups = DuplicateLookup(writer.stream, places, self._end)

    def submit(self, item: AppendItem, done: Done) -> None:
        """Appends a set. ``done`` is called at once when it is refused."""
        assert not self.is_over
        try:
            ticket = self._known(item) or self._appended(item)
            if isinstance(ticket, tuple):
                lssn, entry_id, slot, regions = ticket
                done(Appended(Dlsn(lssn, entry_id, slot), item.count, regions))
                return
        except DuplicateRecordError as error:
            self._lookups.add(item, error, done)
            return
        except (OwnershipLostError, ClosedError) as error:
            self._end()
            done(NotOwnerError(f"stream {item.stream} is not served here any more: {error}"))
            return
        except RhumblineError as error:
            if self._writer.failure is not None:
                self._end()
            done(error)
            return
        ticket.on_done(partial(self._answer, ticket, item, done))

    async def close(self) -> None:
        """Waits until everything is acknowledged, and closes the segment; ``abort`` ends it.

        Raises what ``StreamWriter.close`` does.
        """
        self._end()
        await self._writer.close()

    async def end_stream(self) -> None:
        """Ends the stream for good behind everything that was submitted; ``abort`` ends it.

        Raises what ``StreamWriter.end_stream`` does.
        """
        self._end()
        await self._writer.end_stream()

    async def abort(self) -> None:
        """Stops at once: what is not acknowledged is answered with an unknown outcome."""
        self._end()
        await self._writer.abort()  # which settles, and so answers, everything
        await self._lookups.aclose()

    # --- parts ----------------------------------------------------------------------------------

    def _known(self, item: AppendItem) -> AppendMany | _Place | None:
        if not item.is_numbered:
            return None
        return self._recent.get((item.producer, item.first_sequence))

    def _appended(self, item: AppendItem) -> AppendMany:
        if self._limits.is_on:
            wait_ms = self._limits.wait_ms(item.count, len(item.record_set), self._loop.time())
            if wait_ms:
                raise OverRateError(f"stream {item.stream} is above its rate", wait_ms)
        ticket = self._writer.append_set(
            item.record_set, keeps_txids=item.keeps_txids, trace=item.trace
        )
        self.record_count += item.count
        self.set_count += 1
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

    def _answer(self, ticket: AppendMany, item: AppendItem, done: Done) -> None:
        try:
            first, _, _, regions = ticket.result()
        except (OwnershipLostError, ClosedError) as error:
            self._end()
            done(NotOwnerError(f"not appended: {error}"))
        except RhumblineError as error:
            self._end()
            done(error)
        else:
            if item.is_numbered:
                place = (first.lssn, first.entry_id, first.slot, regions)
                self._recent[item.producer, item.first_sequence] = place
            done(Appended(first, item.count, regions))

    def _end(self) -> None:
        if not self.is_over:
            self.is_over = True
            self._on_over()
