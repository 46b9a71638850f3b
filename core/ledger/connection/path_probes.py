"""Probes of the paths to bookies: a request without I/O, before new copies are placed (PLC-30)."""

import asyncio
from collections.abc import Sequence

from ...protocol.bookie_id import BookieId
from ...protocol.errors import RhumblineError
from ...runtime.tasks import run_all
from .bookie_pool import BookiePool
from .round_trip import measure_round_trip_ms


async def probe_paths(pool: BookiePool, bookies: Sequence[BookieId], timeout_ms: int) -> None:
    """Ask the bookies, all at once, and record in the pool which of them respond in time."""
    await run_all([_probe(pool, bookie, timeout_ms) for bookie in bookies], "probe bookies")


async def _probe(pool: BookiePool, bookie: BookieId, timeout_ms: int) -> None:
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await measure_round_trip_ms(pool, bookie)
    except (TimeoutError, RhumblineError):
        pool.on_silence(bookie)
    else:
        pool.on_response(bookie)
