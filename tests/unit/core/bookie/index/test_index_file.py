"""An index file says where entries are, and notices every change of its bytes."""

import asyncio
from random import Random

import pytest

from rhumbline.core.bookie.index.entry_index import IndexedEntry, MemoryIndex
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import (
    FOOTER_BYTES,
    DamagedBlockError,
    DataFile,
    IndexFile,
)
from rhumbline.core.bookie.log.log_format import LOG_KIND, OFFSET_BITS
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = BookieId("b1@00000001")
FILE = DataFile(LOG_KIND, 7, 0xABCDEF, 1 << 20)


async def no_pause() -> None:
    await asyncio.sleep(0)


def some_rows(count: int = 3_000, seed: int = 1) -> MemoryIndex:
    random = Random(seed)
    rows = MemoryIndex()
    for at in range(count):
        ledger_id = random.choice((1, 1, 1, 2, random.randrange(3, 400)))
        rows.put([IndexedEntry(ledger_id, at, FILE.number << OFFSET_BITS | 600 + at * 50, 40)])
    return rows


async def written(disk: MemoryDisk, rows: MemoryIndex) -> IndexFile:
    directory = IndexDirectory(disk, ME)
    await directory.prepare()
    return (await directory.write(FILE, rows.columns(), no_pause))[0]


async def find(file: IndexFile, ledger_id: int, entry_id: int) -> object:
    at = file.block_at(ledger_id, entry_id)
    return None if at < 0 else (await file.load(at)).find(ledger_id, entry_id)


async def test_every_row_is_found_and_no_other() -> None:
    rows = some_rows()
    file = await written(MemoryDisk(), rows)
    assert file.row_count == rows.row_count == 3_000
    assert file.block_count > 5
    for row in rows.rows():
        assert await find(file, row.ledger_id, row.entry_id) == row[2:]
        for missing in (row.entry_id - 1, row.entry_id + 1):
            expected = rows.find(row.ledger_id, missing)
            assert await find(file, row.ledger_id, missing) == expected
    assert await find(file, 0, 0) is None
    assert await find(file, 1 << 60, 5) is None
    columns = await file.columns()
    assert [(ledger, found.page(0, 9_999)) for ledger, found in columns] == [
        (ledger, found.page(0, 9_999)) for ledger, found in rows.columns()
    ]


async def test_blocks_from_an_id_hold_all_later_ids_of_a_ledger() -> None:
    rows = some_rows()
    file = await written(MemoryDisk(), rows)
    for ledger_id in (1, 2, *range(3, 60)):
        for first in (0, 700, 2_999):
            found = []
            previous = 0
            for at, lowest in file.blocks_from(ledger_id, first):
                page = (await file.load(at)).rows_of(ledger_id).page(first, 9_999)
                assert lowest >= previous
                assert all(row[0] >= lowest for row in page)
                previous = lowest
                found += page
            assert found == [row[1:] for row in rows.page(ledger_id, first, 9_999)]


def test_any_changed_byte_is_noticed() -> None:
    """Every byte belongs to a block, to the directory or to the footer, which have checksums."""

    async def main() -> None:
        disk = MemoryDisk()
        file = await written(disk, some_rows(600))
        content = disk.files[index_path(FILE.number)]
        directory = IndexDirectory(disk, ME)
        random = Random(4)
        for at in [random.randrange(len(content)) for _ in range(400)]:
            content[at] ^= 1 << random.randrange(8)
            found = await directory.read(LOG_KIND, FILE.number)
            if found is not None:
                with pytest.raises(DamagedBlockError, match=index_path(FILE.number)):
                    await found[0].columns()
            content[at] = (await undamaged())[at]
        assert await directory.read(LOG_KIND, FILE.number) is not None
        assert file.block_count == 2

    async def undamaged() -> bytes:
        disk = MemoryDisk()
        await written(disk, some_rows(600))
        return bytes(disk.files[index_path(FILE.number)])

    asyncio.run(main())


async def test_truncated_extended_zeroed_and_missing_files_are_refused() -> None:
    disk = MemoryDisk()
    await written(disk, some_rows(600))
    path = index_path(FILE.number)
    content = bytes(disk.files[path])
    directory = IndexDirectory(disk, ME)
    for end in (0, 1, FOOTER_BYTES, len(content) // 2, len(content) - 1):
        disk.files[path] = bytearray(content[:end])
        assert await directory.read(LOG_KIND, FILE.number) is None
    for other in (content + b"x", content[1:], bytes(len(content)), content * 2):
        disk.files[path] = bytearray(other)
        assert await directory.read(LOG_KIND, FILE.number) is None
    del disk.files[path]
    assert await directory.read(LOG_KIND, FILE.number) is None


async def test_index_file_of_another_bookie_number_or_kind_is_refused() -> None:
    disk = MemoryDisk()
    await written(disk, some_rows(10))
    stranger = IndexDirectory(disk, BookieId("b1@00000002"))
    assert await stranger.read(LOG_KIND, FILE.number) is None
    directory = IndexDirectory(disk, ME)
    assert await directory.read(LOG_KIND + 1, FILE.number) is None
    disk.files[index_path(8)] = disk.files[index_path(FILE.number)]
    assert await directory.read(LOG_KIND, 8) is None
    found = await directory.read(LOG_KIND, FILE.number)
    assert found is not None
    assert found[0].data_file == FILE, "the caller compares generation and end"


async def test_empty_file_has_no_rows() -> None:
    file = await written(MemoryDisk(), MemoryIndex())
    assert (file.row_count, file.block_count) == (0, 0)
    assert await find(file, 1, 0) is None
    assert list(file.blocks_from(1, 0)) == []
