"""Backoff: pauses between attempts that double, with jitter from a seeded generator."""

import asyncio
from random import Random

_DOUBLINGS_MAX = 16


class Backoff:
    """The pauses of one operation that is retried.

    They double from ``min_ms`` up to ``max_ms``. Each is multiplied by a random factor between 0.5
    and 1.5, so that processes that failed together do not retry together.
    """

    __slots__ = ("_deadline", "_max_ms", "_min_ms", "_random", "failures")

    def __init__(
        self, random: Random, min_ms: int, max_ms: int, *, timeout_ms: int | None = None
    ) -> None:
        """``timeout_ms``: the time from now until ``is_over``; None: never."""
        self.failures = 0
        """Number of pauses since the start or ``reset``."""
        self._random = random
        self._min_ms = min_ms
        self._max_ms = max_ms
        self._deadline: float | None = None
        if timeout_ms is not None:
            self._deadline = asyncio.get_running_loop().time() + timeout_ms / 1000

    @property
    def is_over(self) -> bool:
        """True if the deadline has passed; always False without one."""
        return self._deadline is not None and asyncio.get_running_loop().time() >= self._deadline

    def next_s(self) -> float:
        """Return the next pause in seconds, for callers with a timer of their own."""
        pause_ms = min(self._max_ms, self._min_ms << min(self.failures, _DOUBLINGS_MAX))
        self.failures += 1
        return pause_ms * (0.5 + self._random.random()) / 1000

    async def pause(self) -> None:
        """Sleep for the next pause."""
        await asyncio.sleep(self.next_s())

    def reset(self) -> None:
        """Begin again with the first pause, after a success. The deadline stays."""
        self.failures = 0
