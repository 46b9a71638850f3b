"""An asyncio event loop in virtual time, without threads, sockets or real waiting.

When nothing is ready, time jumps to the next timer. Handles run in the order in which they were
scheduled, and timers of one instant in the order in which they were set, so a run depends only on
its inputs.

A run fails on an unhandled exception, on a wait that nothing can end, on an instant that never
ends, and when it exceeds its limit of virtual time.
"""

import asyncio
import gc
import socket
import sys
import traceback
from asyncio import events
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from contextvars import Context, copy_context
from functools import partial
from heapq import heapify, heappop, heappush
from types import CoroutineType
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast

from .process import PROCESS, ProcessState, SimProcess

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

HANDLES_AT_ONE_INSTANT_MAX = 200_000
"""Calls within one instant of virtual time after which the run is considered to loop forever."""

_CLOSE_ATTEMPTS_MAX = 200


class _Closable(Protocol):
    """A coroutine, or what a task runs instead of one."""

    def close(self) -> None: ...


class SimulationFailedError(Exception):
    """The run failed for a reason that no single call can report."""


class Network(Protocol):
    """The network that provides the loop's connections and servers."""

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect; see the loop's ``create_connection``."""
        ...

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int
    ) -> object:
        """Listen; see the loop's ``create_server``."""
        ...


class _Handle(asyncio.Handle):
    """An asyncio handle without the state that only debug mode needs."""

    __slots__ = ()
    _source_traceback = None
    _repr = None

    def __init__(self, callback: Callable[..., Any], args: Sequence[Any], context: Context) -> None:
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._context = context

    def cancel(self) -> None:
        self._cancelled = True


class _Timer(asyncio.TimerHandle):
    __slots__ = ()
    _source_traceback = None
    _repr = None

    def __init__(
        self,
        when: float,
        callback: Callable[..., Any],
        args: Sequence[Any],
        loop: "SimLoop",
        context: Context,
    ) -> None:
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._loop = loop
        self._context = context
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            if self._scheduled:
                self._loop._cancelled_timers += 1


