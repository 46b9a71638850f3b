"""Sends the record sets of one producer in order and exactly once, without gRPC.

A *sender* is one numbered producer of one stream. It sends sets to the proxy that it believes to
own the stream. When a set is refused or a connection breaks, it waits until every set in flight has
a result, switches to the address that the results suggest, and sends all sets that are not
acknowledged again, in order. The log detects those that it already has, so the sender may retry
until the deadline.

Invariants (rules PRX-11, PRX-13):

1. At any time the sets in flight were sent to one address, in the order of their sequences.
2. A set is sent again only after every set that was sent after it has a result.
3. Sets are acknowledged or failed exactly once and in order; after a failure nothing is sent.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from ...core.log.write.batch import Batch
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import (
    AppendOutcomeUnknownError,
    DeadlineExceededError,
    NotOwnerError,
    OverRateError,
    QuotaExceededError,
    RhumblineError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from ...core.runtime.primitives.backoff import Backoff
from ...core.runtime.state_machine import StateMachine
from ..rpc.grpc_status import is_retryable
from ..write.append_item import Appended
from .sender_state import SENDER, SenderEvent, SenderState

SETS_IN_FLIGHT_MAX = 64
BYTES_IN_FLIGHT_MAX = 8 << 20
_PAUSE_MS_MIN = 10
_PAUSE_MS_MAX = 250


class OutgoingSet:
    """A record set that is queued or in flight."""

    __slots__ = ("batch", "deadline", "encoded", "expected", "has_result", "is_uncertain",
                 "keeps_txids", "appended", "sequence")  # fmt: skip

    def __init__(
        self,
        batch: Batch,
        encoded: bytes,
        *,
        sequence: int,
        keeps_txids: bool,
        deadline: float,
        expected: Dlsn | None = None,
    ) -> None:
        self.batch = batch
        self.encoded = encoded
        self.sequence = sequence
        self.keeps_txids = keeps_txids
        self.deadline = deadline
        self.expected = expected
        self.has_result = True
        self.is_uncertain = False  # an attempt had an unknown outcome
        self.appended: Appended | None = None
        """The result of the set, while sets before it are not acknowledged yet."""

    @property
    def may_be_stored(self) -> bool:
        """True if the stream may contain the set although no result confirmed it."""
        return self.is_uncertain or not self.has_result


class Transport(Protocol):
    """Carries record sets to proxies."""

    def candidates(self, key: tuple[str, str]) -> tuple[str, ...]:
        """Return the known proxies, the likeliest owner of the stream first; at least one."""
        ...

    def send(
        self,
        address: str,
        key: tuple[str, str],
        outgoing: OutgoingSet,
        on_result: Callable[[Appended | RhumblineError], None],
        *,
        restarts: bool,
        tried: tuple[str, ...],
    ) -> None:
        """Send one set. ``on_result`` is called exactly once, later.

        If the connection breaks, it gets an UnknownOutcomeError if the set may have arrived.
        """
        ...

    def before_sending(self, address: str, callback: Callable[[], None], delay_ms_max: int) -> None:
        """Call back when the next message to a proxy is about to be sent, which is soon.

        ``delay_ms_max`` limits the time for which many producers share that message.
        """
        ...

    def owner(self, key: tuple[str, str]) -> str | None:
        """Return the address that last served the stream (namespace, name), for any sender."""
        ...

    def set_owner(self, key: tuple[str, str], address: str | None) -> None:
        """Note the address that serves the stream; None: unknown."""
        ...


class ProducerSender:
    """Sends the sets of one producer.

    ``on_settled`` is called with the batch of each set that was acknowledged or has failed, and
    ``on_change`` after that.
    """

    def __init__(
        self,
        transport: Transport,
        key: tuple[str, str],
        random: Random,
        on_change: Callable[[], None],
        on_settled: Callable[[Batch], None],
    ) -> None:
        self.failure: RhumblineError | None = None
        self.outstanding_bytes = 0
        self.resent_count = 0
        self._transport = transport
        self._key = key
        self._random = random
        self._on_change = on_change
        self._on_settled = on_settled
        self._loop = asyncio.get_running_loop()
        self._queue: deque[OutgoingSet] = deque()
        self._sent: deque[OutgoingSet] = deque()  # not acknowledged
        self._sent_bytes = 0
        self._awaited_results = 0
        self._address = ""
        self._restarts = True
        self._machine = StateMachine(SENDER, key[1], now=self._loop.time, check=self._check)
        self._retry_cause: RhumblineError | None = None  # of the present or last retry
        self._backoff = Backoff(random, _PAUSE_MS_MIN, _PAUSE_MS_MAX)
        self._tried: dict[str, None] = {}
        self._pause_timer: asyncio.TimerHandle | None = None  # pause before a retry
        self._deadline_timer: asyncio.TimerHandle | None = None  # deadline of the oldest set
        self._predecessor: Batch | None = None  # newest batch of the sender to follow

    @property
    def can_send(self) -> bool:
        """True if a set submitted now would be sent immediately."""
        return not self._queue and self._may_send()

    @property
    def last(self) -> Batch | None:
        """The newest batch that is not settled, or None."""
        newest = self._queue or self._sent
        return newest[-1].batch if newest else self._predecessor

    def follow(self, other: "ProducerSender") -> None:
        """Send nothing until everything that ``other`` holds now is settled; fail if that fails."""
        predecessor = self._predecessor = other.last
        if predecessor is not None:
            predecessor.callbacks.append(lambda: self._on_predecessor_settled(predecessor, other))

    def _on_predecessor_settled(self, predecessor: Batch, other: "ProducerSender") -> None:
        self._predecessor = None
        if predecessor.failure is not None and other.failure is not None:
            self.fail(other.failure)
        else:
            self._pump()
            self._on_change()

    def before_sending(self, callback: Callable[[], None], delay_ms_max: int) -> None:
        """Call back, soon, when a set that is submitted then would be sent immediately."""
        self._transport.before_sending(self._current_address(), callback, delay_ms_max)

    def submit(self, outgoing: OutgoingSet) -> None:
        """Send a set after all earlier ones."""
        if self.failure is not None:
            self._settle(outgoing.batch, self.failure, ())
            return
        self.outstanding_bytes += len(outgoing.encoded)
        self._queue.append(outgoing)
        if self._deadline_timer is None:
            self._arm_deadline()
        self._pump()

    def fail(self, failure: RhumblineError) -> None:
        """Stop sending. Sets that may have arrived get an unknown outcome."""
        if self.failure is not None:
            return
        self.failure = failure
        self._machine.take(SenderEvent.FAIL)
        for timer in (self._pause_timer, self._deadline_timer):
            if timer is not None:
                timer.cancel()
        sets, self._sent, self._queue = [*self._sent, *self._queue], deque(), deque()
        self.outstanding_bytes = 0
        for outgoing in sets:
            if outgoing.appended is not None:
                self._acknowledge(outgoing.batch, outgoing.appended)
                continue
            error = failure
            if outgoing.may_be_stored and not isinstance(failure, UnknownOutcomeError):
                error = AppendOutcomeUnknownError(f"sent but not acknowledged: {failure}")
                error.__cause__ = failure
            self._settle(outgoing.batch, error, ())
        self._on_change()

    def _acknowledge(self, batch: Batch, appended: Appended) -> None:
        batch.lssn, batch.entry_id, batch.first_slot = appended.first
        batch.stream_id = appended.first.stream_id
        self._settle(batch, None, appended.regions)

    def _settle(
        self, batch: Batch, failure: RhumblineError | None, regions: tuple[str, ...]
    ) -> None:
        batch.settle(failure, regions)
        self._on_settled(batch)

    # --- sending --------------------------------------------------------------------------------

    def _may_send(self) -> bool:
        return (
            self._machine.state is SenderState.SENDING
            and self._predecessor is None
            and len(self._sent) < SETS_IN_FLIGHT_MAX
            and self._sent_bytes < BYTES_IN_FLIGHT_MAX
        )

    def _pump(self) -> None:
        while self._queue and self._may_send():
            outgoing = self._queue.popleft()
            if outgoing.appended is None:
                self._send(outgoing)
            else:
                self._sent.append(outgoing)  # it is acknowledged; sets before it are not

    def _send(self, outgoing: OutgoingSet) -> None:
        address = self._current_address()
        outgoing.has_result = False
        self._sent.append(outgoing)
        self._sent_bytes += len(outgoing.encoded)
        self._awaited_results += 1
        restarts, self._restarts = self._restarts, False
        self._transport.send(
            address,
            self._key,
            outgoing,
            lambda answer: self._on_result(outgoing, answer),
            restarts=restarts,
            tried=tuple(self._tried),
        )

    def _current_address(self) -> str:
        if not self._address:
            owner = self._transport.owner(self._key)
            self._address = owner or self._transport.candidates(self._key)[0]
        return self._address

    def _on_result(self, outgoing: OutgoingSet, answer: Appended | RhumblineError) -> None:
        if self.failure is not None:
            return
        assert not outgoing.has_result
        outgoing.has_result = True
        self._awaited_results -= 1
        if isinstance(answer, Appended):
            self._on_appended(outgoing, answer)
        elif not is_retryable(answer):
            self.fail(answer)
            return
        else:
            self._on_refused(outgoing, answer)
        if self._machine.state is SenderState.SETTLING and self._awaited_results == 0:
            self._resend_all()
        else:
            self._pump()
        self._on_change()

    def _on_appended(self, outgoing: OutgoingSet, appended: Appended) -> None:
        outgoing.appended = appended
        outgoing.encoded, size = b"", len(outgoing.encoded)
        self._sent_bytes -= size
        self.outstanding_bytes -= size
        sent = self._sent
        if sent[0] is outgoing:
            while sent and (head := sent[0]).appended is not None:
                sent.popleft()
                self._acknowledge(head.batch, head.appended)
            self._arm_deadline()
        if self._backoff.failures:
            self._backoff.reset()
            self._tried.clear()
            if self._machine.state is SenderState.SENDING:
                self._retry_cause = None
            self._transport.set_owner(self._key, self._address)

    def _on_refused(self, outgoing: OutgoingSet, error: RhumblineError) -> None:
        if isinstance(error, UnknownOutcomeError):
            outgoing.is_uncertain = True
        if self._machine.state is SenderState.SENDING:
            self._machine.take(SenderEvent.REFUSE)
            self._retry_cause = error
        elif isinstance(error, NotOwnerError) and error.owner:
            self._retry_cause = error

    # --- switching to another proxy --------------------------------------------------------------

    def _resend_all(self) -> None:
        """Send all sets that are not acknowledged again, now that none is in flight."""
        error = self._retry_cause
        assert error is not None
        self._machine.take(SenderEvent.SETTLE)
        self.resent_count += sum(outgoing.appended is None for outgoing in self._sent)
        self._queue.extendleft(reversed(self._sent))
        self._sent.clear()
        self._sent_bytes = 0
        self._restarts = True
        pause_s = self._backoff.next_s()
        if isinstance(error, TooManyRequestsError):  # the proxy owns the stream and is busy
            if isinstance(error, OverRateError):
                pause_s = max(pause_s, error.retry_after_ms / 1000)
        else:
            self._tried[self._address] = None
            self._address = self._next_address(error)
            self._transport.set_owner(self._key, self._address)
            if self._backoff.failures <= 2:
                pause_s = 0.0
        self._pause_timer = self._loop.call_later(pause_s, self._end_pause)

    def _end_pause(self) -> None:
        self._pause_timer = None
        self._machine.take(SenderEvent.RESUME)
        self._pump()

    def _check(self) -> None:
        state = self._machine.state
        assert (self.failure is not None) is (state is SenderState.FAILED), "failed by half"
        assert state is not SenderState.PAUSING or self._awaited_results == 0, "sets are in flight"

    def _next_address(self, error: RhumblineError) -> str:
        if isinstance(error, NotOwnerError) and error.owner:
            return error.owner
        candidates = self._transport.candidates(self._key)
        for address in candidates:
            if address not in self._tried:
                return address
        # All addresses were tried: begin again, without the one that has just failed.
        self._tried = {self._address: None}
        others = [address for address in candidates if address != self._address]
        return others[self._random.randrange(len(others))] if others else self._address

    # --- deadline -------------------------------------------------------------------------------

    def _arm_deadline(self) -> None:
        """Start the deadline timer if none runs; a timer that fires too early is started again."""
        if self._deadline_timer is None and self.failure is None:
            oldest = self._sent or self._queue
            if oldest:
                self._deadline_timer = self._loop.call_at(oldest[0].deadline, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline_timer = None
        oldest = self._sent or self._queue
        if oldest and self._loop.time() >= oldest[0].deadline:
            self.fail(self._deadline_error())
        else:
            self._arm_deadline()

    def _deadline_error(self) -> RhumblineError:
        """Return the error of sets that were not acknowledged in time: of a quota, if that is why.

        ``fail`` gives an unknown outcome to those that may be stored.
        """
        cause = self._retry_cause
        text = f"; last error: {cause}" if cause is not None else ""
        message = f"not acknowledged before the deadline{text}"
        if isinstance(cause, QuotaExceededError):
            return QuotaExceededError(message, cause.retry_after_ms)
        return DeadlineExceededError(message)
