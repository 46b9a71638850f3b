"""Waits for news of one ledger at its bookies: woken by the LAC, not by a time-out.

The nearest replica is asked first. If it stays silent for a while the next is asked as well, so
that a bookie which was cut off from the writer costs a bounded delay and nothing else.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ...protocol.errors import CorruptionError, RhumblineError, UnavailableError
from ...protocol.quorum import QuorumView
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ..connection.v3_responses import entry_in, error_in
from .read_order import ReadKind, ReplicaChoice

if TYPE_CHECKING:
    from .ledger_reader import LedgerReader

POLL_MS = 10_000
"""How long a bookie parks one poll."""

PAUSE_MS_MIN = 20
"""First pause after a poll that ended at once without news; doubles."""

_PAUSE_MS_MAX = 500

_OUTRUN_S = 0.25
"""News reach the bookies of an ensemble at different times; one that lags more than this is slow.
(One way round the Earth takes light in fibre 0.2 s.)"""


class LongPoll:
    """One poll of one reader, shared by all who wait there. It reports to ``reader.learn_lac``."""

    def __init__(
        self, reader: "LedgerReader", view: QuorumView, pause_ms: int = PAUSE_MS_MIN
    ) -> None:
        self.previous = reader.last_add_confirmed
        self.pause_ms = pause_ms
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: dict[ReplicaChoice, float] = {}  # and when it was asked
        self._order = self._choose(view)
        self._started = self._loop.time()
        self._ask_next()

    def _choose(self, view: QuorumView) -> list[ReplicaChoice]:
        """The replicas that hold the next entry first: they can bring it along."""
        context = self._reader.context
        bookies = self._reader.metadata.last_fragment.bookies
        failed = context.pool.failed_lately()
        holders = view.quorum.write_set(self.previous + 1)
        others = [index for index in range(len(bookies)) if index not in holders]
        order: list[ReplicaChoice] = []
        for indices in (holders, others):
            order += context.reads.order(
                [
                    ReplicaChoice(i, bookies[i], view.regions[i], bookies[i] in failed)
                    for i in indices
                ]
            )
        return order

    @property
    def is_ended(self) -> bool:
        """Whether it has nothing more to tell."""
        return self._ended.done()

    async def wait(self, seconds: float) -> None:
        """Returns when the poll has ended or the time is up."""
        if self._ended.done():
            return
        woken: asyncio.Future[None] = self._loop.create_future()
        wake = partial(_wake, woken)
        self._ended.add_done_callback(wake)
        timer = self._loop.call_later(seconds, wake, None)
        try:
            await woken
        finally:
            timer.cancel()
            self._ended.remove_done_callback(wake)

    def end(self) -> None:
        """Wakes all who wait. Answers that come later still count as news."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._ended.done():
            self._ended.set_result(None)

    def _ask_next(self) -> None:
        self._timer = None
        if self._ended.done():
            return
        reader = self._reader
        while self._order:
            choice = self._order.pop(0)
            connection = reader.context.pool.message_link(choice.bookie).connect()
            request = v3.long_poll_request(
                0, reader.ledger_id, previous_lac=self.previous, timeout_ms=POLL_MS
            )
            on_answer = partial(self._on_answer, choice)
            if connection is not None and connection.send_message(
                request, on_answer, extra_ms=POLL_MS
            ):
                self._waiting[choice] = self._loop.time()
                self._watch_silence(choice)
                return
            reader.context.reads.on_failure(choice)
        if not self._waiting:
            self._end_empty()

    def _watch_silence(self, choice: ReplicaChoice) -> None:
        if self._order:
            asked = len(self._waiting)
            silence_ms = self._reader.context.reads.silence_ms(ReadKind.POLL, choice, asked)
            if silence_ms > 0:
                self._timer = self._loop.call_later(silence_ms / 1000, self._on_silence, choice)

    def _on_silence(self, choice: ReplicaChoice) -> None:
        self._timer = None
        if self._ended.done():
            return
        if self._reader.context.reads.may_ask_more(ReadKind.POLL):
            self._ask_next()
        else:
            self._watch_silence(choice)

    def _on_answer(
        self, choice: ReplicaChoice, error: RhumblineError | None, response: pb.Response | None
    ) -> None:
        asked_at = self._waiting.pop(choice)
        error = error_in(error, response)
        if error is None:
            assert response is not None
            if self._take(response):
                self._compare(choice, asked_at)
        elif isinstance(error, UnavailableError):
            self._reader.context.pool.on_failure(choice.bookie)
            self._reader.context.reads.on_failure(choice)
        if self._ended.done():
            return
        if error is not None and self._order:
            if self._timer is not None:
                self._timer.cancel()
            self._ask_next()
        elif not self._waiting:
            self._end_empty()

    def _take(self, response: pb.Response) -> bool:
        """Whether the answer brings news."""
        answer = response.read_response
        if not answer.HasField("max_lac") or answer.max_lac <= self.previous:
            return False
        if answer.HasField("body"):
            try:
                entry, _ = entry_in(
                    response, self._reader.digest, self._reader.ledger_id, self.previous + 1
                )
                self._reader.keep(entry)
            except CorruptionError:
                pass  # the LAC is news all the same; the entry is read elsewhere
        self._reader.learn_lac(answer.max_lac)
        return True

    def _compare(self, choice: ReplicaChoice, asked_at: float) -> None:
        """A replica that was asked earlier and does not have the news soon either is slow."""
        policy = self._reader.context.reads
        policy.on_answer(ReadKind.POLL, choice, 0.0, len(self._waiting) + 1)
        earlier = [one for one, at in self._waiting.items() if at < asked_at]
        if earlier:
            self._loop.call_later(_OUTRUN_S, self._look_at, earlier)

    def _look_at(self, earlier: list[ReplicaChoice]) -> None:
        for choice in earlier:
            if choice in self._waiting:
                self._reader.context.reads.on_outrun(choice)

    def _end_empty(self) -> None:
        """Nobody had news. If that came early the ledger is empty, ended or moved: look there."""
        if self._loop.time() - self._started >= POLL_MS / 1000 / 2:
            self.end()
            return
        self._reader.hint()
        self._timer = self._loop.call_later(self.pause_ms / 1000, self.end)
        self.pause_ms = min(2 * self.pause_ms, _PAUSE_MS_MAX)


def _wake(future: "asyncio.Future[None]", _: object) -> None:
    if not future.done():
        future.set_result(None)