class SimLoop(asyncio.BaseEventLoop):
    """The event loop of one simulated run. ``network`` provides connections and servers."""

    def __init__(self) -> None:
        super().__init__()
        self.network: Network | None = None
        self.now = 0.0
        self.handles_run = 0
        self.failure: BaseException | None = None
        self.world_process = SimProcess("world", "")
        self._queue: deque[_Handle | _Timer] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timer_count = 0
        self._cancelled_timers = 0
        self._is_over = False
        self._executor_delay = 0.001
        # asyncio calls these for every future; functions in C are quicker than methods.
        self.get_debug = bool  # type: ignore[method-assign]  # returns False
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]

    # --- running --------------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], *, time_limit_s: float = 86_400.0) -> T:
        """Run ``main`` to its end and return its result.

        Raises what ``main`` raised, or SimulationFailedError (see the module's docstring).
        """
        gc_was_on = gc.isenabled()
        gc.disable()  # a collection during the run would make the time of finalizers random
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(None, _close_dropped)
        events._set_running_loop(self)
        try:
            task = self.create_task(main)
            self._turn(task, time_limit_s)
            # All objects of the run are young; collecting them reports unretrieved exceptions.
            gc.collect(0)
            if self.failure is not None:
                raise SimulationFailedError(
                    "unhandled exception in simulated code"
                ) from self.failure
            return task.result()
        finally:
            events._set_running_loop(None)
            sys.set_asyncgen_hooks(*hooks)
            if gc_was_on:
                gc.enable()

    def _turn(self, main: "asyncio.Task[Any]", time_limit_s: float) -> None:
        queue, is_done, running = self._queue, main.done, ProcessState.RUNNING
        handles_max = HANDLES_AT_ONE_INSTANT_MAX
        while not is_done() and self.failure is None:
            if not queue:
                self._advance(main, time_limit_s)
                handles_max = self.handles_run + HANDLES_AT_ONE_INSTANT_MAX
                continue
            handle = queue.popleft()
            if handle._cancelled:
                continue
            context: Context = handle._context
            process = context.get(PROCESS)
            if process is not None and process.state is not running:
                if process.state is ProcessState.PAUSED:
                    process.held.append(handle)
                continue
            if self.handles_run == handles_max:
                raise SimulationFailedError(
                    f"time does not advance at {self.now:.3f} s: {handle!r}"
                )
            try:
                context.run(handle._callback, *handle._args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self.fail(error)
            self.handles_run += 1

    def _advance(self, main: "asyncio.Task[Any]", time_limit_s: float) -> None:
        timers = self._timers
        if self._cancelled_timers:
            self._drop_cancelled_timers()
        if not timers:
            raise SimulationFailedError(
                f"nothing is left that could end the wait: {_describe_wait(main)}"
            )
        now = timers[0][0]
        if now > time_limit_s:
            raise SimulationFailedError(
                f"not done in {time_limit_s} s of virtual time: {_describe_wait(main)}"
            )
        if now > self.now:
            self.now = now
        queue = self._queue
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._cancelled_timers -= 1
            else:
                queue.append(timer)

    def _drop_cancelled_timers(self) -> None:
        """Remove those at the head, and all of them once they are the larger part."""
        timers = self._timers
        if self._cancelled_timers > 1000 and self._cancelled_timers * 2 > len(timers):
            timers[:] = [item for item in timers if not item[2]._cancelled]
            heapify(timers)
            self._cancelled_timers = 0
        while timers and timers[0][2]._cancelled:
            heappop(timers)
            self._cancelled_timers -= 1

    def fail(self, error: BaseException) -> None:
        """End the run with ``error``; only the first error counts."""
        if self.failure is None:
            self.failure = error

    def end_all_tasks(self) -> None:
        """End every remaining task, after the result of the run was taken."""
        self._is_over = True
        self._queue.clear()
        self._timers.clear()
        events._set_running_loop(self)
        try:
            ended: dict[asyncio.Task[Any], None] = {}
            while waiting := [task for task in asyncio.all_tasks(self) if task not in ended]:
                for task in waiting:  # ending them may start more
                    end_quietly(task)
                    ended[task] = None
        finally:
            events._set_running_loop(None)
            self.close()

    def resume(self, process: SimProcess) -> None:
        """Resume a paused process: handles run in the order they became due. Safe to repeat."""
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            held, process.held = process.held, []
            self._queue.extendleft(cast(Any, reversed(held)))  # before handles that are due now

    # --- asyncio's interface --------------------------------------------------------------------

    def time(self) -> float:
        """Return virtual seconds since the start of the run."""
        return self.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """Schedule a callback in the caller's process, unless ``context`` belongs to another."""
        handle = _Handle(callback, args, copy_context() if context is None else context)
        if not self._is_over:
            self._queue.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        """Schedule a callback at a virtual time, in seconds."""
        timer = _Timer(when, callback, args, self, copy_context() if context is None else context)
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
        """Schedule a callback after a delay in virtual seconds."""
        when = self.now + delay
        timer = _Timer(when, callback, args, self, copy_context() if context is None else context)
        self._timer_count += 1
        heappush(self._timers, (when, self._timer_count, timer))
        return timer

    def create_task(
        self,
        coro: Generator[Any, None, T] | Coroutine[Any, Any, T],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> "asyncio.Task[T]":
        """Run a coroutine in the caller's process, unless ``context`` belongs to another."""
        task = asyncio.Task(coro, loop=self, name=cast(str, name), context=context)
        process = PROCESS.get() if context is None else context.get(PROCESS)
        (process or self.world_process).adopt(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Fail the run: an unhandled exception in simulated code is a bug."""
        if self._is_over:
            return
        error = context.get("exception")
        if error is None:
            error = SimulationFailedError(str(context.get("message")))
        self.fail(error)

    def is_running(self) -> bool:
        """Return whether this loop is running."""
        return events._get_running_loop() is self

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Call ``func`` in the loop after a short virtual delay, because there are no threads."""
        future: asyncio.Future[T] = self.create_future()
        self.call_later(self._executor_delay, settling(future, func, *args))
        return future

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connect over the simulated network."""
        assert self.network is not None
        return await self.network.create_connection(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **_: object,
    ) -> object:
        """Listen on the simulated network."""
        assert self.network is not None
        return await self.network.create_server(protocol_factory, host, port)

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **_: object
    ) -> list[tuple[Any, ...]]:
        """Return the name itself as its address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]


def end_quietly(task: "asyncio.Task[Any]") -> None:
    """Close a task's coroutine, even if its ``finally`` blocks await something.

    What a coroutine awaits is closed before it. Otherwise Python closes that when nothing refers to
    it any more, in one attempt, and warns if it awaits something again.
    """
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    work = task.get_coro()
    for _ in range(_CLOSE_ATTEMPTS_MAX):
        awaiting = _innermost(work)
        try:
            awaiting.close()
        except BaseException:  # exceptions of a dead process have no recipient
            continue
        if awaiting is work:
            return


def _innermost(work: "_Closable") -> "_Closable":
    """Return the coroutine that waits for something other than a coroutine, on behalf of work."""
    while isinstance(awaited := getattr(work, "cr_await", None), CoroutineType):
        if awaited.cr_frame is None:  # it has ended
            return work
        work = awaited
    return work


def _close_dropped(generator: AsyncGenerator[Any, Any]) -> None:
    """Close a generator that nothing refers to any more, as far as that needs no waiting.

    In Python 3.11 a generator of a killed process that waits for the next item of another one
    cannot close that one, which counts as running.
    """
    closing = generator.aclose()
    try:
        closing.send(None)
    except (StopIteration, StopAsyncIteration, GeneratorExit):
        return
    except RuntimeError as error:
        if "asynchronous generator is already running" not in str(error):
            raise
        return
    closing.close()


def _describe_wait(task: "asyncio.Task[Any]") -> str:
    """Return the source line at which ``task`` waits."""
    frames = task.get_stack()
    return "".join(traceback.format_stack(frames[-1])).strip() if frames else repr(task)


def settling(
    future: "asyncio.Future[T]", func: Callable[[*Ts], T], *args: *Ts
) -> Callable[[], None]:
    """Return a callback that settles ``future`` with a call, for loops without threads."""

    def settle() -> None:
        if future.cancelled():
            return
        try:
            future.set_result(func(*args))
        except BaseException as error:  # raised where the call is awaited
            future.set_exception(error)

    return settle
