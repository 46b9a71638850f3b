"""The tiered index equals a dictionary, whatever is in memory, in files or being replaced."""

import asyncio
from random import Random

import pytest

from rhumbline.core.bookie.index.entry_index import IndexedEntry, MemoryIndex
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import DamagedBlockError, DataFile, IndexFile
from rhumbline.core.bookie.index.tiered_index import NotInMemoryError, TieredIndex
from rhumbline.core.bookie.log.log_format import OFFSET_BITS
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.tests.unit.core.bookie.index.test_index_file import ME, no_pause
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

Model = dict[int, dict[int, tuple[int, int]]]


class IndexWorld:
    """An index over files on a disk in memory, and a dictionary with the same rows."""

    def __init__(self, seed: int = 1, cache_bytes: int = 1 << 20) -> None:
        self.random = Random(seed)
        self.disk = MemoryDisk()
        self.directory = IndexDirectory(self.disk, ME)
        self.index = TieredIndex(cache_bytes)
        self.model: Model = {}
        self.log = 1

    def put(self, ledger_id: int, entry_id: int) -> None:
        position = self.log << OFFSET_BITS | self.random.randrange(1 << 30)
        self.index.put([IndexedEntry(ledger_id, entry_id, position, 7)])
        self.model.setdefault(ledger_id, {})[entry_id] = (position, 7)

    def seal(self) -> int:
        """Seals the current log and returns its number."""
        self.index.seal(self.log)
        self.log += 1
        return self.log - 1

    async def write(self, number: int) -> None:
        """Writes the index file of a sealed log."""
        rows = self.index.sealed_tiers[number]
        file = DataFile(1, number, 5, 1 << 31)
        found = await self.directory.write(file, rows.columns(), no_pause)
        await self.index.add_file(*found, (1, number))

    async def check(self) -> None:
        """The index returns the same results as the model."""
        kept = {ledger: rows for ledger, rows in self.model.items() if rows}
        assert [x for x in self.index.ledgers() if self.index.last(x) is not None] == sorted(kept)
        for ledger in range(12):
            rows = self.model.get(ledger, {})
            assert self.index.last(ledger) == max(rows, default=None)
            for entry_id in range(0, 42, 3):
                assert await self.index.locate(ledger, entry_id) == rows.get(entry_id)
            expected = [IndexedEntry(ledger, e, *rows[e]) for e in sorted(rows) if e >= 5]
            assert await self.index.page(ledger, 5, 1000) == expected
            assert await self.index.page(ledger, 5, 3) == expected[:3]


@pytest.mark.parametrize("number", range(5))
@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
async def test_index_equals_a_dictionary(number: int, cache_bytes: int) -> None:
    world = IndexWorld(number, cache_bytes)
    random = world.random
    await world.directory.prepare()
    unwritten: list[int] = []
    for step in range(60):
        for _ in range(random.randrange(12)):
            world.put(random.randrange(10), random.randrange(40))
        if random.random() < 0.1:
            ledger = random.randrange(10)
            world.index.drop(ledger)
            world.model.pop(ledger, None)
        if random.random() < 0.4:
            unwritten.append(world.seal())
        if unwritten and random.random() < 0.6:
            await world.write(unwritten.pop(0))
        if step % 6 == 0:
            await world.check()
    await world.check()
    await world.index.aclose()


async def test_long_ledger_in_many_files_is_paged_in_order() -> None:
    world = IndexWorld(3)
    await world.directory.prepare()
    for first in (0, 2_000, 1_000, 500):  # later files replace a part of the rows
        for entry_id in range(first, first + 1_500, 1 + first % 3):
            world.put(1, entry_id)
        await world.write(world.seal())
    rows = world.model[1]
    for first in (0, 700, 3_400, 9_000):
        expected = [IndexedEntry(1, e, *rows[e]) for e in sorted(rows) if e >= first]
        for limit in (1, 100, 2_000):
            assert await world.index.page(1, first, limit) == expected[:limit]


async def test_row_on_disk_is_found_at_once_when_its_block_was_read() -> None:
    world = IndexWorld()
    await world.directory.prepare()
    world.put(1, 5)
    expected = world.index.find(1, 5)
    await world.write(world.seal())
    assert world.index.find(1, 6) is None, "the directory knows the highest id"
    assert world.index.find(2, 0) is None
    with pytest.raises(NotInMemoryError):
        world.index.find(1, 5)
    assert await world.index.locate(1, 5) == expected
    assert world.index.find(1, 5) == expected


async def test_damaged_block_makes_its_entries_unknown_and_is_reported_once() -> None:
    """Red on the index of B1, which denied the entries of a damaged page."""
    world = IndexWorld(cache_bytes=0)
    await world.directory.prepare()
    reported: list[tuple[int, str]] = []

    def on_damage(file: IndexFile, error: RhumblineError) -> None:
        reported.append((file.number, str(error)))

    world.index.on_damage = on_damage
    for entry_id in range(2_000):
        world.put(1, entry_id)
    number = world.seal()
    rows = world.index.sealed_tiers[number]
    await world.write(number)
    world.disk.files[index_path(number)][100] ^= 4
    for entry_id in (0, 300, 511):
        with pytest.raises(DamagedBlockError):
            await world.index.locate(1, entry_id)
    with pytest.raises(DamagedBlockError):
        await world.index.page(1, 0, 10)
    assert reported == [(number, f"{index_path(number)}: the index block at byte 0 is damaged")]
    assert await world.index.locate(1, 600) == rows.find(1, 600), "other blocks are intact"
    assert await world.index.locate(1, 2_000) is None, "no block could have it"
    world.put(1, 300)
    assert await world.index.locate(1, 300) == world.index.recent.find(1, 300)
    found = await world.directory.write(DataFile(1, number, 5, 1 << 31), rows.columns(), no_pause)
    await world.index.add_file(*found, (1, number), number)
    assert await world.index.locate(1, 0) == rows.find(1, 0)
    assert list(world.index.files) == [number]


async def test_rows_are_found_while_a_file_is_being_replaced() -> None:
    world = IndexWorld(cache_bytes=0)
    await world.directory.prepare()
    for ledger_id in range(5_000):
        world.put(ledger_id, 0)
    number = world.seal()
    await world.write(number)
    moved = MemoryIndex()
    for ledger_id in range(5_000):
        moved.put([IndexedEntry(ledger_id, 0, 9 << OFFSET_BITS | ledger_id, 7)])
    found = await world.directory.write(DataFile(2, 9, 6, 1), moved.columns(), no_pause)
    adding = asyncio.ensure_future(world.index.add_file(*found, (0, 1), number))
    while not adding.done():
        for ledger_id in (0, 2_500, 4_999):
            location = await world.index.locate(ledger_id, 0)
            assert location in (world.model[ledger_id][0], moved.find(ledger_id, 0))
    assert await world.index.locate(7, 0) == moved.find(7, 0)
    assert list(world.index.files) == [9]
    await world.index.remove_file(9)
    assert await world.index.locate(7, 0) is None


async def test_copy_outside_one_file_is_found() -> None:
    world = IndexWorld()
    await world.directory.prepare()
    world.put(1, 0)
    first = world.seal()
    older = world.index.find(1, 0)
    await world.write(first)
    world.put(1, 0)
    world.put(1, 1)
    second = world.seal()
    assert await world.index.locate(1, 0, except_file=second) == older
    assert await world.index.locate(1, 1, except_file=second) is None
    await world.write(second)
    assert await world.index.locate(1, 0, except_file=second) == older
    assert await world.index.locate(1, 0, except_file=first) == world.model[1][0]
