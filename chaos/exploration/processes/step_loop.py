"""An asyncio event loop that belongs to one process and runs only when it is told to.

A process of an explored scope handles one event at a time: a message, an action or the passing of
time. ``run_ready`` then runs everything that follows from it without waiting. Virtual time moves
only in ``pass_time``, so that timers are events like all others.
"""

import asyncio
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, TypeVar, TypeVarTuple, cast

from ...simulation.world.loop import end_quietly

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

Connector = Callable[
    [Callable[[], asyncio.Protocol], str], tuple[asyncio.Transport, asyncio.BaseProtocol]
]
"""Connects to a host by its name, or raises OSError."""

_HANDLES_MAX = 100_000


class StepLoop(asyncio.BaseEventLoop):
    """The event loop of one explored process. ``failures`` collects unhandled exceptions."""

    def __init__(self, connector: Connector | None = None) -> None:
        super().__init__()
        self.now = 0.0
        self.failures: list[BaseException] = []
        self._connector = connector
        self._handles: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._is_over = False
        self.set_task_factory(cast(Any, _create_task))

    # --- running --------------------------------------------------------------------------------

    def step(self, function: Callable[[*Ts], object], *args: *Ts) -> None:
        """Call ``function`` inside this loop, and then run everything that is ready."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            try:
                function(*args)
            except Exception as error:
                self.failures.append(error)
            self._run_ready()
        finally:
            events._set_running_loop(before)

    def _run_ready(self) -> None:
        handles = self._handles
        for _ in range(_HANDLES_MAX):
            if not handles:
                return
            handle = handles.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self.failures.append(error)
        self.failures.append(RuntimeError("the process never waits"))

    @property
    def has_timers(self) -> bool:
        """True if a timer is set."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heappop(timers)
        return bool(timers)

    def pass_time(self) -> None:
        """Move time to the next timer, and run it and everything that follows."""
        if self.has_timers:
            at, _, timer = heappop(self._timers)
            self.now = max(self.now, at)
            self._handles.append(timer)
            self.step(lambda: None)

    def discard(self) -> None:
        """End every task without running it: the process is not needed any more."""
        self._is_over = True
        self._handles.clear()
        self._timers.clear()
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            for task in self._tasks:
                end_quietly(task)
        finally:
            events._set_running_loop(before)
            self.close()

    # --- asyncio's interface --------------------------------------------------------------------

    def time(self) -> float:
        """Return virtual seconds since the process began."""
        return self.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback in this step."""
        handle = asyncio.Handle(callback, args, self, context or copy_context())
        if not self._is_over:
            self._handles.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer for a virtual time, in seconds."""
        timer = asyncio.TimerHandle(when, callback, args, self, context or copy_context())
        self._timer_count += 1
        heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Set a timer for a delay in virtual seconds."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """See BaseEventLoop: cancelled timers are dropped when they come up."""

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Keep an unhandled exception as a failure."""
        if not self._is_over:
            error = context.get("exception")
            self.failures.append(error or RuntimeError(str(context.get("message"))))

    def is_running(self) -> bool:
        """Return whether this loop is running."""
        return events._get_running_loop() is self

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.Protocol],
        host: str,
        port: int,
        **_: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect to another process of the scope."""
        assert self._connector is not None
        return self._connector(protocol_factory, host)


def _create_task(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    context: Context | None = None,
) -> "asyncio.Task[T]":
    assert isinstance(loop, StepLoop)
    task = asyncio.Task(work, loop=loop, context=context)
    loop._tasks.append(task)
    return task
