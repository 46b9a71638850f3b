"""Waits until the background work of an earlier measurement has ended."""

import asyncio
import os
from collections.abc import Sequence

from .bookie_processes import BookieProcesses

_IDLE_CPU_S = 0.05
"""CPU time in ``_LOOK_S`` up to which the bookies of all clusters count as idle."""
_LOOK_S = 0.5
_SETTLE_S_MAX = 30.0


async def settle(clusters: Sequence[BookieProcesses]) -> None:
    """Write all dirty pages to disk and wait, at most 30 s, until the bookies are idle."""
    for _ in range(round(_SETTLE_S_MAX / _LOOK_S)):
        os.sync()
        before = sum(cluster.usage().server_cpu_s for cluster in clusters)
        await asyncio.sleep(_LOOK_S)
        if sum(cluster.usage().server_cpu_s for cluster in clusters) - before <= _IDLE_CPU_S:
            return
