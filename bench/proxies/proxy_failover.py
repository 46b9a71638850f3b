"""The failover benchmark: the pause of producers when the owner of their stream ends.

The owning proxy is killed, or stopped cleanly.
"""

import asyncio
import signal
import statistics
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

from ...chaos.server_processes import ProxyProcess
from ...core.runtime.histogram import Histogram
from ...proxies.write.claims import Claims
from ..harness.bookie_processes import REGION, BookieProcesses
from ..harness.load import NAMESPACE, latencies
from .proxy_load import create_streams, owner_of, start_clients
from .proxy_work import FAILOVER

ROUNDS = 5
_SETTLE_SECONDS = 2.0
_KINDS = (("P4-kill9", signal.SIGKILL), ("P4-stop", signal.SIGTERM))


async def measure_failover(
    servers: BookieProcesses, seconds: float
) -> AsyncIterator[dict[str, Any]]:
    """End the owner ``ROUNDS`` times by each signal and yield a row per signal.

    Each round observes the producers for ``seconds``. ``gaps_ms`` has the longest time without an
    acknowledgement of each round, ``gap_ms`` their median. Raises RhumblineError if a producer
    fails.
    """
    async with AsyncExitStack() as closing:
        proxies = [
            closing.enter_context(
                ProxyProcess(
                    servers.root,
                    servers.metadata,
                    "write-proxy",
                    f"w{number}",
                    region=REGION,
                    environ=servers.proxy_environment,
                )
            )
            for number in range(2)
        ]
        client = await closing.enter_async_context(servers.client(NAMESPACE))
        names = await create_streams(client, FAILOVER)
        uri = "grpc://" + ",".join(proxy.address for proxy in proxies)
        (producers,) = await start_clients(FAILOVER, names, uri, servers, closing)
        claims = Claims(client.store)
        for name, number in _KINDS:
            histogram = Histogram()
            gaps: list[float] = []
            for _ in range(ROUNDS):
                await asyncio.sleep(_SETTLE_SECONDS)
                owner = await owner_of(claims, names[0], proxies)
                await producers.take()
                await asyncio.to_thread(owner.stop, number=number)
                await asyncio.sleep(seconds)
                metrics = await producers.take()
                histogram.merge(metrics.latencies, metrics.max_seconds)
                gaps.append(metrics.gap_s)
                await asyncio.to_thread(owner.start)
            yield _row(name, gaps, histogram, ROUNDS * seconds)


def _row(name: str, gaps_s: list[float], histogram: Histogram, seconds: float) -> dict[str, Any]:
    return {
        "w": name,
        "peer": FAILOVER.direct_workload.peer,
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
