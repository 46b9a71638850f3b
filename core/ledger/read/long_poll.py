"""Waits for a higher LAC of one ledger with long polls, which bookies answer when it arrives.

The poll is sent to the first replica in the read order. It is also sent to the next one if there is
no response for longer than the ledger's rhythm suggests, if the bookie seems to hang, and at the
latest after a fixed time. A replica that another one overtakes comes last in the order of this
reader until it responds. A bookie that hangs or is cut off from the writer thus delays a reader
once, for a bounded time.
"""

import asyncio
from functools import partial
from typing import Protocol

from ...protocol.errors import CorruptionError, RhumblineError, UnavailableError
from ...protocol.ledger_metadata import LedgerMetadata
from ...protocol.quorum import QuorumView
from ...runtime.primitives.backoff import Backoff
from ...wire import bookkeeper_pb2 as pb
from ...wire import v3
from ...wire.entry import Entry, EntryDigest
from ..connection.v3_responses import entry_in, error_in
from ..context import LedgerContext
from ..read_policy import ReadKind, ReplicaChoice
from .news_rhythm import NewsRhythm
from .replica_order import ReplicaOrder
from .speculative_request import ReplicaSequence

POLL_MS = 10_000
"""Timeout of one poll at a bookie, in milliseconds."""

_PAUSE_MS_MIN = 20  # pauses after polls that ended early without a higher LAC
_PAUSE_MS_MAX = 500

_OUTRUN_S = 0.25
"""A replica that learns the LAC later than another by more than this counts as slow.

Light in fiber needs 0.2 s around the Earth.
"""


class PollingReader(Protocol):
    """The attributes and operations of a ledger reader that its long poll uses."""

    ledger_id: int
    last_add_confirmed: int
    digest: EntryDigest
    metadata: LedgerMetadata
    context: LedgerContext
    rhythm: NewsRhythm
    replicas: ReplicaOrder

    def learn_lac(self, lac: int) -> None:
        """Raises the known LAC."""
        ...

    def keep(self, entry: Entry) -> None:
        """Keeps an entry that came with a LAC."""
        ...

    def hint(self) -> None:
        """Suggests that the metadata may have changed."""
        ...


