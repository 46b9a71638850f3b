"""An asyncio event loop in virtual time: no threads, no sockets, no waiting.

When nothing is ready, time jumps to the next timer. Order is first come, first served, and timers
of one instant run in the order in which they were set: a run depends on nothing but its inputs.

What fails a run, wherever it happens: an exception that nobody handled; a wait with nothing left
that could end it; an instant that never ends; more virtual time than was allowed.
"""

import asyncio
import gc
import socket
import traceback
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import Any, Protocol, TypeVar, TypeVarTuple, cast

from .process import PROCESS, ProcessState, SimProcess

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

HANDLES_AT_ONE_INSTANT_MAX = 200_000
"""More calls than this without any time passing is a loop that never ends."""

_CLOSE_ATTEMPTS_MAX = 20


class SimulationFailedError(Exception):
    """The run failed for a reason that no single call could report."""


class Network(Protocol):
    """Where the loop's connections and servers live."""

    async def create_connection(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """As the loop's ``create_connection``."""
        ...

    async def create_server(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int
    ) -> object:
        """As the loop's ``create_server``."""
        ...


class _Handle(asyncio.Handle):
    """A handle without what only a debugging loop needs."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., Any], args: Sequence[Any], loop: "SimLoop", context: Context
    ) -> None:
        self._callback = callback
        self._args = args
        self._cancelled = False
        self._loop = loop
        self._context = context
        self._source_traceback = None
        self._repr = None

    def cancel(self) -> None:
        self._cancelled = True


class _Timer(asyncio.TimerHandle):
    __slots__ = ()

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
        self._source_traceback = None
        self._repr = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            if self._scheduled:
                self._loop._cancelled_timers += 1


class SimLoop(asyncio.BaseEventLoop):
    """The loop of one simulated run. ``network`` answers create_connection and create_server."""

    def __init__(self) -> None:
        super().__init__()
        self.network: Network | None = None
        self.now = 0.0
        self.handles_run = 0
        self.failure: BaseException | None = None
        self.orphans = SimProcess("world", "")
        self._queue: deque[_Handle | _Timer] = deque()
        self._timers: list[tuple[float, int, _Timer]] = []
        self._timer_count = 0
        self._cancelled_timers = 0
        self._is_over = False
        self._executor_delay = 0.001
        self.set_task_factory(cast(Any, _adopted))

    # --- what a run is --------------------------------------------------------------------------

    def run(self, main: Coroutine[Any, Any, T], *, time_limit_s: float = 86_400.0) -> T:
        """Runs ``main`` to its end and returns its result.

        Raises what it raised, or the first failure of the simulation (see the module's words).
        """
        gc_was_on = gc.isenabled()
        gc.disable()  # a collection in mid-run would decide when finalizers run
        events._set_running_loop(self)
        try:
            task = self.create_task(main)
            self._turn(task, time_limit_s)
            gc.collect(
                0
            )  # all that this run made is young: exceptions that nobody looked at show up
            if self.failure is not None:
                raise SimulationFailedError(
                    "unhandled exception in simulated code"
                ) from self.failure
            return task.result()
        finally:
            events._set_running_loop(None)
            if gc_was_on:
                gc.enable()

    def _turn(self, main: "asyncio.Task[Any]", time_limit_s: float) -> None:
        queue = self._queue
        at_this_instant = 0
        while not main.done() and self.failure is None:
            if not queue:
                self._advance(main, time_limit_s)
                at_this_instant = 0
                continue
            handle = queue.popleft()
            if handle._cancelled:
                continue
            context: Context = handle._context
            process = context.get(PROCESS)
            if process is not None and process.state is not ProcessState.RUNNING:
                if process.state is ProcessState.PAUSED:
                    process.held.append(handle)
                continue
            at_this_instant += 1
            if at_this_instant > HANDLES_AT_ONE_INSTANT_MAX:
                raise SimulationFailedError(f"time stands still at {self.now:.3f} s: {handle!r}")
            try:
                context.run(handle._callback, *handle._args)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:
                self.fail(error)
            self.handles_run += 1

    def _advance(self, main: "asyncio.Task[Any]", time_limit_s: float) -> None:
        timers = self._timers
        if self._cancelled_timers > 1000 and self._cancelled_timers * 2 > len(timers):
            timers[:] = [item for item in timers if not item[2]._cancelled]
            heapify(timers)
            self._cancelled_timers = 0
        while timers and timers[0][2]._cancelled:
            heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise SimulationFailedError(f"nothing is left that could end the wait: {_story(main)}")
        now = timers[0][0]
        if now > time_limit_s:
            raise SimulationFailedError(
                f"not done in {time_limit_s} s of virtual time: {_story(main)}"
            )
        self.now = max(self.now, now)
        queue = self._queue
        while timers and timers[0][0] <= now:
            timer = heappop(timers)[2]
            timer._scheduled = False
            if timer._cancelled:
                self._cancelled_timers -= 1
            else:
                queue.append(timer)

    def fail(self, error: BaseException) -> None:
        """Ends the run with ``error``; the first one counts."""
        if self.failure is None:
            self.failure = error

    def bury(self) -> None:
        """Ends every task that is left, after the run was judged; nothing of it counts any more."""
        self._is_over = True
        self._queue.clear()
        self._timers.clear()
        events._set_running_loop(self)
        try:
            ended: dict[asyncio.Task[Any], None] = {}
            while waiting := [task for task in asyncio.all_tasks(self) if task not in ended]:
                for task in waiting:  # ending them may start more
                    _end_quietly(task)
                    ended[task] = None
        finally:
            events._set_running_loop(None)
            self.close()

    def resume(self, process: SimProcess) -> None:
        """SIGCONT: what waited runs now, in the order in which it became due. Safe to repeat."""
        if process.state is ProcessState.PAUSED:
            process.state = ProcessState.RUNNING
            held, process.held = process.held, []
            self._queue.extendleft(cast(Any, reversed(held)))  # before what became due since

    # --- asyncio's interface --------------------------------------------------------------------

    def time(self) -> float:
        """Virtual seconds since the start of the run."""
        return self.now

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        """As asyncio's; in the caller's process unless ``context`` says otherwise."""
        handle = _Handle(callback, args, self, copy_context() if context is None else context)
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
        """As asyncio's."""
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
        """As asyncio's."""
        return self.call_at(self.now + delay, callback, *args, context=context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Fails the run: simulated code has no exceptions that nobody handles."""
        if self._is_over:
            return
        error = context.get("exception")
        if error is None:
            error = SimulationFailedError(str(context.get("message")))
        self.fail(error)

    def is_running(self) -> bool:
        """Whether this is the loop that runs now."""
        return events._get_running_loop() is self

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        """Calls ``func`` a little later, in the loop: there are no threads."""
        future: asyncio.Future[T] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:  # the caller's: it is raised where the call is awaited
                future.set_exception(error)

        self.call_later(self._executor_delay, work)
        return future

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str,
        port: int,
        **_: object,
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Connects over the simulated network."""
        assert self.network is not None
        return await self.network.create_connection(protocol_factory, host, port)

    async def create_server(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None = None,
        port: int = 0,
        **_: object,
    ) -> object:
        """Listens on the simulated network."""
        assert self.network is not None
        return await self.network.create_server(protocol_factory, host, port)

    async def getaddrinfo(  # type: ignore[override]
        self, host: str, port: int, **_: object
    ) -> list[tuple[Any, ...]]:
        """Every name is its own address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]


def _adopted(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, T],
    context: Context | None = None,
) -> "asyncio.Task[T]":
    assert isinstance(loop, SimLoop)
    task = asyncio.Task(work, loop=loop, context=context)
    process = PROCESS.get() if context is None else context.get(PROCESS)
    (process or loop.orphans).adopt(task)
    return task


def _end_quietly(task: "asyncio.Task[Any]") -> None:
    """Closes a task's coroutine, also when its finally blocks would wait."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    work = task.get_coro()
    for _ in range(_CLOSE_ATTEMPTS_MAX):
        try:
            work.close()
        except BaseException:  # what a dead process raises is nobody's
            continue
        return


def _story(task: "asyncio.Task[Any]") -> str:
    """Where ``task`` waits."""
    frames = task.get_stack()
    return "".join(traceback.format_stack(frames[-1])).strip() if frames else repr(task)
