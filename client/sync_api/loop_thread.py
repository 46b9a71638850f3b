"""An event loop in a thread of its own, in which blocking calls run."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from ...core.protocol.errors import ClosedError
from ..system_runtime import run

T = TypeVar("T")


class LoopThread:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="rhumbline", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        async def main() -> None:
            self._stop = asyncio.Event()
            self._loop.set_result(asyncio.get_running_loop())
            await self._stop.wait()

        try:
            run(main())
        except BaseException as error:
            if self._loop.done():
                raise
            self._loop.set_exception(error)

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run ``work`` in the loop and return its result.

        An interrupt of the caller cancels the work. Raises TimeoutError after the work was
        cancelled, and ClosedError once the thread has ended.
        """
        if not self._thread.is_alive():
            work.close()
            raise ClosedError("the client is closed")

        async def bounded() -> T:
            async with asyncio.timeout(timeout_s):
                return await work

        answer = asyncio.run_coroutine_threadsafe(bounded(), self._loop.result())
        try:
            return answer.result()
        except BaseException:
            answer.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for the thread. Safe to repeat."""
        if self._thread.is_alive():
            assert self._stop is not None
            self._loop.result().call_soon_threadsafe(self._stop.set)
            self._thread.join()
