"""The takeover benchmark: owners are killed and hung one after the other, then nobody is.

Three write proxies of one region serve producers of one stream. *Pause* is the longest time without
an acknowledgement after an owner ended, and consists of three parts: until another proxy has
declared it lost, until the next owner has the stream, and until the producers got an
acknowledgement. In the last part processes that need no I/O compete with the proxies for the CPU,
and each proxy that is declared lost is a needless takeover.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from ...chaos.managed_process import ManagedProcess
from ...chaos.server_processes import ProxyProcess
from ...client.connect import Client
from ...core.protocol.errors import RhumblineError
from ...core.runtime.metadata_store import MetadataStore
from ...proxies.write.claims import Claims
from ..harness.bookie_processes import REGION, BookieProcesses
from ..harness.client_processes import ClientProcess
from ..harness.load import NAMESPACE
from .proxy_load import create_streams, owner_of, start_clients
from .proxy_work import TAKEOVER

_PROXIES = 3
_SETTLE_SECONDS = 2.5
"""Time before a fault, in which the proxies hear each other and their limit of losses refills."""
_DOWN_SECONDS = 2.0
_LOCKED_SECONDS = 1.0
_REPORT_SECONDS = 60.0
"""Interval between the rows of the starved part."""
_DECLARED, _TAKEN = "proxy declared lost", "ownership taken"
_SESSION_LOST, _REMOVED = "proxy registration lost", "proxy registration removed"


class ProxyLogLine(NamedTuple):
    """A line of a proxy's log."""

    at_s: float
    """Wall-clock time, in whole milliseconds."""
    event: str


@dataclass
class _Pauses:
    """The pauses of one kind of fault and their parts, in ms."""

    total: list[float] = field(default_factory=list)
    declared: list[float] = field(default_factory=list)
    """From the fault until another proxy declared the owner lost."""
    taken: list[float] = field(default_factory=list)
    """From then until another proxy had taken the stream."""
    by_session: int = 0
    """Number of faults that no proxy declared: the session expired."""
    locked: int = 0
    """Number of rounds that were repeated, because the hung process had locked the store."""


