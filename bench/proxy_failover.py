"""How long producers wait when the owner of their stream ends: killed, or stopped in order."""

import asyncio
import signal
import statistics
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from ..client.connect import Client
from ..core.runtime.histogram import Histogram
from ..proxies.write.claims import Claims
from .harness.bookie_processes import REGION, BookieProcesses
from .harness.load import NAMESPACE, latencies
from .harness.proxy_processes import ProxyProcess
from .proxies import make_streams, start_clients
from .proxy_work import FAILOVER

ROUNDS = 5
_SETTLE_SECONDS = 2.0
_OWNER_SECONDS_MAX = 10
_KINDS = (("P4-kill9", signal.SIGKILL), ("P4-stop", signal.SIGTERM))


async def measure_failover(
    servers: BookieProcesses, seconds: float
) -> AsyncIterator[dict[str, Any]]:
    """Ends the owner ``ROUNDS`` times in each way; a row for each way.

    ``gap_ms`` is the median of the longest times without any acknowledgement, ``gaps_ms`` are all
    of them; each is looked for during ``seconds``. Raises RhumblineError when a producer fails.
    """
    async with AsyncExitStack() as closing:
        proxies = [
            closing.enter_context(
                ProxyProcess(servers.root, servers.metadata, "write-proxy", f"w{number}")
            )
            for number in range(2)
        ]
        client = await closing.enter_async_context(
            Client(servers.metadata, namespace=NAMESPACE, region=REGION)
        )
        names = await make_streams(client, FAILOVER)
        uri = "grpc://" + ",".join(one.address for one in proxies)
        (producers,) = await start_clients(FAILOVER, names, uri, closing)
        claims = Claims(client.store)
        for name, number in _KINDS:
            histogram = Histogram()
            gaps: list[float] = []
            for _ in range(ROUNDS):
                await asyncio.sleep(_SETTLE_SECONDS)
                owner = await _owner(claims, names[0], proxies)
                await producers.take()
                await asyncio.to_thread(owner.end, number)
                await asyncio.sleep(seconds)
                figures = await producers.take()
                histogram.merge(figures.latencies, figures.max_seconds)
                gaps.append(figures.gap_s)
                await asyncio.to_thread(owner.start)
            yield _row(name, gaps, histogram, ROUNDS * seconds)


def _row(name: str, gaps_s: list[float], histogram: Histogram, seconds: float) -> dict[str, Any]:
    return {
        "w": name,
        "peer": FAILOVER.per10.peer,
        "mode": "failover",
        "rep": 0,
        "size": FAILOVER.size,
        "streams": FAILOVER.streams,
        "clients": FAILOVER.clients,
        "processes": FAILOVER.processes,
        "rate": FAILOVER.rate,
        "rec_s": round(histogram.count / seconds),
        "MB_s": round(histogram.count * FAILOVER.size / seconds / 1e6, 2),
        **latencies(histogram),
        "gap_ms": round(statistics.median(gaps_s) * 1000),
        "gaps_ms": [round(gap * 1000) for gap in gaps_s],
        "err": 0,
    }


async def _owner(claims: Claims, stream: str, proxies: list[ProxyProcess]) -> ProxyProcess:
    async with asyncio.timeout(_OWNER_SECONDS_MAX):
        while True:
            claim = await claims.owner(NAMESPACE, stream)
            for one in proxies:
                if claim is not None and one.address == claim.address:
                    return one
            await asyncio.sleep(0.05)
