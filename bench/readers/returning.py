"""The benchmark of consumers that return after an outage: bytes that cross regions.

A stream has copies in two regions. Its consumers are in a third one, behind a read proxy, and
continue at different positions near the beginning of what they missed. Every row uses a new proxy,
whose cache is empty. The bytes are counted by the links between the regions and by the proxy.
"""

import asyncio
import os
import re
import time
import urllib.request
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

from ...chaos.server_processes import ProxyProcess, status_url
from ...client.connect import Client
from ...core.log.policy import FlushPolicy, StreamPolicy
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import GapError
from ...core.protocol.quorum import Quorum
from ..harness.bookie_processes import usage_of
from ..harness.load import NAMESPACE, ensure_namespace
from ..harness.region_processes import RegionProcesses
from .reader_process import ReaderProcess, ReaderSettings

REGIONS = ("a", "b")
"""The regions with copies."""
VIEWER = "c"
"""The region of the consumers."""

_STREAM = "missed"
_BATCH = 200
_COUNTERS = {
    "fetched_bytes": "rhumbline_proxy_read_fetched_bytes_total",
    "delivered_bytes": "rhumbline_proxy_read_delivered_bytes_total",
    "other_region_bytes": 'rhumbline_client_ledgers_received_bytes_total{origin="other_region"}',
    "cache_hits": "rhumbline_proxy_read_cache_hits_total",
    "cache_misses": "rhumbline_proxy_read_cache_misses_total",
    "runs": "rhumbline_proxy_read_runs",
}


@dataclass(frozen=True, slots=True)
class ReturningWorkload:
    """The records that the consumers missed, and the number of consumers of each row."""

    consumers: Sequence[int]
    records: int
    size: int
    round_trip_ms: float
    spread_percent: float
    """The starts of the consumers lie in this first part of the records."""


async def measure_returning(
    servers: RegionProcesses, work: ReturningWorkload
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for each number of consumers. Raises GapError if records are missing."""
    servers.set_round_trip(0)
    positions = await _write(servers, work)
    servers.set_round_trip(work.round_trip_ms)
    for count in work.consumers:
        yield await _measure(servers, work, positions, count)


async def _write(servers: RegionProcesses, work: ReturningWorkload) -> list[Dlsn]:
    """Write the stream and return the position of the first record of each batch."""
    policy = StreamPolicy(quorum=Quorum(2, 2, 2, 2), flush=FlushPolicy(period_ms=2))
    positions = []
    async with Client(servers.metadata, namespace=NAMESPACE, region=REGIONS[0]) as client:
        await ensure_namespace(client, policy)
        await client.namespace().create_stream(_STREAM, policy)
        async with client.writer(_STREAM) as writer:
            for _ in range(work.records // _BATCH):
                payloads = [os.urandom(work.size) for _ in range(_BATCH)]
                positions.append((await writer.append_many(payloads))[0])
            await writer.flush()
    return positions


async def _measure(
    servers: RegionProcesses, work: ReturningWorkload, positions: Sequence[Dlsn], count: int
) -> dict[str, Any]:
    part = max(1, int(len(positions) * work.spread_percent / 100))
    batches = [number * part // count for number in range(count)]
    total = len(positions) * _BATCH
    expected = [total - _BATCH * batch for batch in batches]
    environ = {**os.environ, "RHUMBLINE_SERVE__STATUS_PORT": "0"}
    name = f"readers-{count}"
    with ProxyProcess(
        servers.root, servers.metadata, "read-proxy", name, region=VIEWER, environ=environ
    ) as proxy:
        settings = ReaderSettings(
            uri=f"grpc://{proxy.address}",
            namespace=NAMESPACE,
            stream=_STREAM,
            starts=[str(positions[batch]) for batch in batches],
            counts=expected,
        )
        crossed_before = servers.bytes_to(VIEWER)
        proxy_before, _ = usage_of(proxy.pid)
        started = time.perf_counter()
        with ReaderProcess(servers.root, name + "-consumers", settings) as consumers:
            result = await consumers.result()
        seconds = time.perf_counter() - started
        proxy_after, proxy_rss = usage_of(proxy.pid)
        crossed = servers.bytes_to(VIEWER) - crossed_before
        counters = await asyncio.to_thread(_counters, proxy)
    if result.records != expected:
        raise GapError(f"read {result.records} records of {expected}")
    delivered = sum(expected) * work.size
    millions = sum(expected) / 1e6
    return {
        "w": f"returning-{count}",
        "peer": "rhumbline-proxy",
        "consumers": count,
        "size": work.size,
        "stream_MB": round(total * work.size / 1e6, 1),
        "delivered_MB": round(delivered / 1e6, 1),
        "wan_MB": round(crossed / 1e6, 1),
        "wan_per_stream_byte": round(crossed / total / work.size, 2),
        "wan_per_delivered_byte": round(crossed / delivered, 3),
        **{key: counters.get(name) for key, name in _COUNTERS.items()},
        "seconds": round(result.seconds, 2),
        "rec_s": round(sum(expected) / result.seconds),
        "MB_s": round(delivered / result.seconds / 1e6, 1),
        "total_seconds": round(seconds, 2),
        "proxy_cpu_per_M": round((proxy_after - proxy_before) / millions, 2),
        "cli_cpu_per_M": round(result.cpu_s / millions, 2),
        "proxy_rss": proxy_rss >> 20,
    }


def _counters(proxy: ProxyProcess) -> dict[str, int]:
    """Return the metrics of a proxy by name and labels; those that it does not have are missing."""
    with urllib.request.urlopen(f"{status_url(proxy)}/metrics", timeout=10) as response:
        text = response.read().decode()
    found = re.findall(r"^(rhumbline_\S+) ([0-9.e+]+)$", text, re.MULTILINE)
    return {name: int(float(value)) for name, value in found}
