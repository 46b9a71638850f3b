"""Carries out writes of concurrent callers in common transactions.

While a transaction is under way, further writes wait, and the next transaction takes all of them.
Its costs (a read version, the migration fence, a token, a commit) are thus shared. Two transactions
run at a time, so that one that meets conflicts does not hold up the other; requests that touch the
same nodes never run in both.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from ...core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    MetadataUnavailableError,
    RhumblineError,
)
from ...core.runtime.metadata_store import Version
from ...core.runtime.tasks import Tasks
from .errors import NO_RESPONSE
from .requests import WriteRequest

TRANSACTIONS_MAX = 2
"""Number of transactions under way."""

BATCH_REQUESTS_MAX = 64
BATCH_BYTES_MAX = 1_000_000
"""Bounds of one transaction; a single larger request still is one."""

WAITING_MAX = 20_000
"""Number of requests that may wait; further ones are refused."""


@dataclass(frozen=True, slots=True)
class Written:
    """The version of everything that a request has written, and the path of a created node."""

    version: Version
    created: str


Result = Written | RhumblineError | None
"""The result of a request; None if it must be repeated in a later transaction."""


class _Waiting:
    """A request of a caller that waits for its result."""

    __slots__ = ("deadline", "done", "request", "touches")

    def __init__(
        self, request: WriteRequest, deadline: float, done: "asyncio.Future[Written]"
    ) -> None:
        self.request = request
        self.touches = request.touches
        self.deadline = deadline
        self.done = done

    def fail(self, error: RhumblineError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class GroupCommit:
    """The writes of one store handle.

    ``carry_out`` gets requests and a deadline, and returns a result for each. If it raises, that is
    the result of all of them.
    """

    def __init__(
        self,
        carry_out: Callable[[Sequence[WriteRequest], float], Awaitable[list[Result]]],
        tasks: Tasks,
    ) -> None:
        self._carry_out = carry_out
        self._tasks = tasks
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._touched: set[str] = set()
        self._running = 0
        self._is_starting = False

    async def submit(self, request: WriteRequest, deadline: float) -> Written:
        """Carry out a request. Raises its own error, or as ``Transactions.write``."""
        if self._tasks.is_closed:
            raise ClosedError("the FoundationDB store is closed")
        if len(self._waiting) >= WAITING_MAX:
            raise MetadataUnavailableError(f"{WAITING_MAX} writes already wait for FoundationDB")
        waiting = _Waiting(request, deadline, self._loop.create_future())
        self._waiting.append(waiting)
        timer = self._loop.call_at(deadline, self._expire, waiting)
        self._start_soon()
        try:
            return await waiting.done
        finally:
            timer.cancel()

    def _expire(self, waiting: _Waiting) -> None:
        """Refuse a request whose deadline passed before it was sent."""
        if waiting in self._waiting:
            self._waiting.remove(waiting)
            waiting.fail(MetadataUnavailableError(NO_RESPONSE))

    def _start_soon(self) -> None:
        """Start a transaction when all callers that are ready now have added their requests."""
        if self._running < TRANSACTIONS_MAX and not self._is_starting:
            self._is_starting = True
            self._loop.call_soon(self._start)

    def _start(self) -> None:
        self._is_starting = False
        if self._tasks.is_closed:
            self._refuse_all()
            return
        if self._running < TRANSACTIONS_MAX and (batch := self._next_batch()):
            self._running += 1
            self._tasks.spawn(self._run(batch), "fdb group commit")

    def _next_batch(self) -> list[_Waiting]:
        """Take requests for a transaction from the queue, in order; mark what they touch."""
        batch: list[_Waiting] = []
        held_back: list[_Waiting] = []
        size_bytes = 0
        blocked = set(self._touched)
        while self._waiting and len(batch) < BATCH_REQUESTS_MAX:
            first = self._waiting[0]
            size_bytes += first.request.size_bytes
            if batch and size_bytes > BATCH_BYTES_MAX:
                break
            self._waiting.popleft()
            if first.done.done():  # its caller was cancelled
                continue
            if blocked.isdisjoint(first.touches):
                batch.append(first)
            else:
                held_back.append(first)
                blocked |= first.touches
        self._waiting.extendleft(reversed(held_back))
        for waiting in batch:
            self._touched |= waiting.touches
        return batch

    async def _run(self, batch: list[_Waiting]) -> None:
        """Carry out a batch, and those that come together meanwhile."""
        try:
            while batch:
                await self._finish(batch)
                await asyncio.sleep(0)  # callers that have their results now may write again
                batch = self._next_batch()
        finally:
            self._running -= 1
            if self._tasks.is_closed:
                self._refuse_all()

    async def _finish(self, batch: list[_Waiting]) -> None:
        """Carry out a batch and give its callers their results."""
        requests = [waiting.request for waiting in batch]
        try:
            results = await self._carry_out(requests, min(each.deadline for each in batch))
        except RhumblineError as error:
            for waiting in batch:
                waiting.fail(_copy_of(error))
        except BaseException:
            for waiting in batch:
                waiting.fail(IndeterminateError("the FoundationDB store was closed"))
            raise
        else:
            self._deliver(batch, results)
        finally:
            for waiting in batch:
                self._touched -= waiting.touches

    def _deliver(self, batch: list[_Waiting], results: list[Result]) -> None:
        """Give callers their results; queue requests without one again, at the front."""
        repeated = []
        for waiting, result in zip(batch, results, strict=True):
            if result is None:
                repeated.append(waiting)
            elif isinstance(result, RhumblineError):
                waiting.fail(result)
            elif not waiting.done.done():
                waiting.done.set_result(result)
        self._waiting.extendleft(reversed(repeated))
        for waiting in repeated:
            if self._loop.time() >= waiting.deadline:
                self._expire(waiting)

    def _refuse_all(self) -> None:
        while self._waiting:
            self._waiting.popleft().fail(ClosedError("the FoundationDB store is closed"))


def _copy_of(error: RhumblineError) -> RhumblineError:
    """Return an equal error, since each caller adds its own traceback."""
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy
