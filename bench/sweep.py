"""Latency against the rate of an open loop, up to the first rate that is not sustained."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.log.policy import FlushPolicy
from ..core.protocol.errors import TooManyRequestsError
from .harness.bookie_processes import BookieProcesses
from .harness.load import Timing, run_workload
from .harness.settling import settle
from .harness.workload import BenchWorkload

SUSTAINED_SHARE = 0.95
"""A rate is sustained if this share of the records of a window is acknowledged in it."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rates to try with each flush interval, in records per second and ascending."""

    workload: BenchWorkload
    flush_ms: Sequence[int]
    """Longest times that records wait to be sent together; 0: each is sent at once."""
    rates: Sequence[int]


async def measure_sweep(
    servers: BookieProcesses, sweep: Sweep, timing: Timing
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for each flush interval and each rate, up to the first that is not sustained."""
    for flush_ms in sweep.flush_ms:
        for rate in sweep.rates:
            workload = replace(
                sweep.workload,
                name=f"sweep-{rate}",
                rate=rate,
                flush=FlushPolicy(period_ms=flush_ms),
            )
            await settle([servers])
            try:
                rows = [row async for row in run_workload(workload, servers, timing)]
            except TooManyRequestsError:
                break
            for row in rows:
                yield {**row, "flush_ms": flush_ms, "is_sustained": is_sustained(row)}
            if not all(map(is_sustained, rows)):
                break


def is_sustained(row: dict[str, Any]) -> bool:
    """Tell whether the records of a window were acknowledged at the rate at which they came."""
    return bool(row["rec_s"] >= SUSTAINED_SHARE * row["rate"])
