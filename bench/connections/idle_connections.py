"""The connections benchmark: memory and CPU of a write proxy with thousands of idle clients.

Each client has a TCP connection of its own. Producers and readers of one process share one, so
these are as many processes.
"""

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack
from typing import Any

from ...chaos.server_processes import ProxyProcess
from ...client.connect import Client, connect_proxies
from ...core.log.policy import StreamPolicy
from ...core.protocol.errors import UnavailableError
from ...core.protocol.quorum import Quorum
from ...core.runtime.histogram import Histogram
from ...proxies.rpc import methods
from ..harness.bookie_processes import REGION, BookieProcesses, usage_of
from ..harness.load import NAMESPACE, ensure_namespace, latencies
from .http2_connection import Http2Connection

_OPENED_AT_ONCE = 100
_SETTLE_SECONDS = 1.0
_OTHER_FILES = 200
"""Open files of a process besides its connections."""
_STREAM = "beside"
_PERIOD_SECONDS = 0.01


async def measure_connections(
    servers: BookieProcesses, count: int, seconds: float
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row without connections, one with them, and one with a call on each.

    Latencies are those of one producer beside them, which awaits each of its records. Raises
    UnavailableError if the proxy closes a connection or the limit of open files is too low.
    """
    _raise_files_limit(count + _OTHER_FILES)
    async with AsyncExitStack() as closing:
        proxy = closing.enter_context(
            ProxyProcess(servers.root, servers.metadata, "write-proxy", "w", region=REGION)
        )
        client = await closing.enter_async_context(
            Client(servers.metadata, namespace=NAMESPACE, region=REGION)
        )
        policy = StreamPolicy(quorum=Quorum(3, 3, 2))
        await ensure_namespace(client, policy)
        await client.namespace().create_stream(_STREAM, policy)
        connections: list[Http2Connection] = []
        closing.callback(_close, connections)
        base = await _measure(proxy, "none", 0, 0.0, seconds)
        yield base
        opening = await _cpu_of(proxy, _connect(proxy.address, count, connections))
        yield await _measure(proxy, "connections", count, opening, seconds, base)
        opening = await _cpu_of(proxy, _begin_calls(proxy.address, connections))
        yield await _measure(proxy, "calls", count, opening, seconds, base)
        failed = [connection.failure for connection in connections if connection.failure]
        if failed:
            raise UnavailableError(f"{len(failed)} connections failed: {failed[0]}")


def _raise_files_limit(needed: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UnavailableError(f"{needed} open files are needed, the limit is {hard}")
    if soft < needed:  # the proxy inherits the limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


async def _connect(address: str, count: int, connections: list[Http2Connection]) -> None:
    host, _, port = address.rpartition(":")
    loop = asyncio.get_running_loop()
    while len(connections) < count:
        number = min(_OPENED_AT_ONCE, count - len(connections))
        made = await asyncio.gather(
            *(loop.create_connection(Http2Connection, host, int(port)) for _ in range(number))
        )
        connections += [protocol for _, protocol in made]


async def _begin_calls(address: str, connections: list[Http2Connection]) -> None:
    for first in range(0, len(connections), _OPENED_AT_ONCE):
        for connection in connections[first : first + _OPENED_AT_ONCE]:
            connection.begin_call(address, methods.APPEND.path)
        await asyncio.sleep(0.02)


def _close(connections: list[Http2Connection]) -> None:
    for connection in connections:
        connection.close()


async def _cpu_of(proxy: ProxyProcess, work: Coroutine[Any, Any, None]) -> float:
    """Return the CPU seconds of the proxy from the beginning of the work until it is settled."""
    before, _ = usage_of(proxy.pid)
    await work
    await asyncio.sleep(_SETTLE_SECONDS)
    return usage_of(proxy.pid)[0] - before


async def _measure(
    proxy: ProxyProcess,
    name: str,
    count: int,
    opening_cpu_s: float,
    seconds: float,
    base: dict[str, Any] | None = None,
) -> dict[str, Any]:
    before, resident_bytes = usage_of(proxy.pid)
    started = time.perf_counter()
    await asyncio.sleep(seconds)
    idle_cores = (usage_of(proxy.pid)[0] - before) / (time.perf_counter() - started)
    beside = await _append_beside(proxy.address, seconds)
    added = 0 if base is None else resident_bytes - base["proxy_bytes"]
    return {
        "w": name,
        "peer": "rhumbline-imm",
        "connections": count,
        "proxy_bytes": resident_bytes,
        "proxy_rss": resident_bytes >> 20,
        "KiB_each": round(added / 1024 / count, 1) if count else 0,
        "open_cpu_ms_each": round(opening_cpu_s * 1000 / count, 2) if count else 0,
        "idle_cores": round(idle_cores, 4),
        **latencies(beside),
    }


async def _append_beside(address: str, seconds: float) -> Histogram:
    """Append a record every 10 ms through the proxy; return the latencies."""
    found = Histogram()
    clock = time.perf_counter
    async with (
        connect_proxies(f"grpc://{address}", namespace=NAMESPACE) as client,
        client.writer(_STREAM) as writer,
    ):
        await writer.append(b"first")
        ends = clock() + seconds
        while (began := clock()) < ends:
            await writer.append(b"x" * 128)
            found.add(clock() - began)
            await asyncio.sleep(_PERIOD_SECONDS)
    return found
