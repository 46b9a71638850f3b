"""Owned tasks: every task has an owner that sees its exception.

asyncio's TaskGroup keeps its tasks in a set and therefore cancels them in the order of addresses.
The classes here keep insertion order, so that a simulated run is the same in every process.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, TypeVar

S = TypeVar("S")
T = TypeVar("T")


class Tasks:
    """The tasks of one component.

    ``on_failure`` is called with the exception of each task that failed, but not for a cancelled
    one; without it the loop's exception handler reports it. The owner decides what to stop.
    """

    __slots__ = ("_on_failure", "_tasks", "is_closed")

    def __init__(self, on_failure: Callable[[BaseException], None] | None = None) -> None:
        self._tasks: dict[asyncio.Task[Any], None] = {}
        self._on_failure = on_failure
        self.is_closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Start a task. After ``aclose`` the coroutine is closed and RuntimeError is raised."""
        if self.is_closed:
            work.close()
            raise RuntimeError(f"task {name!r} spawned after its owner closed")
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks[task] = None
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            return
        if self._on_failure is not None:
            self._on_failure(error)
            return
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"task {task.get_name()!r} failed", "exception": error, "task": task}
        )

    async def aclose(self) -> None:
        """Cancel all tasks, newest first, and wait until each has ended. Safe to repeat.

        If the caller is cancelled meanwhile, the others are cancelled without waiting for them.
        """
        self.is_closed = True
        while self._tasks:
            task = next(reversed(self._tasks))
            if task is asyncio.current_task():
                self._tasks.pop(task)
                continue
            task.cancel()
            try:
                await wait_until_done(task)
            except asyncio.CancelledError:
                for other in reversed(self._tasks):
                    other.cancel()
                raise
            self._tasks.pop(task, None)


async def wait_until_done(task: "asyncio.Future[Any]") -> None:
    """Wait until ``task`` has ended. Its result or exception is left to its owner."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def wake(_: object) -> None:
        if not done.done():
            done.set_result(None)

    task.add_done_callback(wake)
    try:
        await done
    finally:
        task.remove_done_callback(wake)


async def wait_at_most(future: "asyncio.Future[Any]", seconds: float) -> None:
    """Wait until ``future`` is done. If that takes longer than ``seconds``, cancel it and return.

    For compiled modules, which cannot await inside ``with``.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await future


async def run_all(works: Sequence[Coroutine[Any, Any, T]], name: str) -> list[T]:
    """Run coroutines concurrently and return their results in the given order.

    If one fails, the others are cancelled and have ended before its exception is raised.
    """
    failures: list[BaseException] = []
    started: list[asyncio.Task[T]] = []

    def stop_the_others(error: BaseException) -> None:
        failures.append(error)
        for task in started:
            task.cancel()

    tasks = Tasks(on_failure=stop_the_others)
    started.extend(tasks.spawn(work, name) for work in works)
    try:
        found = [await task for task in started]
    except GeneratorExit:
        raise  # the caller's coroutine was closed while it waited: nothing may be awaited any more
    except BaseException as error:
        await tasks.aclose()
        caller = asyncio.current_task()
        is_cancelled = caller is not None and caller.cancelling()
        if failures and isinstance(error, asyncio.CancelledError) and not is_cancelled:
            raise failures[0] from None
        raise
    await tasks.aclose()
    return found


async def run_both(
    first: Coroutine[Any, Any, S], second: Coroutine[Any, Any, T], name: str
) -> tuple[S, T]:
    """Run two coroutines concurrently and return their results; errors as in ``run_all``."""
    works: list[Coroutine[Any, Any, Any]] = [first, second]
    one, other = await run_all(works, name)
    return one, other


async def for_each(
    items: Sequence[S], work: Callable[[S], Coroutine[Any, Any, None]], parallel: int
) -> None:
    """Run ``work`` for every item, at most ``parallel`` at a time, begun in order.

    Raises the first error; the work in progress is then cancelled and awaited.
    """
    left = iter(items)

    async def run() -> None:
        for item in left:
            await work(item)

    await run_all([run() for _ in range(min(parallel, len(items)))], "for each")
