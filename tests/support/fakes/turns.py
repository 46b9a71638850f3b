"""Counts how often the event loop serves other tasks, to show that long work leaves them time."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """The number of turns of another task so far."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self) -> None:
        """Count a turn whenever the event loop permits it, until cancelled."""
        while True:
            self.count += 1
            await asyncio.sleep(0)


@asynccontextmanager
async def counted_turns() -> AsyncIterator[Turns]:
    """Yield the turns of another task, from now until the end of the block."""
    turns = Turns()
    task = asyncio.create_task(turns.run())
    await asyncio.sleep(0)
    turns.count = 0
    try:
        yield turns
    finally:
        task.cancel()
