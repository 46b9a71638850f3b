"""File reads of a connection run concurrently up to a limit."""

import asyncio

from rhumbline.core.bookie.server.read_queue import READERS_MAX, ReadQueue
from rhumbline.core.bookie.server.requests import FileRead
from rhumbline.core.runtime.tasks import Tasks


class GatedRead(FileRead):
    """A read that waits for a gate."""

    def __init__(self, gate: asyncio.Event, started: list["GatedRead"]) -> None:
        self._gate = gate
        self._started = started

    async def run(self) -> None:
        self._started.append(self)
        await self._gate.wait()


async def test_reads_start_in_order_and_a_limited_number_of_them_at_once() -> None:
    gate, started, ended = asyncio.Event(), list[GatedRead](), list[int]()
    tasks = Tasks()
    queue = ReadQueue(tasks, lambda: ended.append(len(queue)))
    reads = [GatedRead(gate, started) for _ in range(READERS_MAX + 3)]
    for read in reads:
        queue.add(read)
    for _ in range(5):
        await asyncio.sleep(0)
    assert READERS_MAX == 16
    assert started == reads[:READERS_MAX]
    assert len(queue) == 3
    gate.set()
    for _ in range(10):
        await asyncio.sleep(0)
    assert (started, len(queue), len(ended)) == (reads, 0, len(reads))
    queue.add(GatedRead(gate, started))
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(started) == len(reads) + 1, "readers that ended are started again"
    gate.clear()
    for read in reads:
        queue.add(read)
    for _ in range(5):
        await asyncio.sleep(0)
    queue.clear()
    assert len(queue) == 0
    gate.set()
    await tasks.aclose()
    assert len(started) == len(reads) + 1 + READERS_MAX
    queue.add(reads[0])
    await asyncio.sleep(0)
    assert len(started) == len(reads) + 1 + READERS_MAX, "nothing starts after the end"
