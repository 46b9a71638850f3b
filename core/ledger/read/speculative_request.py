"""Sends a read or a long poll to one replica after another until one responds with a result."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ...protocol.errors import (
    BookieUnavailableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnavailableError,
)
from ..connection.bookie_pool import BookiePool
from ..read_policy import ReadKind, ReadPolicy, ReplicaChoice

T = TypeVar("T")
OnReply = Callable[[RhumblineError | None, T | None], None]
Send = Callable[[ReplicaChoice, OnReply[T]], bool]
"""Sends the request to a replica; returns False if it cannot be sent.

The callback runs later, never inside the call.
"""


class ReplicaSequence:
    """Sends a request to one replica after another, until ``is_over``.

    The next one gets it at once if the request cannot be sent to a replica, when a subclass calls
    ``_send_next``, and after a silence if the policy allows one more request.
    """

    __slots__ = ("_kind", "_loop", "_order", "_pending", "_policy", "_sent_count", "_timer")

    def __init__(self, kind: ReadKind, order: Sequence[ReplicaChoice], policy: ReadPolicy) -> None:
        self._kind = kind
        self._loop = asyncio.get_running_loop()
        self._order = list(order)
        self._policy = policy
        self._timer: asyncio.TimerHandle | None = None
        self._sent_count = 0
        self._pending: dict[ReplicaChoice, float] = {}  # loop time at which it was sent

    @property
    def is_over(self) -> bool:
        """True if no replica needs to be asked any more."""
        raise NotImplementedError

    def _send(self, choice: ReplicaChoice) -> bool:
        """Sends the request; returns False if it cannot be sent."""
        raise NotImplementedError

    def _silence_ms(self, choice: ReplicaChoice) -> float:
        """Returns the silence after which the next replica gets the request; 0: never."""
        return self._policy.silence_ms(self._kind, choice, self._sent_count)

    def _on_unreachable(self, choice: ReplicaChoice) -> None:
        """Called when the request could not be sent to a replica."""
        self._policy.on_failure(choice)

    def _on_exhausted(self) -> None:
        """Called when no replica is left, and no response is expected."""
        raise NotImplementedError

    def _send_next(self) -> None:
        while self._order:
            choice = self._order.pop(0)
            if self._send(choice):
                self._sent_count += 1
                self._pending[choice] = self._loop.time()
                self._start_timer(choice)
                return
            self._on_unreachable(choice)
        if not self._pending:
            self._on_exhausted()

    def _start_timer(self, choice: ReplicaChoice) -> None:
        if not self._order or self._timer is not None:
            return
        silence_ms = self._silence_ms(choice)
        if silence_ms > 0:
            self._timer = self._loop.call_later(silence_ms / 1000, self._on_timer, choice)

    def _on_timer(self, choice: ReplicaChoice) -> None:
        self._timer = None
        if self.is_over:
            return
        if self._policy.may_send_more(self._kind):
            self._send_next()
        else:
            self._start_timer(choice)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sent_before(self, sent_at: float) -> list[ReplicaChoice]:
        """Return the replicas that got the request before ``sent_at`` and have not responded."""
        return [choice for choice, at in self._pending.items() if at < sent_at]


class SpeculativeRequest(ReplicaSequence, Generic[T]):
    """A request whose first success is its result.

    The next replica gets it immediately after an error. If all replicas fail, ``result`` receives
    one of their errors: NoSuchEntryError only if there is no other, since it must not hide a
    corrupt copy.
    """

    __slots__ = ("_errors", "_pool", "_send_to", "result")

    def __init__(
        self,
        order: Sequence[ReplicaChoice],
        send: Send[T],
        *,
        pool: BookiePool,
        policy: ReadPolicy,
    ) -> None:
        super().__init__(ReadKind.ENTRY, order, policy)
        self.result: asyncio.Future[tuple[ReplicaChoice, T]] = self._loop.create_future()
        self._send_to = send
        self._pool = pool
        self._errors: list[RhumblineError] = []
        self._send_next()

    @property
    def is_over(self) -> bool:
        """True if there is a result or an error."""
        return self.result.done()

    def _send(self, choice: ReplicaChoice) -> bool:
        return self._send_to(choice, partial(self._on_reply, choice))

    def _on_unreachable(self, choice: ReplicaChoice) -> None:
        self._errors.append(BookieUnavailableError(f"{choice.bookie} is not connected"))
        super()._on_unreachable(choice)

    def _on_reply(
        self, choice: ReplicaChoice, error: RhumblineError | None, reply: T | None
    ) -> None:
        if self.result.done():
            return
        sent_at = self._pending.pop(choice)
        if error is None:
            assert reply is not None
            self._stop_timer()
            self._policy.on_response(
                ReadKind.ENTRY, choice, (self._loop.time() - sent_at) * 1000, self._sent_count
            )
            for earlier in self._sent_before(sent_at):
                self._policy.on_outrun(earlier)
            self.result.set_result((choice, reply))
            return
        self._errors.append(error)
        if isinstance(error, UnavailableError):
            self._pool.on_failure(choice.bookie)
            self._policy.on_failure(choice)
        self._send_next()

    def _on_exhausted(self) -> None:
        self._stop_timer()
        conclusive = [
            error
            for error in self._errors
            if not isinstance(error, NoSuchEntryError | NoSuchLedgerError)
        ]
        if not self._errors:
            self.result.set_exception(BookieUnavailableError("there is no replica to read from"))
        else:
            self.result.set_exception((conclusive or self._errors)[0])
        self.result.exception()  # marks it as retrieved: the caller may have stopped waiting