async def measure_takeovers(
    servers: BookieProcesses, kills: int, hangs: int, starve_seconds: float, spinners: int
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for killed owners, one for hung owners, and rows of the starved part.

    Raises RhumblineError if a producer fails.
    """
    async with AsyncExitStack() as closing:
        environ = {**os.environ, "RHUMBLINE_LOG__FORMAT": "json", "RHUMBLINE_LOG__LEVEL": "info"}
        proxies = [
            closing.enter_context(
                ProxyProcess(
                    servers.root, servers.metadata, "write-proxy", f"w{number}",
                    region=REGION, environ=environ,
                )
            )
            for number in range(_PROXIES)
        ]  # fmt: skip
        client = await closing.enter_async_context(
            Client(servers.metadata, namespace=NAMESPACE, region=REGION)
        )
        names = await create_streams(client, TAKEOVER)
        uri = "grpc://" + ",".join(proxy.address for proxy in proxies)
        (producers,) = await start_clients(TAKEOVER, names, uri, servers, closing)
        claims = Claims(client.store)
        for name, number, count in (
            ("kill", signal.SIGKILL, kills),
            ("hang", signal.SIGSTOP, hangs),
        ):
            pauses = _Pauses()
            while len(pauses.total) < count:
                await asyncio.sleep(_SETTLE_SECONDS)
                owner = await owner_of(claims, names[0], proxies)
                await _end_owner(owner, number, proxies, producers, client.store, pauses)
            if count:
                yield _row(name, pauses)
        if starve_seconds:
            async for row in _starve(proxies, producers, starve_seconds, spinners):
                yield row


async def _end_owner(
    owner: ProxyProcess,
    number: signal.Signals,
    proxies: Sequence[ProxyProcess],
    producers: ClientProcess,
    store: MetadataStore,
    pauses: _Pauses,
) -> None:
    await producers.take()
    began_s = time.time()
    if number is signal.SIGKILL:
        await asyncio.to_thread(owner.kill)
    else:
        owner.pause()
        if await _is_locked(store):
            owner.resume()
            pauses.locked += 1
            return
    await asyncio.sleep(_DOWN_SECONDS)
    metrics = await producers.take()
    if number is signal.SIGKILL:
        await asyncio.to_thread(owner.start)
    else:
        owner.resume()
    pauses.total.append(metrics.gap_s * 1000)
    lines = [line for proxy in proxies for line in log_lines(proxy) if line.at_s >= began_s - 0.001]
    declared_s = min((line.at_s for line in lines if line.event == _DECLARED), default=None)
    if declared_s is None:
        pauses.by_session += 1
        return
    pauses.declared.append((declared_s - began_s) * 1000)
    taken_s = min((line.at_s for line in lines if line.event == _TAKEN), default=None)
    if taken_s is not None:
        pauses.taken.append((taken_s - declared_s) * 1000)


async def _is_locked(store: MetadataStore) -> bool:
    """Return whether the store accepts no write for a while."""
    try:
        async with asyncio.timeout(_LOCKED_SECONDS):
            path, _ = await store.create("/bench/unlocked", sequential=True)
    except (TimeoutError, RhumblineError):
        return True
    await store.delete(path)
    return False


def log_lines(proxy: ProxyProcess) -> Iterator[ProxyLogLine]:
    """Return the lines of a proxy's log, which is in JSON."""
    for text in proxy.log.read_text(errors="replace").splitlines():
        if text.startswith("{"):
            fields = json.loads(text)
            yield ProxyLogLine(datetime.fromisoformat(fields["time"]).timestamp(), fields["event"])


# --- without faults, short of CPU ---------------------------------------------------------------


async def _starve(
    proxies: Sequence[ProxyProcess], producers: ClientProcess, seconds: float, spinners: int
) -> AsyncIterator[dict[str, Any]]:
    """Let ``spinners`` processes compete with the proxies; yield the totals once a minute."""
    await asyncio.sleep(_SETTLE_SECONDS)
    before = _events(proxies)
    gaps_s: list[float] = []
    began, records = time.monotonic(), 0
    with _spinning(spinners):
        while (left_s := began + seconds - time.monotonic()) > 0:
            await producers.take()
            await asyncio.sleep(min(_REPORT_SECONDS, left_s))
            metrics = await producers.take()
            gaps_s.append(metrics.gap_s)
            records += metrics.records
            events = _events(proxies) - before
            yield {
                "w": "starved",
                "peer": TAKEOVER.direct_workload.peer,
                "seconds": round(time.monotonic() - began),
                "spinners": spinners,
                "load": round(os.getloadavg()[0], 1),
                "records": records,
                "needless": events[_DECLARED],
                "removed": events[_REMOVED],
                "sessions_lost": events[_SESSION_LOST],
                "taken": events[_TAKEN],
                "longest_gap_ms": round(max(gaps_s) * 1000),
            }


def _events(proxies: Sequence[ProxyProcess]) -> Counter[str]:
    return Counter(line.event for proxy in proxies for line in log_lines(proxy))


@contextmanager
def _spinning(count: int) -> Iterator[None]:
    """Run processes that only compute while the block runs."""
    processes = [
        ManagedProcess(
            f"spinner{number}", [sys.executable, "-c", "while True: pass"], Path(os.devnull)
        )
        for number in range(count)
    ]
    try:
        for process in processes:
            process.launch()
        yield
    finally:
        for process in processes:
            process.kill()


# --- results --------------------------------------------------------------------------------------


def _row(name: str, pauses: _Pauses) -> dict[str, Any]:
    return {
        "w": name,
        "peer": TAKEOVER.direct_workload.peer,
        "rounds": len(pauses.total),
        "p50_ms": quantile(pauses.total, 0.5),
        "p99_ms": quantile(pauses.total, 0.99),
        "max_ms": quantile(pauses.total, 1.0),
        "declared_ms": quantile(pauses.declared, 0.5),
        "taken_ms": quantile(pauses.taken, 0.5),
        "by_session": pauses.by_session,
        "locked": pauses.locked,
        "load": round(os.getloadavg()[0], 1),
        "pauses_ms": [round(pause) for pause in pauses.total],
    }


def quantile(values: Sequence[float], share: float) -> int:
    """Return the smallest value that at least ``share`` of the values do not exceed; 0 if none."""
    ordered = sorted(values)
    if not ordered:
        return 0
    rank = max(1, -int(-share * len(ordered) // 1))
    return round(ordered[min(rank, len(ordered)) - 1])
