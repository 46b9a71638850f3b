"""One question to replicas: the first good answer counts, the next replica is asked meanwhile."""

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
from .read_order import ReadKind, ReadPolicy, ReplicaChoice

T = TypeVar("T")
OnReply = Callable[[RhumblineError | None, T | None], None]
Send = Callable[[ReplicaChoice, OnReply[T]], bool]
"""Sends the question; the reply comes later, never from inside. False: cannot be sent."""


class SpeculativeRequest(Generic[T]):
    """Asks the first replica; after an error the next at once, after silence the next as well, if
    the policy allows one more request.

    ``answer`` gets the first good reply, or, when all have failed, the error that says most: a
    "no such entry" only if nobody had anything else to say (it must not hide a damaged copy).
    """

    __slots__ = (
        "_asked",
        "_errors",
        "_loop",
        "_order",
        "_policy",
        "_pool",
        "_send",
        "_timer",
        "_waiting",
        "answer",
    )

    def __init__(
        self,
        order: Sequence[ReplicaChoice],
        send: Send[T],
        *,
        pool: BookiePool,
        policy: ReadPolicy,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[tuple[ReplicaChoice, T]] = self._loop.create_future()
        self._order = list(order)
        self._send = send
        self._pool = pool
        self._policy = policy
        self._timer: asyncio.TimerHandle | None = None
        self._asked = 0
        self._waiting: dict[ReplicaChoice, float] = {}  # and when it was asked
        self._errors: list[RhumblineError] = []
        self._ask_next()

    def _ask_next(self) -> None:
        while self._order:
            choice = self._order.pop(0)
            if self._send(choice, partial(self._on_reply, choice)):
                self._asked += 1
                self._waiting[choice] = self._loop.time()
                self._watch_silence(choice)
                return
            self._errors.append(BookieUnavailableError(f"{choice.bookie} cannot be reached"))
            self._policy.on_failure(choice)
        if not self._waiting:
            self._finish_badly()

    def _watch_silence(self, choice: ReplicaChoice) -> None:
        if not self._order or self._timer is not None:
            return
        silence_ms = self._policy.silence_ms(ReadKind.ENTRY, choice, self._asked)
        if silence_ms > 0:
            self._timer = self._loop.call_later(silence_ms / 1000, self._on_silence, choice)

    def _on_silence(self, choice: ReplicaChoice) -> None:
        self._timer = None
        if self.answer.done():
            return
        if self._policy.may_ask_more(ReadKind.ENTRY):
            self._ask_next()
        else:
            self._watch_silence(choice)

    def _on_reply(
        self, choice: ReplicaChoice, error: RhumblineError | None, reply: T | None
    ) -> None:
        if self.answer.done():
            return
        asked_at = self._waiting.pop(choice)
        if error is None:
            assert reply is not None
            self._stop_timer()
            self._policy.on_answer(
                ReadKind.ENTRY, choice, (self._loop.time() - asked_at) * 1000, self._asked
            )
            for earlier, at in self._waiting.items():
                if at < asked_at:
                    self._policy.on_outrun(earlier)
            self.answer.set_result((choice, reply))
            return
        self._errors.append(error)
        if isinstance(error, UnavailableError):
            self._pool.on_failure(choice.bookie)
            self._policy.on_failure(choice)
        self._ask_next()

    def _finish_badly(self) -> None:
        self._stop_timer()
        telling = [
            error
            for error in self._errors
            if not isinstance(error, NoSuchEntryError | NoSuchLedgerError)
        ]
        if not self._errors:
            self.answer.set_exception(BookieUnavailableError("there is no replica to ask"))
        else:
            self.answer.set_exception((telling or self._errors)[0])
        self.answer.exception()  # whoever waits gets it

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
