"""The tiered index equals a dictionary, whatever is in memory, in files or being replaced."""

import asyncio
from array import array
from random import Random
from typing import Any

import pytest

from rhumbline.core.bookie.index import tiered_index
from rhumbline.core.bookie.index.entry_index import IndexedEntry, MemoryIndex
from rhumbline.core.bookie.index.index_blocks import IndexBlock
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import DamagedBlockError, DataFile, IndexFile
from rhumbline.core.bookie.index.tiered_index import NotInMemoryError, TieredIndex
from rhumbline.core.bookie.log.log_format import OFFSET_BITS
from rhumbline.core.protocol.errors import RhumblineError
from rhumbline.tests.support.fakes.turns import counted_turns
from rhumbline.tests.unit.core.bookie.index.test_index_file import ME, no_pause
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

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
        known = [x for x in self.index.ledgers() if self.index.last(x) is not None]
        assert set(known) == set(kept)
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


def entry_row(number: int, ledger_id: int, entry_id: int) -> IndexedEntry:
    return IndexedEntry(ledger_id, entry_id, number << OFFSET_BITS | 10 * entry_id, 7)


class Files:
    """An index whose files are made from lists of (ledger id, entry id)."""

    def __init__(self, cache_bytes: int = 1 << 20) -> None:
        self.disk = RecordingDisk()
        self.directory = IndexDirectory(self.disk, ME)
        self.index = TieredIndex(cache_bytes)

    async def add(
        self, number: int, keys: list[tuple[int, int]], rank: tuple[int, int] | None = None,
        replaced: int = 0,
    ) -> None:  # fmt: skip
        await self.directory.prepare()
        rows = MemoryIndex()
        rows.put([entry_row(number, *key) for key in keys])
        found = await self.directory.write(DataFile(1, number, 5, 10), rows.columns(), no_pause)
        await self.index.add_file(*found, rank or (1, number), replaced)

    async def number_of(self, ledger_id: int, entry_id: int, except_file: int = 0) -> int | None:
        """Return the number of the file in which the index finds the entry."""
        found = await self.index.locate(ledger_id, entry_id, except_file=except_file)
        return None if found is None else found.position >> OFFSET_BITS


async def test_newest_file_by_rank_counts() -> None:
    files = Files()
    await files.add(5, [(1, 0), (1, 1)], (0, 2))
    await files.add(6, [(1, 0), (1, 2)], (0, 1))
    await files.add(4, [(1, 0)], (1, 4))
    assert await files.number_of(1, 0) == 4
    assert await files.number_of(1, 0, except_file=4) == 5
    assert [await files.number_of(1, at) for at in (1, 2, 3)] == [5, 6, None]
    page = await files.index.page(1, 0, 9)
    assert [row.position >> OFFSET_BITS for row in page] == [4, 5, 6]
    assert files.index.row_count == 5
    assert files.index.last(1) == 2
    assert files.index.last(2) is None


async def test_slot_of_a_removed_file_is_used_again_and_its_ledgers_are_not_mixed_up() -> None:
    files = Files()
    await files.add(1, [(1, 0), (2, 0)])
    await files.add(2, [(2, 0), (3, 0)])
    files.disk.taken()
    await files.index.remove_file(1)
    assert files.disk.taken("close") == [("close", index_path(1))]
    assert await files.number_of(1, 0) is None
    assert await files.number_of(2, 0) == 2
    await files.index.remove_file(1)
    await files.add(3, [(4, 0)])
    await files.add(4, [(5, 0)])
    found = [await files.number_of(ledger_id, 0) for ledger_id in range(7)]
    assert found == [None, None, 2, 2, 3, 4, None]
    slots = [file.slot for file in files.index.files.values()]
    assert sorted(slots) == [0, 1, 2]
    serials = [file.serial for file in files.index.files.values()]
    assert len(set(serials)) == 3
    await files.add(5, [(3, 0), (4, 0)], (1, 9), replaced=2)
    assert sorted(files.index.files) == [3, 4, 5]
    found = [await files.number_of(ledger_id, 0) for ledger_id in range(7)]
    assert found == [None, None, None, 5, 5, 4, None], "a rank above that of file 3"
    files.disk.taken()
    await files.index.aclose()
    assert len(files.disk.taken("close")) == 3
    await files.index.aclose()
    assert files.disk.taken() == []


