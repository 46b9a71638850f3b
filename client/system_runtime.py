"""The production runtime of a process: system clock, randomness and event loop."""

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
from ..tls.credentials import TlsCredentials
from ..tls.outgoing import TlsToBookies

T = TypeVar("T")

_GC_THRESHOLD = (50_000, 20, 50)
"""Thresholds of the garbage collector. Entries in flight exist for milliseconds and contain no
cycles. The default threshold of 700 new objects would traverse them thousands of times a second."""


class SystemClock:
    """The clock of the operating system."""

    def wall_ms(self) -> int:
        """Return the milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


def system_runtime(
    tracer: Tracer | None = None, credentials: TlsCredentials | None = None
) -> Runtime:
    """Return a runtime with the system clock and a generator seeded by the operating system.

    With ``credentials`` whose settings say so, connections to bookies use TLS.
    """
    connects = credentials is not None and credentials.settings.connects
    return Runtime(
        clock=SystemClock(),
        random=Random(os.urandom(32)),
        tracer=tracer,
        security=TlsToBookies(credentials) if connects and credentials is not None else None,
    )


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run ``main`` to its end on a uvloop event loop.

    Raises ConfigurationError under ``python -O``, which would disable the assertions that protect
    data.
    """
    if not __debug__:
        main.close()
        raise ConfigurationError(
            "python -O disables the assertions that protect data; run without it"
        )
    gc.set_threshold(*_GC_THRESHOLD)
    gc.freeze()  # imported modules are never collected
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    import uvloop  # slow to import, and not needed to import the client's names

    return uvloop.new_event_loop


def boot_id() -> str:
    """Return the id of this boot of the operating system; "" if the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""
