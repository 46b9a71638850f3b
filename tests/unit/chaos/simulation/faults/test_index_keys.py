"""The places of ids in an index file are those that the writer of the format used."""

import asyncio
from random import Random

import pytest

from rhumbline.chaos.simulation.faults.index_keys import key_places
from rhumbline.core.bookie.index.entry_index import IndexedEntry, MemoryIndex
from rhumbline.core.bookie.index.index_blocks import IndexBlock
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import DamagedBlockError, DataFile
from rhumbline.core.bookie.log.log_format import LOG_KIND, OFFSET_BITS
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

FILE = DataFile(LOG_KIND, 7, 0xABCDEF, 1 << 20)


async def no_pause() -> None:
    await asyncio.sleep(0)


async def write_index(disk: MemoryDisk, step: int) -> bytes:
    """Write an index of several blocks; every ``step``-th id of a ledger is in it."""
    rows = MemoryIndex()
    for at in range(1_500):
        position = FILE.number << OFFSET_BITS | 600 + at * 50
        rows.put([IndexedEntry(at % 5, at // 5 * step, position, 40 + at % step)])
    directory = IndexDirectory(disk, BookieId("b1@00000001"))
    await directory.prepare()
    await directory.write(FILE, rows.columns(), no_pause)
    file = await disk.open(index_path(FILE.number))
    return await file.read(0, await file.size())


@pytest.mark.parametrize("step", [1, 3], ids=["all ids", "ids with gaps"])
async def test_a_flipped_bit_at_a_place_changes_ids_only_and_is_found(step: int) -> None:
    disk = MemoryDisk()
    content = await write_index(disk, step)
    places = key_places(content)
    opened = await IndexDirectory(disk, BookieId("b1@00000001")).read(LOG_KIND, FILE.number)
    assert opened is not None
    index = opened[0]
    assert index.block_count > 2
    file = await disk.open(index_path(FILE.number))
    random = Random(1)
    for at in range(index.block_count):
        intact = await index.load(at)
        start, end = index._span(at)
        here = [place for place in places if start <= place < end]
        assert here, "every block has ids"
        for place in random.choices(here, k=20):
            damaged = bytearray(content[start:end])
            damaged[place - start] ^= 1
            assert ids_of(IndexBlock(bytes(damaged))) != ids_of(intact)
            assert locations_of(IndexBlock(bytes(damaged))) == locations_of(intact)
            await file.write(start, [bytes(damaged)])
            with pytest.raises(DamagedBlockError):
                await index.load(at)
        await file.write(start, [content[start:end]])


def ids_of(block: IndexBlock) -> list[tuple[int, list[int]]]:
    return [(ledger_id, list(rows.ids)) for ledger_id, rows in block.runs()]


def locations_of(block: IndexBlock) -> list[tuple[list[int], list[int]]]:
    return [(list(rows.positions), list(rows.lengths)) for _, rows in block.runs()]


def test_other_files_have_no_places() -> None:
    assert key_places(b"") == key_places(bytes(4_096)) == []
