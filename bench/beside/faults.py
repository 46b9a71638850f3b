"""The benchmark of writers and tailing readers while a bookie is slow, hung or killed."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

from ...core.runtime.tasks import Tasks
from ..harness.bookie_processes import BookieProcesses
from ..harness.workload import BenchWorkload
from .foreground import QUIET, Mode, Row, measure_beside

_STOPPED_S, _RUNNING_S = 0.03, 0.01


async def measure_faults(
    servers: BookieProcesses, workloads: Sequence[BenchWorkload], seconds: float, repetitions: int
) -> AsyncIterator[Row]:
    """Yield a row per window; each fault begins with its window, and ends after it."""
    modes = [
        QUIET,
        *(Mode(name, partial(fault, servers)) for name, fault in _FAULTS.items()),
    ]
    for workload in workloads:
        async for row in measure_beside(servers, workload, modes, seconds, repetitions):
            yield row


@asynccontextmanager
async def _slow(servers: BookieProcesses, row: Row) -> AsyncIterator[None]:
    """Stop the bookie for three quarters of the time, 30 ms each."""
    del row
    pid = servers.pid(servers.directories[0])

    async def stutter() -> None:
        while True:
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(_STOPPED_S)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(_RUNNING_S)

    tasks = Tasks()
    tasks.spawn(stutter(), "stutter")
    try:
        yield
    finally:
        await tasks.aclose()
        os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(_RECOVERY_S)


@asynccontextmanager
async def _hung(servers: BookieProcesses, row: Row) -> AsyncIterator[None]:
    del row
    pid = servers.pid(servers.directories[0])
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
    await asyncio.sleep(_RECOVERY_S)


@asynccontextmanager
async def _killed(servers: BookieProcesses, row: Row) -> AsyncIterator[None]:
    del row
    directory = servers.directories[0]
    await asyncio.to_thread(servers.end, directory, signal.SIGKILL)
    try:
        yield
    finally:
        await asyncio.to_thread(servers.start, directory)
    await asyncio.sleep(_RECOVERY_S)


_RECOVERY_S = 3.0
"""Time after a fault in which writers and readers find the bookie again."""

_FAULTS = {"slow": _slow, "hung": _hung, "killed": _killed}
