"""Runs a workload through a proxy and measures it in consecutive windows."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict
from typing import Any

from ...chaos.server_processes import ProxyProcess
from ...client.connect import Client
from ...core.protocol.errors import RhumblineError, TooManyRequestsError
from ...core.runtime.histogram import Histogram
from ...core.runtime.tasks import Tasks
from ...proxies.write.claims import Claims
from ..harness.bookie_processes import REGION, BookieProcesses, Usage, usage_of
from ..harness.client_processes import ClientProcess
from ..harness.load import NAMESPACE, Timing, ensure_namespace, latencies
from ..harness.open_loop import OpenLoop
from ..harness.proxy_clients import DUE, ClientMetrics, ClientSettings
from .proxy_work import ProxyWorkload

_BEHIND_SECONDS_MAX = 5
_OWNER_SECONDS_MAX = 30


async def run_proxy_workload(
    work: ProxyWorkload, servers: BookieProcesses, timing: Timing
) -> AsyncIterator[dict[str, Any]]:
    """Run a workload and yield a row of results per window.

    Columns with the prefix ``srv_`` cover bookies and proxy, ``proxy_`` the proxy alone, ``cli_``
    the processes of producers or readers. Raises RhumblineError if a client fails.
    """
    kind = "read-proxy" if work.kind == "reading" else "write-proxy"
    failures: list[BaseException] = []
    with ProxyProcess(
        servers.root,
        servers.metadata,
        kind,
        kind,
        region=REGION,
        environ=servers.proxy_environment,
    ) as proxy:
        async with AsyncExitStack() as closing:
            client = await closing.enter_async_context(servers.client(NAMESPACE))
            names = await create_streams(client, work)
            uri = servers.metadata if work.is_direct else f"grpc://{proxy.address}"
            clients = await start_clients(work, names, uri, servers, closing)
            tasks = Tasks(on_failure=failures.append)
            closing.push_async_callback(tasks.aclose)
            if work.kind == "reading" and work.rate:
                tasks.spawn(_write_at_rate(client, names[0], work), "writer")
            await asyncio.sleep(timing.warmup_seconds)
            await _take(clients)
            for number in range(timing.windows):
                before, started = _usage(servers, proxy), time.perf_counter()
                await asyncio.sleep(timing.window_seconds)
                metrics = await _take(clients)
                seconds, after = time.perf_counter() - started, _usage(servers, proxy)
                if failures:
                    raise failures[0]
                memory = sum(process.resident_bytes for process in clients)
                yield _row(work, number, metrics, seconds, (before, after), memory)


def _usage(servers: BookieProcesses, proxy: ProxyProcess) -> tuple[Usage, float, int]:
    return (servers.usage(), *usage_of(proxy.pid))


async def create_streams(client: Client, work: ProxyWorkload) -> list[str]:
    """Create the streams of a workload and return their names."""
    policy = work.direct_workload.policy
    await ensure_namespace(client, policy)
    names = [f"{work.name}-{number}" for number in range(work.streams)]
    for name in names:
        await client.namespace().create_stream(name, policy)
    return names


async def start_clients(
    work: ProxyWorkload,
    names: Sequence[str],
    uri: str,
    servers: BookieProcesses,
    closing: AsyncExitStack,
) -> list[ClientProcess]:
    """Start the producers or readers of a workload and wait until they run."""
    processes = []
    for number in range(work.processes):
        streams = [names[n % len(names)] for n in range(number, work.clients, work.processes)]
        settings = ClientSettings(
            kind=work.kind,
            uri=uri,
            namespace=NAMESPACE,
            streams=streams,
            size=work.size,
            rate=work.rate / work.processes,
            batch=work.batch,
            window=work.window,
            tls=None if servers.tls is None else asdict(servers.tls.clients),
        )
        process = ClientProcess(servers.root, f"clients{number}", settings)
        closing.callback(process.kill)
        process.launch()
        processes.append(process)
    for process in processes:
        await process.ready()
    return processes


async def owner_of(claims: Claims, stream: str, proxies: Sequence[ProxyProcess]) -> ProxyProcess:
    """Return the proxy that owns a stream. Raises TimeoutError if none does for 30 s."""
    async with asyncio.timeout(_OWNER_SECONDS_MAX):
        while True:
            claim = await claims.owner(NAMESPACE, stream)
            for proxy in proxies:
                if claim is not None and proxy.address == claim.address:
                    return proxy
            await asyncio.sleep(0.05)


async def _take(clients: Sequence[ClientProcess]) -> list[ClientMetrics]:
    return await asyncio.gather(*(process.take() for process in clients))


async def _write_at_rate(client: Client, stream: str, work: ProxyWorkload) -> None:
    """Append records that contain their due time; raise if the rate cannot be sustained."""
    rest = os.urandom(work.size - DUE.size)
    async with client.writer(stream) as writer:
        loop = OpenLoop(work.rate)
        while True:
            numbers = await loop.due()
            if time.perf_counter() - loop.due_at(numbers.start) > _BEHIND_SECONDS_MAX:
                raise TooManyRequestsError(f"the rate of {work.rate} records/s cannot be sustained")
            for number in numbers:
                writer.append(DUE.pack(loop.due_at(number)) + rest)


# --- results --------------------------------------------------------------------------------------


def _row(
    work: ProxyWorkload,
    number: int,
    metrics: Sequence[ClientMetrics],
    seconds: float,
    usage: tuple[tuple[Usage, float, int], tuple[Usage, float, int]],
    client_bytes: int,
) -> dict[str, Any]:
    """Return the row of a window, with the keys that benchmarks of other systems use."""
    histogram = Histogram()
    for process_metrics in metrics:
        histogram.merge(process_metrics.latencies, process_metrics.max_seconds)
    count = sum(process_metrics.records for process_metrics in metrics)
    if count == 0 and not work.is_idle:
        raise RhumblineError(f"{work.name}: no record in {seconds:.1f} s")
    (before, proxy_before, _), (after, proxy_after, proxy_bytes) = usage
    proxy_s = proxy_after - proxy_before
    bookies_s = after.server_cpu_s - before.server_cpu_s
    clients_s = sum(process_metrics.cpu_s for process_metrics in metrics)
    millions = max(count, 1) / 1e6
    row: dict[str, Any] = {
        "w": work.name,
        "peer": work.direct_workload.peer,
        "mode": work.kind,
        "rep": number,
        "size": work.size,
        "streams": work.streams,
        "window": work.window * work.clients,
        "rate": work.rate,
        "clients": work.clients,
        "processes": work.processes,
        "rec_s": round(count / seconds),
        "MB_s": round(count * work.size / seconds / 1e6, 2),
        **latencies(histogram),
        "srv_cpu": round((bookies_s + proxy_s) / seconds, 2),
        "cli_cpu": round(clients_s / seconds, 2),
        "srv_cpu_per_M": round((bookies_s + proxy_s) / millions, 2),
        "cli_cpu_per_M": round(clients_s / millions, 2),
        "proxy_cpu": round(proxy_s / seconds, 2),
        "proxy_cpu_per_M": round(proxy_s / millions, 2),
        "srv_rss": after.server_rss_mib + (proxy_bytes >> 20),
        "cli_rss": client_bytes >> 20,
        "proxy_rss": proxy_bytes >> 20,
        "err": 0,
    }
    if work.kind == "reading":
        row["readers"] = work.clients
        row["del_rec_s"] = row["rec_s"]
        row["del_MB_s"] = row["MB_s"]
        row["del"] = latencies(histogram)
    return row
