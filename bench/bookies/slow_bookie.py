"""The benchmark of a slow bookie: latency of appends over time, with and without leaving it.

Three regions have two bookies each. Writers append at a fixed rate, and each entry waits for a
bookie in every region. After some time one bookie takes ten times as long as before, by a delay on
the path to it alone. The same is measured with writers that stay and with writers that leave slow
bookies (rule LED-25).
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from ...client.connect import Client
from ...core.ledger.config import LedgerConfig
from ...core.protocol.bookie_id import bookie_name
from ...core.protocol.quorum import Quorum
from ..harness.load import NAMESPACE
from ..harness.region_processes import RegionProcesses
from ..regions import RegionWorkload, RegionWriters

QUORUM = Quorum(3, 3, 3, 3)
REGIONS = ("a", "b", "c")
EACH = 2
_WARMUP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class SlowWorkload:
    """The load of the writers, and when a bookie becomes slow for how long."""

    streams: int
    rate: int
    round_trip_ms: float
    factor: float
    """The latency of the slow bookie, as a multiple of its latency before."""
    seconds_before: int
    seconds_slow: int


async def measure_slow_bookie(
    servers: RegionProcesses, work: SlowWorkload
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for writers that stay with the slow bookie, and one for those that leave it."""
    servers.set_round_trip(work.round_trip_ms)
    extra_ms: float | None = None  # measured once, so that both rows compare the same slowness
    for name, is_on in (("stays", False), ("leaves", True)):
        settings = LedgerConfig() if is_on else LedgerConfig(slow_after_ms=0)
        async with Client(
            servers.metadata, namespace=NAMESPACE, region=REGIONS[0], ledger=settings
        ) as client:
            row = await _measure(servers, client, name, work, extra_ms)
            extra_ms = row["latency_ms_slow"] - row["latency_ms"]
            yield row


async def _measure(
    servers: RegionProcesses,
    client: Client,
    name: str,
    work: SlowWorkload,
    extra_ms: float | None,
) -> dict[str, Any]:
    writing = RegionWorkload(
        name, QUORUM, work.round_trip_ms, work.streams, 1024, work.rate, 0, _WARMUP_SECONDS,
        cuts_region=False,
    )  # fmt: skip
    writers = RegionWriters(servers, client, writing)
    await writers.open()
    slices: list[tuple[float, float]] = []
    slowed: dict[str, Any] = {}

    async def observe() -> None:
        for second in range(work.seconds_before + work.seconds_slow):
            if second == work.seconds_before:
                slowed.update(_slow_down(servers, client, work, extra_ms))
            await asyncio.sleep(1)
            acks = writers.acks
            slices.append(
                (round(acks.upper_quantile_ms(0.5), 1), round(acks.upper_quantile_ms(0.99), 1))
            )
            acks.clear()

    try:
        await writers.measure("rate", 1, observe)
        changes = sum(len(writer.metadata.fragments) - 1 for writer in client.ledgers.writers())
        last = slices[-work.seconds_slow // 4 :]
        return {
            "w": name,
            "peer": "rhumbline",
            "p50_ms": sorted(p50 for p50, _ in last)[len(last) // 2],
            "p99_ms": sorted(p99 for _, p99 in last)[len(last) // 2],
            "p99_ms_before": sorted(p99 for _, p99 in slices[: work.seconds_before])[
                work.seconds_before // 2
            ],
            "p99_ms_by_second": [p99 for _, p99 in slices],
            "slow_from_second": work.seconds_before,
            "ensemble_changes": changes,
            "records": await writers.check(),
            **slowed,
        }
    finally:
        await writers.abort()
        _set_delay(servers, slowed["bookie"], work.round_trip_ms / 2)


def _slow_down(
    servers: RegionProcesses, client: Client, work: SlowWorkload, extra_ms: float | None
) -> dict[str, Any]:
    """Delay all that one bookie of the second region sends and receives, by ``extra_ms``.

    None stands for what makes it ``factor`` times as slow as now.
    """
    members = [b for writer in client.ledgers.writers() for b in writer.metadata.bookies()]
    far = [b for b in members if bookie_name(b).startswith(f"{REGIONS[1]}-")]
    bookie = max(far, key=far.count)
    now = asyncio.get_running_loop().time()
    latency_ms = client.ledgers.latency_ms(bookie, now) or work.round_trip_ms
    if extra_ms is None:
        extra_ms = (work.factor - 1) * latency_ms
    _set_delay(servers, bookie_name(bookie), (work.round_trip_ms + extra_ms) / 2)
    return {
        "bookie": bookie_name(bookie),
        "latency_ms": round(latency_ms, 1),
        "latency_ms_slow": round(latency_ms + extra_ms, 1),
    }


def _set_delay(servers: RegionProcesses, name: str, each_way_ms: float) -> None:
    directory = next(path for path in servers.directories if path.name == name)
    servers.set_delay(REGIONS[0], directory, each_way_ms)