async def test_file_takes_the_place_of_sealed_rows_and_of_its_own_older_form() -> None:
    files = Files()
    files.index.put([entry_row(7, 1, 0)])
    files.index.seal(7)
    assert list(files.index.sealed_tiers) == [7]
    assert files.index.row_count == 1
    await files.add(7, [(1, 0)])
    assert files.index.sealed_tiers == {}
    assert files.index.row_count == 1
    files.disk.taken()
    await files.add(7, [(1, 0), (1, 1)], replaced=7)
    assert files.disk.taken("close")[-1] == ("close", index_path(7))
    assert files.index.row_count == 2
    assert await files.number_of(1, 1) == 7
    files.index.seal(9, MemoryIndex())
    await files.index.remove_file(9)
    assert files.index.sealed_tiers == {}


async def test_sealed_rows_are_found_newest_first() -> None:
    index = TieredIndex()
    for number in (3, 10, 5):
        rows = MemoryIndex()
        rows.put([entry_row(number, 1, 0), entry_row(number, number, 0)])
        index.seal(number, rows)
    index.put([entry_row(11, 1, 9)])
    found = index.find(1, 0)
    assert found is not None
    assert found == await index.locate(1, 0)
    assert found.position >> OFFSET_BITS == 10
    other = await index.locate(1, 0, except_file=10)
    assert other is not None
    assert other.position >> OFFSET_BITS == 5
    assert index.last(1) == 9
    assert set(index.ledgers()) == {1, 3, 5, 10}
    page = await index.page(1, 0, 9)
    assert [row.position >> OFFSET_BITS for row in page] == [10, 11]
    index.drop(1)
    assert (index.find(1, 0), index.last(1)) == (None, None)
    assert index.row_count == 3


async def test_highest_ids_rise_with_each_file_and_never_fall() -> None:
    files = Files()
    await files.add(1, [(1, 5), (2, 9), (3, 1)])
    await files.add(2, [(1, 7), (2, 8), (4, 0)])
    assert [files.index.last(ledger_id) for ledger_id in (1, 2, 3, 4)] == [7, 9, 1, 0]
    files.index.put([entry_row(3, 1, 6), entry_row(3, 3, 6)])
    assert [files.index.last(ledger_id) for ledger_id in (1, 2, 3, 4)] == [7, 9, 6, 0]


async def test_page_reads_no_more_blocks_than_it_needs() -> None:
    files = Files(cache_bytes=0)
    await files.add(1, [(1, at) for at in range(2_000)])
    await files.add(2, [(1, at) for at in range(3_000, 5_000)])
    for first, limit, reads in ((0, 100, 1), (500, 12, 1), (500, 13, 2), (3_000, 1, 1)):
        files.index._cache.clear()
        files.disk.taken()
        page = await files.index.page(1, first, limit)
        assert [row.entry_id for row in page] == list(range(first, first + limit))
        assert len(files.disk.taken("read")) == reads, (first, limit)


async def test_block_is_read_once_while_it_is_in_the_cache() -> None:
    files = Files()
    await files.add(1, [(1, at) for at in range(600)])
    files.disk.taken()
    assert await files.number_of(1, 5) == 1
    assert await files.number_of(1, 6) == 1
    assert len(files.disk.taken("read")) == 1
    assert await files.number_of(1, 599) == 1
    assert len(files.disk.taken("read")) == 1
    await files.index.page(1, 0, 600)
    assert files.disk.taken("read") == []


