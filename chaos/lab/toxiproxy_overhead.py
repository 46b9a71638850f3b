"""What toxiproxy itself costs: append latency through links without toxics, and without links.

Two clusters of real bookie processes stand side by side, three regions each, with no distance.
Blocks of appends, one at a time, alternate between them: what else the machine does strikes both.
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
from .scenario import Scenario, ScenarioTopology, ScenarioWorkload, Turn, Way
from .wan.cluster import WanCluster
from .wan.programs import app

_BLOCK = 50
_WARM = 50
_REGIONS = ("east", "north", "west")
_NEAR = Scenario(
    "Nothing is far",
    "For measuring.",
    ScenarioTopology(_REGIONS, 1, tuple(Way(pair, 0.0) for pair in combinations(_REGIONS, 2))),
    ScenarioWorkload((Turn(_REGIONS[0]),)),
    ("wan",),
)


class Cost(NamedTuple):
    """Append latency by one way."""

    way: str
    appends: int
    p50_ms: float
    p95_ms: float
    p99_ms: float


async def measure(appends: int, servers: Path) -> list[Cost]:
    """Appends so many records each way. Raises ConfigurationError when toxiproxy is not here."""
    folder = Path(tempfile.mkdtemp(prefix="rhumbline-lab-"))
    waits: dict[str, list[float]] = {"direct": [], "toxiproxy, no toxics": []}
    try:
        async with AsyncExitStack() as closing:
            writers = []
            for place, way in enumerate(waits):
                below = folder / str(place)
                below.mkdir()
                cluster = WanCluster(_NEAR, below, servers)
                closing.callback(cluster.aclose)
                await cluster.start_bare(is_linked=place == 1)
                client = Client(cluster.uri(_REGIONS[0]), namespace=app.NAMESPACE, region="east")
                await closing.enter_async_context(client)
                writer = await closing.enter_async_context(client.writer(app.STREAM))
                for _ in range(_WARM):
                    await writer.append(b"warm" * 25)
                writers.append((way, writer))
            while min(map(len, waits.values())) < appends:
                for way, writer in writers:
                    for _ in range(min(_BLOCK, appends - len(waits[way]))):
                        began = time.perf_counter()
                        await writer.append(b"data" * 25)
                        waits[way].append((time.perf_counter() - began) * 1000)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return [_cost(way, sorted(found)) for way, found in waits.items()]


def _cost(way: str, found: list[float]) -> Cost:
    shares = (round(percentile(found, share), 3) for share in (0.5, 0.95, 0.99))
    return Cost(way, len(found), *shares)
