"""Reads of a silent proxy end when another proxy says that it is lost, soon after their rhythm."""

import asyncio

import pytest

from rhumbline.core.runtime.tasks import Tasks
from rhumbline.proxies.client.silent_reads import ReadRhythm, SilentReads
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)


class Read:
    """A read call that waits, or whose reader is busy."""

    def __init__(self, *, waits: bool = True) -> None:
        now_s = asyncio.get_running_loop().time()
        self.waiting_since_s: float | None = now_s if waits else None
        self.lost_at_s: float | None = None

    def proxy_lost(self) -> None:
        self.lost_at_s = self.lost_at_s or asyncio.get_running_loop().time()


class Others:
    """The other proxies; they count how often they were called."""

    def __init__(self, *, say_lost: bool) -> None:
        self.say_lost = say_lost
        self.count = 0

    async def find_if_lost(self, address: str) -> bool:
        assert address == "a:1"
        self.count += 1
        return self.say_lost


async def hear(rhythm: ReadRhythm, read: Read, every_s: float, times: int) -> None:
    for _ in range(times):
        await asyncio.sleep(every_s)
        read.waiting_since_s = asyncio.get_running_loop().time()
        rhythm.on_response(read.waiting_since_s)


@pytest.mark.parametrize(("every_s", "doubt_s"), [(0.01, 0.4), (0.2, 0.8), (1.0, 1.25)])
async def test_proxy_is_doubted_by_its_rhythm(every_s: float, doubt_s: float) -> None:
    others, tasks, read = Others(say_lost=True), Tasks(), Read()
    rhythm = SilentReads(others.find_if_lost, tasks).add("a:1", read)
    await hear(rhythm, read, every_s, 50)
    assert others.count == 0
    began_s = asyncio.get_running_loop().time()
    await asyncio.sleep(3)
    assert read.lost_at_s is not None
    assert doubt_s - 0.01 <= read.lost_at_s - began_s <= doubt_s + 0.15
    await tasks.aclose()


async def test_live_proxy_is_checked_less_and_less_often() -> None:
    others, tasks, read = Others(say_lost=False), Tasks(), Read()
    SilentReads(others.find_if_lost, tasks).add("a:1", read)
    await asyncio.sleep(60)
    assert read.lost_at_s is None
    assert 10 <= others.count <= 20
    await tasks.aclose()


async def test_all_reads_of_a_proxy_share_its_checks() -> None:
    others, tasks = Others(say_lost=True), Tasks()
    reads = [Read() for _ in range(1000)]
    silent = SilentReads(others.find_if_lost, tasks)
    for read in reads:
        silent.add("a:1", read)
    await asyncio.sleep(1.4)
    assert others.count == 1
    assert all(read.lost_at_s is not None for read in reads)
    await tasks.aclose()


async def test_busy_readers_doubt_nobody() -> None:
    others, tasks, read = Others(say_lost=True), Tasks(), Read(waits=False)
    SilentReads(others.find_if_lost, tasks).add("a:1", read)
    await asyncio.sleep(60)
    assert others.count == 0
    await tasks.aclose()


async def test_nothing_runs_without_reads() -> None:
    others, tasks, read = Others(say_lost=True), Tasks(), Read()
    silent = SilentReads(others.find_if_lost, tasks)
    for _ in range(2):
        silent.add("a:1", read)
        await asyncio.sleep(0.2)
        assert len(tasks) == 1
        silent.discard("a:1", read)
        silent.discard("a:1", read)
        await asyncio.sleep(0.2)
        assert len(tasks) == 0
    assert others.count == 0
    await tasks.aclose()


async def test_response_while_others_are_called_ends_the_doubt() -> None:
    tasks, read = Tasks(), Read()

    async def find_if_lost(_: str) -> bool:
        rhythm.on_response(asyncio.get_running_loop().time() + 0.001)
        return True

    rhythm = SilentReads(find_if_lost, tasks).add("a:1", read)
    await asyncio.sleep(1.4)
    assert read.lost_at_s is None
    await tasks.aclose()