async def test_damage_of_a_file_out_of_use_is_not_reported() -> None:
    files = Files(cache_bytes=0)
    reported: list[int] = []
    files.index.on_damage = lambda file, error: reported.append(file.number)
    await files.add(1, [(1, 0)])
    file = files.index.files[1]
    await files.add(2, [(1, 0)], (1, 1), replaced=1)
    files.disk.files[index_path(1)][0] ^= 1
    with pytest.raises(DamagedBlockError):
        await files.index._block(file, 0)
    assert (reported, file.is_damaged) == ([], False)
    assert await files.number_of(1, 0) == 2


async def test_damaged_newer_file_does_not_hide_the_copy_of_an_older_one() -> None:
    files = Files(cache_bytes=0)
    await files.add(1, [(1, 0)])
    await files.add(2, [(1, 0), (1, 1)])
    files.disk.files[index_path(2)][0] ^= 1
    assert await files.number_of(1, 0) == 1
    with pytest.raises(DamagedBlockError):
        await files.number_of(1, 1)
    assert files.index.files[2].is_damaged
    assert not files.index.files[1].is_damaged


async def test_lookup_starts_again_if_a_file_was_added_meanwhile() -> None:
    files = Files(cache_bytes=0)
    await files.add(1, [(1, 0), (1, 2)])
    await files.add(2, [(2, 0)])
    file = files.index.files[1]
    load = file.load

    async def load_late(at: int) -> IndexBlock:
        if 3 not in files.index.files:
            await files.add(3, [(1, 1)])
        return await load(at)

    file.load = load_late  # type: ignore[method-assign]
    assert await files.number_of(1, 1) == 3


async def test_ledgers_in_the_same_files_share_one_list_of_them() -> None:
    files = Files()
    await files.add(1, [(1, 0), (2, 0)])
    found = files.index._files_with(1, 0)
    assert files.index._files_with(2, 0) is found
    await files.add(2, [(3, 0)])
    assert files.index._files_with(2, 0) == found
    assert files.index._files_with(2, 0) is not found, "a change drops the lists"


async def test_lists_of_files_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered_index, "_FILE_LISTS_MAX", 2)
    files = Files()
    for number in range(1, 6):
        await files.add(number, [(number, 0)])
    for number, count in ((1, 1), (2, 2), (3, 1), (4, 2), (5, 1), (5, 1)):
        assert [file.number for file in files.index._files_with(number, 0)] == [number]
        assert len(files.index._lists) == count


async def test_file_that_replaces_another_has_only_its_own_ledgers() -> None:
    files = Files()
    await files.add(1, [(1, 0), (2, 0), (3, 0)])
    await files.add(2, [(1, 0), (3, 0)], replaced=1)
    await files.add(3, [(4, 0)])
    assert files.index.files[3].slot == 0, "the slot of file 1"
    assert [[file.number for file in files.index._files_with(ledger_id, 0)]
            for ledger_id in (1, 3, 4)] == [[2], [2], [3]]  # fmt: skip


async def test_adding_many_ledgers_lets_other_tasks_run() -> None:
    files = Files()
    await files.directory.prepare()
    rows = MemoryIndex()
    rows.put([entry_row(1, ledger_id, 0) for ledger_id in range(6_000)])
    found = await files.directory.write(DataFile(1, 1, 5, 10), rows.columns(), no_pause)
    add_ledgers = files.index._add_ledgers
    sizes: list[int] = []

    def note_and_add(ledgers: "array[int]", *rest: Any) -> None:  # noqa: ANN401
        sizes.append(len(ledgers))
        add_ledgers(ledgers, *rest)

    files.index._add_ledgers = note_and_add  # type: ignore[method-assign, assignment]
    async with counted_turns() as turns:
        await files.index.add_file(*found, (1, 1))
        assert sizes == [2_000] * 3
        assert turns.count == 3
    found = await files.directory.write(DataFile(1, 2, 5, 10), rows.columns(), no_pause)
    async with counted_turns() as turns:
        await files.index.add_file(*found, (1, 2), 1)
        assert turns.count == 6, "three more while the bits of the old file are cleared"
    assert sorted(files.index.ledgers()) == list(range(6_000))
