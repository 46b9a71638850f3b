"""Work on many items in slices, between which the event loop serves everything else."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

ITEMS_PER_SLICE = 10_000
"""So many items of little work take about a millisecond."""

T = TypeVar("T")


async def slices(items: Sequence[T], size: int = ITEMS_PER_SLICE) -> AsyncIterator[Sequence[T]]:
    """Yield ``items`` in slices of ``size``, and let other tasks run after each."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
        await asyncio.sleep(0)
