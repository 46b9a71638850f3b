"""Reads ahead of each other: order, overlapping round trips, early ends, errors, bounds."""

import asyncio
from random import Random

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.read.read_pipeline import ReadPipeline
from rhumbline.core.protocol.errors import BookieUnavailableError
from rhumbline.core.wire.entry import Entry
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

pytestmark = pytest.mark.run_by(runner=run_jumping)

BATCH_BYTES = 10_000
ROUND_TRIP_S = 0.08


class Bookie:
    """Responds to batch reads after a round trip, with as many entries as fit."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes = sizes
        self.requests: list[tuple[int, int]] = []
        self.in_flight_bytes_max = 0
        self.failing: set[int] = set()
        """Requests that begin with these entries fail, once."""
        self._in_flight: dict[int, int] = {}

    async def read(self, first: int, last: int) -> list[Entry]:
        self.requests.append((first, last))
        asked = sum(self.sizes[first : last + 1])
        self._in_flight[first] = min(asked, BATCH_BYTES)
        self.in_flight_bytes_max = max(self.in_flight_bytes_max, sum(self._in_flight.values()))
        try:
            await asyncio.sleep(ROUND_TRIP_S)
        finally:
            del self._in_flight[first]
        if first in self.failing:
            self.failing.discard(first)
            raise BookieUnavailableError("cut off")
        entries: list[Entry] = []
        left = BATCH_BYTES
        for entry_id in range(first, last + 1):
            left -= self.sizes[entry_id]
            if entries and left < 0:
                break
            entries.append(Entry(entry_id, -1, 0, bytes(self.sizes[entry_id])))
        return entries


def pipeline(bookie: Bookie, entries_max: int = 1_000) -> ReadPipeline:
    config = LedgerConfig(read_batch_bytes_max=BATCH_BYTES, read_batch_entries_max=entries_max)
    return ReadPipeline(bookie.read, config, "read")


async def read_all(bookie: Bookie, ahead_bytes: int, entries_max: int = 1_000) -> list[int]:
    reads = pipeline(bookie, entries_max)
    last = len(bookie.sizes) - 1
    got: list[int] = []
    while len(got) <= last:
        try:
            got += [e.entry_id for e in await reads.read(len(got), last, ahead_bytes)]
        except BookieUnavailableError:
            continue
    await reads.aclose()
    return got


async def test_round_trips_overlap_within_the_allowed_bytes() -> None:
    loop = asyncio.get_running_loop()
    bookie = Bookie([900] * 1_000)
    begun = loop.time()
    assert await read_all(bookie, 1) == list(range(1_000))
    alone_s = loop.time() - begun
    bookie, begun = Bookie([900] * 1_000), loop.time()
    assert await read_all(bookie, 8 * BATCH_BYTES) == list(range(1_000))
    assert loop.time() - begun < alone_s / 6
    assert bookie.in_flight_bytes_max <= 9 * BATCH_BYTES


@pytest.mark.parametrize("number", range(20))
async def test_entries_of_any_size_arrive_once_and_in_order(number: int) -> None:
    random = Random(number)
    size = random.choice([10, 1_000, 8_000, 2 * BATCH_BYTES])
    bookie = Bookie([random.randint(1, size) for _ in range(random.randint(1, 300))])
    bookie.failing = {random.randrange(len(bookie.sizes)) for _ in range(20)}
    entries_max = random.choice([1, 7, 1_000])
    expected = list(range(len(bookie.sizes)))
    assert await read_all(bookie, random.choice([1, 5_000, 100_000]), entries_max) == expected


async def test_response_that_ends_early_is_continued_before_what_was_read_behind_it() -> None:
    bookie = Bookie([100] * 50 + [1_000] * 50)
    assert await read_all(bookie, 4 * BATCH_BYTES) == list(range(100))
    firsts = [first for first, _ in bookie.requests]
    assert firsts != sorted(firsts)  # the rest of a range was asked for after a later range
    assert len(set(firsts)) == len(firsts)  # and nothing twice


async def test_small_remainder_is_read_without_a_task() -> None:
    bookie = Bookie([100] * 30)
    reads = pipeline(bookie)
    tasks = len(asyncio.all_tasks())

    async def observed(first: int, last: int) -> list[Entry]:
        assert len(asyncio.all_tasks()) == tasks
        return await bookie.read(first, last)

    reads = ReadPipeline(observed, LedgerConfig(read_batch_bytes_max=BATCH_BYTES), "read")
    assert len(await reads.read(0, 9, 100_000)) == 10
    assert len(await reads.read(10, 29, 100_000)) == 20


async def test_another_position_drops_what_was_read_ahead() -> None:
    bookie = Bookie([900] * 200)
    reads = pipeline(bookie)
    first = await reads.read(0, 199, 4 * BATCH_BYTES)
    await reads.read(len(first), 199, 4 * BATCH_BYTES)
    assert [e.entry_id for e in await reads.read(150, 150, 0)] == [150]
    assert not [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
    await reads.aclose()


async def test_closing_cancels_the_reads_ahead() -> None:
    bookie = Bookie([900] * 200)
    reads = pipeline(bookie)
    first = await reads.read(0, 199, 4 * BATCH_BYTES)
    waiting = asyncio.ensure_future(reads.read(len(first), 199, 4 * BATCH_BYTES))
    await asyncio.sleep(ROUND_TRIP_S / 2)
    assert len(bookie.requests) > 3
    await reads.aclose()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not [t for t in asyncio.all_tasks() if t is not asyncio.current_task()]
