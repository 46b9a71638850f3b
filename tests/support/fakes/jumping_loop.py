"""An event loop with virtual time that jumps to the next timer.

Tests can wait for minutes of virtual time. If nothing is ready and no timer is set, the test would
hang; the loop raises an error instead.
"""

import asyncio
import selectors
import socket
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from rhumbline.chaos.simulation.world.loop import settling

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class _JumpingSelector(selectors.SelectSelector):
    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("deadlock: every task waits and no timer is set")
        self.now_s += max(timeout, 0)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop with virtual time. There are no sockets, and work for threads runs in it."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s

    def stand_still(self, seconds: float) -> None:
        """Let time pass in which nothing runs, as while the process waits for a CPU."""
        self._jumping.now_s += seconds

    async def getaddrinfo(self, host: object, port: object, **_: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, f"{host} has no address in virtual time")

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> "asyncio.Future[T]":
        future: asyncio.Future[T] = self.create_future()
        self.call_soon(settling(future, func, *args))
        return future

    def default_exception_handler(self, context: Mapping[str, Any]) -> None:
        raise AssertionError(context)


def run_jumping(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` in virtual time. Every task must have ended when it returns."""
    loop = JumpingLoop()
    faults: list[Mapping[str, Any]] = []
    loop.set_exception_handler(lambda _, context: faults.append(context))
    try:
        result = loop.run_until_complete(work)
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        if left:
            loop.run_until_complete(asyncio.wait(left))
        loop.run_until_complete(loop.shutdown_asyncgens())
        assert not left, f"tasks are still running: {left}"
        assert not faults, faults
        return result
    finally:
        loop.close()
