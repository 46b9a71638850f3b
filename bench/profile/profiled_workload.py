"""Runs a workload and profiles the bookies and the client with perf meanwhile."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from ...core.protocol.errors import UnavailableError
from ..harness.bookie_processes import BookieProcesses
from ..harness.load import Timing, run_workload
from ..harness.workload import BenchWorkload
from .flame_graph import Frame, draw_flame_graph, stacks_in

_WARM_SECONDS = 2.0
_EVENTS = ("raw_syscalls:sys_enter", "context-switches")
_HERTZ = 499
_WAIT_SECONDS_MAX = 120


async def profile_workload(
    servers: BookieProcesses, workload: BenchWorkload, seconds: float, folder: Path
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row with events per record, measured in a window; then sample another window.

    The flame graphs are written to ``folder``: WORK-bookies.svg and WORK-client.svg. Raises
    UnavailableError if perf is missing or fails.
    """
    pids = {
        "bookies": ",".join(str(servers.pid(directory)) for directory in servers.directories),
        "client": str(os.getpid()),
    }
    window = 0
    async for row in run_workload(workload, servers, Timing(_WARM_SECONDS, seconds, 2)):
        if window == 0:
            for role, pid in pids.items():
                row |= await _count(role, pid, seconds, row["rec_s"])
            yield row
            recording = [
                asyncio.ensure_future(_record(folder / f"{role}.perf", pid, seconds))
                for role, pid in pids.items()
            ]
        window += 1
    await asyncio.gather(*recording)
    for role in pids:
        await _write_graph(folder, role, workload)


async def _count(role: str, pids: str, seconds: float, rate: int) -> dict[str, float]:
    """Return the events per record of some processes, counted while the workload goes on."""
    events = ",".join(_EVENTS)
    sleep = ("--", "sleep", f"{seconds:g}")
    text = await _perf("stat", "-x", ",", "-e", events, "-p", pids, *sleep)
    found: dict[str, float] = {}
    for event in _EVENTS:
        match = re.search(rf"^(\d+),[^,]*,{event}", text, re.MULTILINE)
        if match is None:
            raise UnavailableError(f"perf did not count {event}: {text[:200]}")
        name = "syscalls" if "syscalls" in event else "switches"
        found[f"{role}_{name}"] = round(int(match[1]) / seconds / max(rate, 1), 2)
    return found


async def _record(file: Path, pids: str, seconds: float) -> None:
    sleep = ("--", "sleep", f"{seconds:g}")
    await _perf(
        "record",
        "-q",
        "-F",
        str(_HERTZ),
        "--call-graph",
        "dwarf",
        "-p",
        pids,
        "-o",
        str(file),
        *sleep,
    )


async def _write_graph(folder: Path, role: str, workload: BenchWorkload) -> None:
    recorded = folder / f"{role}.perf"
    text = await _perf("script", "-i", str(recorded), "-F", "comm,ip,sym,dso")
    root = Frame("all")
    for stack in stacks_in(text.splitlines()):
        root.add(stack)
    drawn = draw_flame_graph(f"{workload.name}, {workload.peer}: {role}", root)
    (folder / f"{workload.name}-{role}.svg").write_text(drawn)
    recorded.unlink()


async def _perf(*arguments: str) -> str:
    """Run perf and return its output, for ``perf stat`` that of its standard error."""
    if shutil.which("perf") is None:
        raise UnavailableError("perf is not installed; it is part of the Linux tools")
    process = await asyncio.create_subprocess_exec(
        "perf", *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(_WAIT_SECONDS_MAX):
        out, error = await process.communicate()
    if process.returncode:
        raise UnavailableError(f"perf {arguments[0]}: {error.decode(errors='replace')[:300]}")
    return (error if arguments[0] == "stat" else out).decode(errors="replace")