class LongPoll(ReplicaSequence):
    """One poll of one reader, which all waiting calls share. It reports to ``reader.learn_lac``."""

    def __init__(
        self, reader: PollingReader, view: QuorumView, backoff: Backoff | None = None
    ) -> None:
        self.previous = reader.last_add_confirmed
        random = reader.context.runtime.random
        self.backoff = backoff or Backoff(random, _PAUSE_MS_MIN, _PAUSE_MS_MAX)
        self._reader = reader
        super().__init__(ReadKind.POLL, self._choose(view), reader.context.reads)
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._started = self._loop.time()
        self._send_next()

    def _choose(self, view: QuorumView) -> list[ReplicaChoice]:
        """Returns the read order. Replicas of the next entry come first, as they can send it."""
        bookies = self._reader.metadata.last_fragment.bookies
        holders = view.quorum.write_set(self.previous + 1)
        others = [index for index in range(len(bookies)) if index not in holders]
        return self._reader.replicas.choose(bookies, view, holders, others)

    @property
    def is_over(self) -> bool:
        """True once the poll has ended."""
        return self._ended.done()

    async def wait(self, seconds: float) -> None:
        """Waits until the poll has ended, at most ``seconds``."""
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
        """Ends the poll and wakes all waiting calls. Later responses still raise the LAC."""
        self._stop_timer()
        if not self._ended.done():
            self._ended.set_result(None)

    def _silence_ms(self, choice: ReplicaChoice) -> float:
        at_most_ms = super()._silence_ms(choice)
        usual_ms = self._reader.rhythm.silence_ms
        if usual_ms is None:
            return at_most_ms
        return min(at_most_ms, float(usual_ms * 2 ** max(0, self._sent_count - 1)))

    def _send(self, choice: ReplicaChoice) -> bool:
        reader = self._reader
        link = reader.context.pool.message_link(choice.bookie)
        connection = link.connect()
        request = v3.long_poll_request(
            0, reader.ledger_id, previous_lac=self.previous, timeout_ms=POLL_MS
        )
        on_response = partial(self._on_response, choice)
        if connection is None or not connection.send_message(
            request, on_response, extra_ms=POLL_MS
        ):
            return False
        link.hang_detector.begin(connection, self, choice)
        return True

    def on_silent(self, choice: ReplicaChoice) -> None:
        """Sends the poll to the next replica if it waits only at replicas that seem to hang."""
        if choice not in self._pending:
            return
        replicas = self._reader.replicas
        replicas.add_silent(choice.bookie)
        self._policy.on_failure(choice)
        if not self.is_over and all(replicas.is_silent(each.bookie) for each in self._pending):
            self._stop_timer()
            self._send_next()

    def _on_response(
        self, choice: ReplicaChoice, error: RhumblineError | None, response: pb.Response | None
    ) -> None:
        sent_at = self._pending.pop(choice)
        self._sent_count -= 1  # only the polls that wait at a bookie delay the next one
        self._reader.replicas.on_response(choice.bookie)
        self._reader.context.pool.message_link(choice.bookie).hang_detector.end(self, choice)
        error = error_in(error, response)
        if error is None:
            assert response is not None
            overtaken = self._sent_before(sent_at)
            if self._take_news(response, is_delayed=bool(overtaken)):
                self._report_news(choice, overtaken)
        elif isinstance(error, UnavailableError):
            self._reader.context.pool.on_failure(choice.bookie)
            self._policy.on_failure(choice)
        if self._ended.done():
            return
        if error is not None and self._order:
            self._stop_timer()
            self._send_next()
        elif not self._pending:
            self._on_exhausted()

    def _take_news(self, response: pb.Response, *, is_delayed: bool) -> bool:
        """Takes the LAC and entry of a response, and returns whether the LAC is higher.

        ``is_delayed``: a silent replica was waited for before this one received the poll.
        """
        body = response.read_response
        if not body.HasField("max_lac") or body.max_lac <= self.previous:
            return False
        if body.HasField("body"):
            try:
                entry, _ = entry_in(
                    response, self._reader.digest, self._reader.ledger_id, self.previous + 1
                )
                self._reader.keep(entry)
            except CorruptionError:
                pass  # the LAC is valid nevertheless; the entry is read from another replica
        if not self._ended.done():
            self._reader.rhythm.note(self._loop.time(), is_delayed=is_delayed)
        self._reader.learn_lac(body.max_lac)
        return True

    def _report_news(self, choice: ReplicaChoice, overtaken: list[ReplicaChoice]) -> None:
        """Reports who brought news, and replicas that were polled earlier as silent.

        Those that do not respond soon are then reported as slow.
        """
        self._policy.on_response(ReadKind.POLL, choice, 0.0, len(self._pending) + 1)
        for silent in overtaken:
            self._reader.replicas.add_silent(silent.bookie)
        if overtaken:
            self._loop.call_later(_OUTRUN_S, self._report_outrun, overtaken)

    def _report_outrun(self, overtaken: list[ReplicaChoice]) -> None:
        for choice in overtaken:
            if choice in self._pending:
                self._policy.on_outrun(choice)

    def _on_exhausted(self) -> None:
        """Ends the poll without a higher LAC.

        If it ended early, the ledger is empty, closed or on other bookies: the metadata is read
        again, and the poll ends after a pause.
        """
        if self._loop.time() - self._started >= POLL_MS / 1000 / 2:
            self.end()
            return
        self._reader.hint()
        self._timer = self._loop.call_later(self.backoff.next_s(), self.end)


def _wake(future: "asyncio.Future[None]", _: object) -> None:
    if not future.done():
        future.set_result(None)
