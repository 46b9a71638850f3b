"""One question to replicas: the first good answer counts, the next replica is asked meanwhile."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, TypeVar

from ..protocol.errors import (
    BookieUnavailableError,
    NoSuchEntryError,
    NoSuchLedgerError,
    RhumblineError,
    UnavailableError,
)
from .pool import BookiePool
from .read_order import ReplicaChoice

T = TypeVar("T")
OnReply = Callable[[RhumblineError | None, T | None], None]
Send = Callable[[ReplicaChoice, OnReply[T]], bool]
"""Sends the question; the reply comes later, never from inside. False: cannot be sent."""


class Ask(Generic[T]):
    """Asks the first replica; after an error the next at once, after silence the next as well.

    ``answer`` gets the first good reply, or, when all have failed, the error that says most: a
    "no such entry" only if nobody had anything else to say (it must not hide a damaged copy).
    """

    __slots__ = (
        "_errors",
        "_loop",
        "_order",
        "_pool",
        "_send",
        "_silence_s",
        "_timer",
        "_waiting",
        "answer",
    )

    def __init__(
        self, order: Sequence[ReplicaChoice], send: Send[T], *, pool: BookiePool, silence_ms: int
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[tuple[ReplicaChoice, T]] = self._loop.create_future()
        self._order = list(order)
        self._send = send
        self._pool = pool
        self._silence_s = silence_ms / 1000
        self._timer: asyncio.TimerHandle | None = None
        self._waiting: list[ReplicaChoice] = []
        self._errors: list[RhumblineError] = []
        self._ask_next()

    def _ask_next(self) -> None:
        while self._order:
            choice = self._order.pop(0)
            if self._send(choice, partial(self._on_reply, choice)):
                self._waiting.append(choice)
                if self._order and self._silence_s and self._timer is None:
                    self._timer = self._loop.call_later(self._silence_s, self._on_silence)
                return
            self._errors.append(BookieUnavailableError(f"{choice.bookie} cannot be reached"))
        if not self._waiting:
            self._finish_badly()

    def _on_silence(self) -> None:
        self._timer = None
        if self.answer.done():
            return
        for choice in self._waiting:
            self._pool.on_failure(choice.bookie)  # slow: others are asked first for a while
        self._ask_next()

    def _on_reply(
        self, choice: ReplicaChoice, error: RhumblineError | None, reply: T | None
    ) -> None:
        if self.answer.done():
            return
        self._waiting.remove(choice)
        if error is None:
            assert reply is not None
            self._stop_timer()
            self.answer.set_result((choice, reply))
            return
        self._errors.append(error)
        if isinstance(error, UnavailableError):
            self._pool.on_failure(choice.bookie)
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
