"""The thin client's way of getting record sets into a stream, in order and once, apart from gRPC.

A *sender* is one numbered producer of one stream. It sends sets to the proxy that it believes to
own the stream. When one is refused, or a connection breaks, it waits until every set on its way
has an answer, turns to where the answers say, and sends all that are not acknowledged again, in
order; the log recognises those that it has. So it may be repeated until the deadline.

Invariants:

1. At any time the sets on their way were sent to one address, in order of their sequences.
2. A set is sent again only after every set that was sent after it has been answered.
3. Sets are acknowledged or failed exactly once, in order; after a failure nothing is sent any more.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Protocol

from ...core.log.write.batch import Batch
from ...core.protocol.errors import (
    AppendOutcomeUnknownError,
    DeadlineExceededError,
    NotOwnerError,
    OverRateError,
    RhumblineError,
    TooManyRequestsError,
    UnknownOutcomeError,
)
from ..rpc.grpc_status import is_worth_a_retry
from ..write.append_item import Appended

SETS_IN_FLIGHT_MAX = 64
BYTES_IN_FLIGHT_MAX = 8 << 20
_PAUSE_MS_MIN = 5
_PAUSE_MS_MAX = 250


class Outgoing:
    """A set on its way."""

    __slots__ = ("batch", "deadline", "encoded", "is_answered", "is_uncertain", "keeps_txids",
                 "placed", "sequence")  # fmt: skip

    def __init__(
        self, batch: Batch, encoded: bytes, *, sequence: int, keeps_txids: bool, deadline: float
    ) -> None:
        self.batch = batch
        self.encoded = encoded
        self.sequence = sequence
        self.keeps_txids = keeps_txids
        self.deadline = deadline
        self.is_answered = True
        self.is_uncertain = False  # some try of it had an unknown outcome
        self.placed: Appended | None = None
        """Where it is, while sets before it are not acknowledged yet."""

    @property
    def may_be_there(self) -> bool:
        """Whether the stream may have it although nobody said so."""
        return self.is_uncertain or not self.is_answered


class Transport(Protocol):
    """Carries sets to proxies."""

    @property
    def addresses(self) -> tuple[str, ...]:
        """The proxies that are known, the nearest first; at least one."""
        ...

    def send(
        self,
        address: str,
        key: tuple[str, str],
        out: Outgoing,
        on_answer: Callable[[Appended | RhumblineError], None],
        *,
        restarts: bool,
        tried: tuple[str, ...],
    ) -> None:
        """Sends one set; calls back exactly once, later, also when the connection breaks (then
        with an UnknownOutcomeError if the set may have arrived)."""
        ...

    def before_sending(self, address: str, callback: Callable[[], None]) -> None:
        """Calls back when the next message to a proxy is about to leave, which is soon."""
        ...

    def owner(self, key: tuple[str, str]) -> str | None:
        """The address that last served the stream (namespace, name), for any sender."""
        ...

    def set_owner(self, key: tuple[str, str], address: str | None) -> None:
        """Notes who serves the stream."""
        ...


class ProducerSender:
    """Sends the sets of one producer. ``on_change`` is called after sets were settled."""

    def __init__(
        self,
        transport: Transport,
        key: tuple[str, str],
        random: Random,
        on_change: Callable[[], None],
    ) -> None:
        self.failure: RhumblineError | None = None
        self.outstanding_bytes = 0
        self.resent_count = 0
        self._transport = transport
        self._key = key
        self._random = random
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._queue: deque[Outgoing] = deque()
        self._sent: deque[Outgoing] = deque()  # not acknowledged
        self._sent_bytes = 0
        self._unanswered = 0
        self._address = ""
        self._restarts = True
        self._trouble: RhumblineError | None = None  # why all must be answered before more is sent
        self._failures = 0  # in a row
        self._tried: dict[str, None] = {}
        self._timer: asyncio.TimerHandle | None = None  # pause before sending again
        self._alarm: asyncio.TimerHandle | None = None  # deadline of the oldest
        self._followed: Batch | None = None  # of another sender: nothing is sent before it is there

    @property
    def can_send(self) -> bool:
        """Whether a set submitted now would leave at once."""
        return not self._queue and self._may_send()

    @property
    def last(self) -> Batch | None:
        """The newest that is not settled."""
        newest = self._queue or self._sent
        return newest[-1].batch if newest else self._followed

    def follow(self, other: "ProducerSender") -> None:
        """Sends nothing before all that ``other`` has now is settled; fails if that fails."""
        followed = self._followed = other.last
        if followed is not None:
            followed.callbacks.append(lambda: self._on_followed(followed, other))

    def _on_followed(self, followed: Batch, other: "ProducerSender") -> None:
        self._followed = None
        if followed.failure is not None and other.failure is not None:
            self.fail(other.failure)
        else:
            self._pump()
            self._on_change()

    def before_sending(self, callback: Callable[[], None]) -> None:
        """Calls back when a set that is submitted then leaves at once, which is soon."""
        self._transport.before_sending(self._where(), callback)

    def submit(self, out: Outgoing) -> None:
        """Sends a set behind all earlier ones."""
        if self.failure is not None:
            out.batch.settle(self.failure, ())
            return
        self.outstanding_bytes += len(out.encoded)
        self._queue.append(out)
        if self._alarm is None:
            self._set_alarm()
        self._pump()

    def fail(self, failure: RhumblineError) -> None:
        """Nothing is sent any more. Sets that may have arrived have an unknown outcome."""
        if self.failure is not None:
            return
        self.failure = failure
        for timer in (self._timer, self._alarm):
            if timer is not None:
                timer.cancel()
        sets, self._sent, self._queue = [*self._sent, *self._queue], deque(), deque()
        self.outstanding_bytes = 0
        for out in sets:
            if out.placed is not None:
                _acknowledge(out.batch, out.placed)
                continue
            error = failure
            if out.may_be_there and not isinstance(failure, UnknownOutcomeError):
                error = AppendOutcomeUnknownError(f"sent and not acknowledged: {failure}")
                error.__cause__ = failure
            out.batch.settle(error, ())
        self._on_change()

    # --- sending --------------------------------------------------------------------------------

    def _may_send(self) -> bool:
        return (
            self._trouble is None
            and self._timer is None
            and self._followed is None
            and len(self._sent) < SETS_IN_FLIGHT_MAX
            and self._sent_bytes < BYTES_IN_FLIGHT_MAX
        )

    def _pump(self) -> None:
        while self._queue and self._may_send():
            out = self._queue.popleft()
            if out.placed is None:
                self._send(out)
            else:
                self._sent.append(out)  # only those before it are sent again

    def _send(self, out: Outgoing) -> None:
        address = self._where()
        out.is_answered = False
        self._sent.append(out)
        self._sent_bytes += len(out.encoded)
        self._unanswered += 1
        restarts, self._restarts = self._restarts, False
        self._transport.send(
            address,
            self._key,
            out,
            lambda answer: self._on_answer(out, answer),
            restarts=restarts,
            tried=tuple(self._tried),
        )

    def _where(self) -> str:
        if not self._address:
            owner = self._transport.owner(self._key)
            self._address = owner or self._transport.addresses[0]
        return self._address

    def _on_answer(self, out: Outgoing, answer: Appended | RhumblineError) -> None:
        if self.failure is not None:
            return
        assert not out.is_answered
        out.is_answered = True
        self._unanswered -= 1
        if isinstance(answer, Appended):
            self._placed(out, answer)
        elif not is_worth_a_retry(answer):
            self.fail(answer)
            return
        else:
            self._refused(out, answer)
        if self._trouble is not None and self._unanswered == 0:
            self._turn()
        else:
            self._pump()
        self._on_change()

    def _placed(self, out: Outgoing, placed: Appended) -> None:
        out.placed = placed
        out.encoded, size = b"", len(out.encoded)
        self._sent_bytes -= size
        self.outstanding_bytes -= size
        sent = self._sent
        if sent[0] is out:
            while sent and (head := sent[0]).placed is not None:
                sent.popleft()
                _acknowledge(head.batch, head.placed)
            self._set_alarm()
        if self._failures:
            self._failures = 0
            self._tried.clear()
            self._transport.set_owner(self._key, self._address)

    def _refused(self, out: Outgoing, error: RhumblineError) -> None:
        if isinstance(error, UnknownOutcomeError):
            out.is_uncertain = True
        if self._trouble is None or (isinstance(error, NotOwnerError) and error.owner):
            self._trouble = error

    # --- turning to somebody else ---------------------------------------------------------------

    def _turn(self) -> None:
        """Every set has an answer: begin again with those that are not acknowledged."""
        error, self._trouble = self._trouble, None
        assert error is not None
        self.resent_count += sum(out.placed is None for out in self._sent)
        self._queue.extendleft(reversed(self._sent))
        self._sent.clear()
        self._sent_bytes = 0
        self._restarts = True
        self._failures += 1
        pause_ms = min(_PAUSE_MS_MIN << min(self._failures, 16), _PAUSE_MS_MAX)
        if isinstance(error, TooManyRequestsError):  # it is the owner, and busy
            if isinstance(error, OverRateError):
                pause_ms = max(pause_ms, error.retry_after_ms)
        else:
            self._tried[self._address] = None
            self._address = self._next_address(error)
            self._transport.set_owner(self._key, self._address)
            if self._failures <= 2:
                pause_ms = 0
        delay_s = pause_ms * (0.5 + self._random.random() / 2) / 1000
        self._timer = self._loop.call_later(delay_s, self._go_on)

    def _go_on(self) -> None:
        self._timer = None
        self._pump()

    def _next_address(self, error: RhumblineError) -> str:
        if isinstance(error, NotOwnerError) and error.owner:
            return error.owner
        for address in self._transport.addresses:
            if address not in self._tried:
                return address
        # All were tried: begin again, and leave out only the one that has just failed.
        self._tried = {self._address: None}
        others = [one for one in self._transport.addresses if one != self._address]
        return others[self._random.randrange(len(others))] if others else self._address

    # --- deadline -------------------------------------------------------------------------------

    def _set_alarm(self) -> None:
        """Lazily: an alarm that comes too early looks again."""
        if self._alarm is None and self.failure is None:
            oldest = self._sent or self._queue
            if oldest:
                self._alarm = self._loop.call_at(oldest[0].deadline, self._on_alarm)

    def _on_alarm(self) -> None:
        self._alarm = None
        oldest = self._sent or self._queue
        if oldest and self._loop.time() >= oldest[0].deadline:
            why = f"; last: {self._trouble}" if self._trouble is not None else ""
            self.fail(DeadlineExceededError(f"no acknowledgement before the deadline{why}"))
        else:
            self._set_alarm()


def _acknowledge(batch: Batch, placed: Appended) -> None:
    batch.lssn, batch.entry_id, batch.first_slot = placed.first
    batch.settle(None, placed.regions)
