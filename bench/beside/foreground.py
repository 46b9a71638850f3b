"""The work whose latency is measured, in windows with and without other work beside it."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from dataclasses import dataclass, replace
from typing import Any

from ...core.log.policy import FlushPolicy
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import Timing, run_workload
from ..harness.workload import IMMEDIATE, BenchWorkload

_WARM_SECONDS = 3.0

WORKLOADS = (
    BenchWorkload("W1b", "rate", 128, rate=10_000, flush=FlushPolicy(period_ms=10), readers=1),
    BenchWorkload(
        "W3-1000", "rate", 128, streams=1, rate=1_000, flush=FlushPolicy(period_ms=1), readers=1
    ),
    BenchWorkload("W2-1", "sync", 1024, streams=1, flush=IMMEDIATE),
)
"""10,000 records/s over 16 streams with a tailing reader; delivery; one outstanding record."""

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Mode:
    """A name for what runs beside a window; ``enter`` begins and ends it, and adds its results."""

    name: str
    enter: Callable[[Row], AbstractAsyncContextManager[None]] = lambda _: nullcontext()


QUIET = Mode("quiet")


async def measure_beside(
    servers: BookieProcesses,
    workload: BenchWorkload,
    modes: Sequence[Mode],
    seconds: float,
    repetitions: int,
) -> AsyncIterator[Row]:
    """Yield a row per window; the modes take turns. The first one also sees the warm-up."""
    count = len(modes) * repetitions
    named = replace(workload, name=f"{workload.name}-{modes[0].name}")
    async with aclosing(
        run_workload(named, servers, Timing(_WARM_SECONDS, seconds, count))
    ) as windows:
        for number in range(count):
            mode = modes[number % len(modes)]
            found: Row = {}
            async with mode.enter(found):
                row = await anext(windows)
            yield {
                **row,
                "w": workload.name,
                "rep": number // len(modes),
                "beside": mode.name,
                **found,
            }
