"""File reads of a connection run concurrently up to a limit, and yield to commits."""

import asyncio

import pytest

from rhumbline.core.bookie.background_pace import SHARE_MIN, BackgroundPace
from rhumbline.core.bookie.server.read_queue import (
    READERS_MAX,
    URGENT_MAX,
    ReadQueue,
    ReadSlots,
)
from rhumbline.core.bookie.server.requests import FileRead
from rhumbline.core.runtime.tasks import Tasks
from rhumbline.tests.support.fakes.jumping_loop import run_jumping


class GatedRead(FileRead):
    """A read that waits for a gate."""

    def __init__(
        self,
        gate: asyncio.Event,
        started: list["GatedRead"],
        directory: str = "",
        *,
        is_urgent: bool = False,
    ) -> None:
        self.directory = directory
        self.is_urgent = is_urgent
        self._gate = gate
        self._started = started

    async def run(self) -> None:
        self._started.append(self)
        await self._gate.wait()


async def test_reads_start_in_order_and_a_limited_number_of_them_at_once() -> None:
    gate, started, ended = asyncio.Event(), list[GatedRead](), list[int]()
    tasks = Tasks()
    queue = ReadQueue(tasks, ReadSlots(100, BackgroundPace()), lambda: ended.append(len(queue)))
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


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_queues_share_a_limited_number_of_slots_in_turn() -> None:
    gate, started = asyncio.Event(), list[GatedRead]()
    tasks, slots = Tasks(), ReadSlots(2, BackgroundPace())
    queues = [ReadQueue(tasks, slots, lambda: None) for _ in range(2)]
    many = [GatedRead(gate, started) for _ in range(40)]
    other = GatedRead(gate, started)
    for read in many:
        queues[0].add(read)
    await turns(5)
    queues[1].add(other)
    await turns(5)
    assert started == many[:2]
    assert queues[1].is_active
    gate.set()
    await turns(200)
    assert len(started) == 41
    assert started.index(other) <= READERS_MAX, "it waited only for reads that had their turn"
    assert not any(queue.is_active for queue in queues)
    await tasks.aclose()


async def test_held_reads_start_when_the_client_reads_again() -> None:
    gate, started = asyncio.Event(), list[GatedRead]()
    gate.set()
    tasks = Tasks()
    queue = ReadQueue(tasks, ReadSlots(1, BackgroundPace()), lambda: None)
    for _ in range(20):
        queue.add(GatedRead(gate, started))
    queue.hold()
    queue.add(GatedRead(gate, started))
    await turns(50)
    assert (len(started), len(queue), queue.is_active) == (0, 21, False)
    queue.resume()
    await turns(200)
    assert (len(started), len(queue), queue.is_active) == (21, 0, False)
    await tasks.aclose()


async def test_reads_of_a_directory_do_not_wait_for_those_of_another() -> None:
    hangs, gate, started = asyncio.Event(), asyncio.Event(), list[GatedRead]()
    gate.set()
    tasks, slots = Tasks(), ReadSlots(2, BackgroundPace())
    queues = [ReadQueue(tasks, slots, lambda: None) for _ in range(2)]
    hanging = [GatedRead(hangs, started, "/d1") for _ in range(40)]
    for number, read in enumerate(hanging):
        queues[number % 2].add(read)
    await turns(5)
    assert len(started) == 2
    others = [GatedRead(gate, started, directory) for directory in ("", "/d2", "", "/d2")]
    for number, read in enumerate(others):
        queues[number % 2].add(read)
    await turns(20)
    assert set(started[2:]) == set(others)
    assert len(queues[0]) + len(queues[1]) == 38
    for queue in queues:
        queue.clear()
        assert len(queue) == 0
    hangs.set()
    await turns(20)
    assert not any(queue.is_active for queue in queues)
    await tasks.aclose()


async def test_urgent_reads_wait_for_no_slot_up_to_a_limit() -> None:
    hangs, started = asyncio.Event(), list[GatedRead]()
    tasks, ended = Tasks(), list[None]()
    queue = ReadQueue(tasks, ReadSlots(1, BackgroundPace()), lambda: ended.append(None))
    queue.add(GatedRead(hangs, started))
    await turns(5)
    urgent = [GatedRead(hangs, started, is_urgent=True) for _ in range(URGENT_MAX + 1)]
    for read in urgent:
        queue.add(read)
    await turns(5)
    assert started[1:] == urgent[:URGENT_MAX]
    assert len(queue) == 1
    queue.clear()
    hangs.set()
    await turns(20)
    assert not queue.is_active
    assert len(ended) >= URGENT_MAX
    queue.hold()
    queue.add(GatedRead(hangs, started, is_urgent=True))
    await turns(5)
    assert len(queue) == 1, "the client does not read"
    await tasks.aclose()


class TimedRead(FileRead):
    """A read that takes 4 ms and notes when it ended."""

    def __init__(self, ends: list[float], *, is_urgent: bool = False) -> None:
        self.directory = ""
        self.is_urgent = is_urgent
        self._ends = ends

    async def run(self) -> None:
        await asyncio.sleep(0.004)
        self._ends.append(asyncio.get_running_loop().time())


@pytest.mark.run_by(runner=run_jumping)
async def test_slot_rests_after_a_read_while_commits_are_late() -> None:
    now_s = asyncio.get_running_loop().time
    pace, ends, tasks = BackgroundPace(), list[float](), Tasks()
    slots = ReadSlots(1, pace)
    queues = [ReadQueue(tasks, slots, lambda: None) for _ in range(2)]
    pace.note_commit(0.001, now_s(), 100)
    pace.rest_s(0, now_s())
    while pace.share(now_s()) > SHARE_MIN:
        pace.note_commit(1.0, now_s(), 100)
    began_s = now_s()
    for queue in queues:
        queue.add(TimedRead(ends))
    await asyncio.sleep(0.05)
    queues[0].add(TimedRead(ends, is_urgent=True))
    await asyncio.sleep(0.05)
    found = [round(1000 * (end_s - began_s)) for end_s in ends]
    assert found == [4, 54, 84], (
        "4 ms of work are a twentieth of 80 ms; the urgent read ran at once"
    )
    await asyncio.sleep(1)
    assert not any(queue.is_active for queue in queues)
    for _ in range(3):
        queues[0].add(TimedRead(ends))
    began_s = now_s()
    await asyncio.sleep(0.1)
    found = [round(1000 * (end_s - began_s)) for end_s in ends[3:]]
    assert found == [4, 8, 12], "there were no commits for a while"
    await tasks.aclose()
