"""The real world of one process: its clock, its randomness and its event loop."""

import asyncio
import gc
import os
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any, TypeVar

from ..core.protocol.errors import ConfigurationError
from ..core.runtime.runtime import Runtime
from ..core.runtime.tracing import Tracer

T = TypeVar("T")

_GC_THRESHOLD = (50_000, 20, 50)
"""Entries in flight live for milliseconds and hold no cycles: Python's default of 700 new objects
would walk them thousands of times a second for nothing."""


class SystemClock:
    """The operating system's time of day."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


def system_runtime(tracer: Tracer | None = None) -> Runtime:
    """A runtime with the system's clock, and randomness that the operating system seeded."""
    return Runtime(clock=SystemClock(), random=Random(os.urandom(32)), tracer=tracer)


def run(main: Coroutine[Any, Any, T]) -> T:
    """Runs a program on a uvloop event loop until ``main`` has ended.

    Raises ConfigurationError under ``python -O``: assertions guard the data and stay on.
    """
    if not __debug__:
        main.close()
        raise ConfigurationError(
            "python -O switches off the checks that guard the data; run without it"
        )
    gc.set_threshold(*_GC_THRESHOLD)
    gc.freeze()  # what was imported stays
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop  # heavy, and not needed by who only imports the client's names

    return uvloop.new_event_loop


def boot_id() -> str:
    """Names this run of the operating system; "" where the system does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
