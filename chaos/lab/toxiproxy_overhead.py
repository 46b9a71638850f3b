"""Measures the overhead of toxiproxy: append latency with links without toxics and without links.

Two clusters of real bookie processes run side by side, with three regions each and no added delay.
Sequential appends alternate between them in blocks, so that other load on the machine affects both.
"""

import shutil
import tempfile
import time
from contextlib import AsyncExitStack
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

from ...client.connect import Client
from .report.service_levels import percentile
from .scenario import RegionLink, Scenario, ScenarioTopology, ScenarioWorkload, WriterTurn
from .wan.cluster import WanCluster
from .wan.programs import app

_BLOCK = 50
_WARMUP = 50
_REGIONS = ("east", "north", "west")
_WITHOUT_DELAY = Scenario(
    "No distance",
    "Measures the overhead of toxiproxy.",
    ScenarioTopology(
        _REGIONS, 1, tuple(RegionLink(pair, 0.0) for pair in combinations(_REGIONS, 2))
    ),
    ScenarioWorkload((WriterTurn(_REGIONS[0]),)),
    ("wan",),
)


class LinkLatency(NamedTuple):
    """Append latency over one type of link."""

    link: str
    appends: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


async def measure(appends: int, servers: Path) -> list[LinkLatency]:
    """Measure ``appends`` appends over each type of link.

    Raises ConfigurationError if toxiproxy is not installed.
    """
    folder = Path(tempfile.mkdtemp(prefix="rhumbline-lab-"))
    latencies: dict[str, list[float]] = {"direct": [], "toxiproxy, no toxics": []}
    try:
        async with AsyncExitStack() as closing:
            writers = []
            for index, link in enumerate(latencies):
                cluster_folder = folder / str(index)
                cluster_folder.mkdir()
                cluster = WanCluster(_WITHOUT_DELAY, cluster_folder, servers)
                closing.callback(cluster.aclose)
                await cluster.start_bare(is_linked=index == 1)
                client = Client(cluster.uri(_REGIONS[0]), namespace=app.NAMESPACE, region="east")
                await closing.enter_async_context(client)
                writer = await closing.enter_async_context(client.writer(app.STREAM))
                for _ in range(_WARMUP):
                    await writer.append(b"warm" * 25)
                writers.append((link, writer))
            while min(map(len, latencies.values())) < appends:
                for link, writer in writers:
                    for _ in range(min(_BLOCK, appends - len(latencies[link]))):
                        started = time.perf_counter()
                        await writer.append(b"data" * 25)
                        latencies[link].append((time.perf_counter() - started) * 1000)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [_summarize(link, sorted(times_ms)) for link, times_ms in latencies.items()]


def _summarize(link: str, sorted_ms: list[float]) -> LinkLatency:
    percentiles = (round(percentile(sorted_ms, share), 3) for share in (0.5, 0.95, 0.99))
    return LinkLatency(link, len(sorted_ms), *percentiles)
