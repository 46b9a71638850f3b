"""The fairness benchmark: latencies of a principal while another one floods the same proxy.

One principal appends at a low rate, each producer waiting for its records. The other one appends as
fast as it can. Windows alternate between the first principal alone, a flood of another cluster on
this machine, a flood of the same cluster without a quota, and one with a quota, so that a change of
the machine's load meets all of them. The two clusters share nothing but the machine, so a flood of
the other one shows the effect of its processors and its disk. The clients of the flood have the
lowest priority, because in production they do not take the processors of the cluster.
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...chaos.server_processes import ProxyProcess
from ...client.connect import Client
from ...core.protocol.errors import RhumblineError
from ...core.runtime.histogram import Histogram
from ...proxies.quotas.quota_store import QuotaStore
from ...security.principal import Role
from ...security.quotas import Quota, Subject, SubjectKind
from ...security.token_claims import static_token_line
from ..harness.bookie_processes import REGION, BookieProcesses
from ..harness.client_processes import ClientProcess
from ..harness.load import NAMESPACE, latencies
from ..harness.proxy_clients import ClientMetrics, ClientSettings
from ..harness.settling import settle
from ..proxies.proxy_load import create_streams
from ..proxies.proxy_work import ProxyWorkload

POLITE, FLOOD = "polite", "flood"
POLITE_WORK = ProxyWorkload("P6-polite", "awaiting", 128, streams=4, clients=20, rate=400)
"""Twenty producers at a rate that leaves most of the machine to the flood."""
FLOOD_WORK = ProxyWorkload(
    "P6-flood", "batching", 1_000, streams=4, clients=4, batch=50, window=4_000
)
ALONE, ELSEWHERE = "alone", "flood elsewhere"
UNLIMITED, LIMITED = "flooded", "flooded, quota"
_LOWEST_PRIORITY = 19
_SETTLE_SECONDS = 1.5
"""Time for which nothing is measured after a change; quotas apply within it."""


async def measure_fairness(
    servers: BookieProcesses,
    elsewhere: BookieProcesses,
    seconds: float,
    repetitions: int,
    flood_bytes_per_second: int,
) -> AsyncIterator[dict[str, Any]]:
    """Measure each mode ``repetitions`` times for ``seconds``, and yield a row for each mode.

    Latencies are those of the polite principal from the due times of its records.
    ``elsewhere`` is the other cluster on this machine. ``flood_bytes_per_second`` is the quota in
    the last mode. Raises RhumblineError if a client fails.
    """
    async with AsyncExitStack() as closing:
        cluster = await _proxied(servers, closing)
        other = await _proxied(elsewhere, closing)
        polite = await _start(cluster, POLITE_WORK, POLITE, closing)
        quotas = QuotaStore(cluster.client.store)
        subject = Subject(SubjectKind.PRINCIPAL, FLOOD)
        quota = Quota(append_bytes_per_second=flood_bytes_per_second)
        totals = {mode: _Total() for mode in (ALONE, ELSEWHERE, UNLIMITED, LIMITED)}
        for _ in range(repetitions):
            await _window(polite, None, seconds, totals[ALONE])
            async with AsyncExitStack() as flooding:
                flood = await _start(other, FLOOD_WORK, FLOOD, flooding)
                await _window(polite, flood, seconds, totals[ELSEWHERE])
            await settle([elsewhere])
            async with AsyncExitStack() as flooding:
                flood = await _start(cluster, FLOOD_WORK, FLOOD, flooding)
                await _window(polite, flood, seconds, totals[UNLIMITED])
                await quotas.change(lambda table: table.with_quota(subject, quota))
                await _window(polite, flood, seconds, totals[LIMITED])
            await quotas.change(lambda table: table.without(subject))
        for mode, total in totals.items():
            yield _row(mode, total, totals[ALONE], seconds * repetitions)


@dataclass(frozen=True, slots=True)
class _Proxied:
    """A cluster with a proxy that knows both principals, and its streams."""

    root: Path
    client: Client
    uri: str
    streams: dict[ProxyWorkload, list[str]]


async def _proxied(servers: BookieProcesses, closing: AsyncExitStack) -> _Proxied:
    """Start a proxy and create the streams."""
    tokens = servers.root / "tokens"
    lines = [
        static_token_line(name, f"token-of-{name}", (Role.CLIENT,)) for name in (POLITE, FLOOD)
    ]
    tokens.write_text("\n".join(lines) + "\n")
    environ = {**servers.proxy_environment, "RHUMBLINE_SECURITY__STATIC_TOKENS": str(tokens)}
    proxy = closing.enter_context(
        ProxyProcess(
            servers.root, servers.metadata, "write-proxy", "proxy", region=REGION, environ=environ
        )
    )
    client = await closing.enter_async_context(servers.client(NAMESPACE))
    names = {work: await create_streams(client, work) for work in (POLITE_WORK, FLOOD_WORK)}
    return _Proxied(servers.root, client, f"grpc://{proxy.address}", names)


class _Total:
    """The measurements in one mode."""

    def __init__(self) -> None:
        self.latencies = Histogram()
        self.flood_records = 0

    def add(self, polite: ClientMetrics, flood: ClientMetrics | None) -> None:
        """Add a window."""
        self.latencies.merge(polite.latencies, polite.max_seconds)
        self.flood_records += 0 if flood is None else flood.records


async def _window(
    polite: ClientProcess, flood: ClientProcess | None, seconds: float, total: _Total
) -> None:
    """Measure one window, after everything has settled."""
    await asyncio.sleep(_SETTLE_SECONDS)
    await _take(polite, flood)
    await asyncio.sleep(seconds)
    total.add(*await _take(polite, flood))


async def _take(
    polite: ClientProcess, flood: ClientProcess | None
) -> tuple[ClientMetrics, ClientMetrics | None]:
    return await polite.take(), None if flood is None else await flood.take()


async def _start(
    cluster: _Proxied, work: ProxyWorkload, principal: str, closing: AsyncExitStack
) -> ClientProcess:
    """Start the producers of a principal, and wait until they run."""
    names = cluster.streams[work]
    settings = ClientSettings(
        kind=work.kind,
        uri=cluster.uri,
        namespace=NAMESPACE,
        streams=[names[number % len(names)] for number in range(work.clients)],
        size=work.size,
        rate=work.rate,
        batch=work.batch,
        window=work.window,
        token=f"token-of-{principal}",
    )
    process = ClientProcess(cluster.root, f"clients-{principal}", settings)
    closing.callback(process.kill)
    process.launch()
    if principal == FLOOD:
        os.setpriority(os.PRIO_PROCESS, process.pid, _LOWEST_PRIORITY)
    await process.ready()
    return process


def _row(mode: str, total: _Total, alone: _Total, seconds: float) -> dict[str, Any]:
    count = total.latencies.count
    if not count:
        raise RhumblineError(f"{mode}: no record of the polite principal in {seconds:.1f} s")
    p99_ms, alone_ms = (one.latencies.quantile_ms(0.99) for one in (total, alone))
    return {
        "w": POLITE_WORK.name,
        "peer": POLITE_WORK.direct_workload.peer,
        "mode": mode,
        "rate": POLITE_WORK.rate,
        "rec_s": round(count / seconds),
        **latencies(total.latencies),
        "p99_ratio": round(p99_ms / alone_ms, 2),
        "flood_MB_s": round(total.flood_records * FLOOD_WORK.size / seconds / 1e6, 2),
    }
