"""Reads the tail that earlier writers left, for the first conditional append of a session."""

import asyncio
from collections.abc import Awaitable, Callable

from ...protocol.dlsn import Dlsn
from ...protocol.errors import DeadlineExceededError, RhumblineError
from ...runtime.primitives.single_flight import SingleFlight
from ...runtime.tasks import Tasks
from .pipeline import Pipeline


class TailLookup:
    """The lookup of one writer, at most one at a time."""

    def __init__(
        self,
        find_tail: Callable[[], Awaitable[Dlsn]],
        pipeline: Pipeline,
        timeout_ms: int,
        on_bug: Callable[[BaseException], None],
    ) -> None:
        self._find_tail = find_tail
        self._pipeline = pipeline
        self._timeout_ms = timeout_ms
        self._tasks = Tasks(on_failure=on_bug)
        self._lookup = SingleFlight(self._tasks, self._look_up, "find tail")

    def request(self) -> None:
        """Begin the lookup. The pipeline gets the result.

        If a lookup that is in progress fails, another one follows it.
        """
        self._lookup.request()

    async def aclose(self) -> None:
        """Stop. Safe to repeat."""
        await self._tasks.aclose()

    async def _look_up(self) -> None:
        if not self._pipeline.is_tail_needed:
            return
        try:
            async with asyncio.timeout(self._timeout_ms / 1000):
                tail = await self._find_tail()
        except TimeoutError:
            self._pipeline.refuse_unknown_tail(
                DeadlineExceededError(
                    f"the end of the stream was not found within {self._timeout_ms} ms; nothing "
                    "was appended"
                )
            )
        except RhumblineError as error:
            self._pipeline.refuse_unknown_tail(error)
        else:
            self._pipeline.know_tail(tail)
