"""Latency against the rate of an open loop, up to the rate that the cluster cannot follow."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.log.policy import FlushPolicy
from ..core.protocol.errors import TooManyRequestsError
from .harness.bookie_processes import BookieProcesses
from .harness.load import Timing, run_workload
from .harness.settling import settle
from .harness.workload import BenchWorkload

FOLLOWED_SHARE = 0.95
"""The cluster follows a rate if it acknowledges this share of the records of a window."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rates to try, in records per second and ascending, for each way to flush."""

    workload: BenchWorkload
    flush_ms: Sequence[int]
    """Longest times that records wait to be sent together; 0: each is sent at once."""
    rates: Sequence[int]


async def measure_sweep(
    servers: BookieProcesses, sweep: Sweep, timing: Timing
) -> AsyncIterator[dict[str, Any]]:
    """Yield a row for each way to flush and each rate, up to the first that is not followed."""
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
                yield {**row, "flush_ms": flush_ms, "is_followed": is_followed(row)}
            if not all(map(is_followed, rows)):
                break


def is_followed(row: dict[str, Any]) -> bool:
    """Tell whether the records of a window were acknowledged at the rate at which they came."""
    return bool(row["rec_s"] >= FOLLOWED_SHARE * row["rate"])
