"""An index file says where entries are, and notices every change of its bytes."""

import asyncio
import struct
from random import Random

import pytest
from crc32c import crc32c

from rhumbline.core.bookie.index.entry_index import IndexedEntry, MemoryIndex
from rhumbline.core.bookie.index.index_directory import IndexDirectory, index_path
from rhumbline.core.bookie.index.index_file import (
    FOOTER_BYTES,
    DamagedBlockError,
    DataFile,
    IndexFile,
    read_index_file,
    write_index_file,
)
from rhumbline.core.bookie.log.log_format import LOG_KIND, OFFSET_BITS
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

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


async def test_any_changed_byte_is_noticed() -> None:
    """Every byte belongs to a block, to the directory or to the footer, which have checksums."""

    async def undamaged() -> bytes:
        disk = MemoryDisk()
        await written(disk, some_rows(600))
        return bytes(disk.files[index_path(FILE.number)])

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


def footer(
    *counts: int, magic: bytes = b"RHUMIDX\0", version: int = 1, owner: bytes = ME.encode()
) -> bytes:
    data = struct.pack(">8sHHQQQQIIQI250s", magic, version, *FILE, *counts, owner)
    data = data.ljust(508, b"\0")
    return data + struct.pack(">I", crc32c(data))


async def test_bytes_of_an_index_file_are_those_of_the_specification() -> None:
    disk = MemoryDisk()
    rows = MemoryIndex()
    rows.put([IndexedEntry(4, at, 1_000 + 20 * at, 10) for at in range(600)])
    rows.put([IndexedEntry(9, 5, 900, 11)])
    rows.entries_of(7)  # a ledger without rows is left out
    file = await written(disk, rows)
    content = bytes(disk.files[index_path(FILE.number)])
    assert content[-FOOTER_BYTES:][:8] == b"RHUMIDX\0"
    offset = len(content) - FOOTER_BYTES - 2 * 16 - 2 * 44
    second = 13 + 18 + 4 * 512 + 4
    blocks = content[:second], content[second:offset]
    directory = struct.pack("<QQqq", 4, 9, 599, 5)
    directory += struct.pack("<QQqqQQqqQQ", 4, 4, 0, 512, 4, 9, 511, 5, 0, second)
    directory += struct.pack("<II", *map(crc32c, blocks))
    assert content[offset:-FOOTER_BYTES] == directory
    assert content[-FOOTER_BYTES:] == footer(601, 2, 2, offset, crc32c(directory))
    assert (file.row_count, file.block_count, file.number) == (601, 2, FILE.number)
    assert (file.rank, file.slot, file.serial, file.is_damaged) == ((0, 0), -1, 0, False)


async def test_footer_of_another_format_is_refused() -> None:
    disk = MemoryDisk()
    await written(disk, MemoryIndex())
    content = disk.files[index_path(FILE.number)]
    assert content == footer(0, 0, 0, 0, 0)
    assert len(content) == FOOTER_BYTES
    directory = IndexDirectory(disk, ME)
    assert await directory.read(LOG_KIND, FILE.number) is not None
    for other in (
        footer(0, 0, 0, 0, 0, magic=b"RHUMIDY\0"),
        footer(0, 0, 0, 0, 0, version=2),
        footer(0, 0, 0, 0, 0, owner=ME.encode() + b"X"),
        footer(0, 0, 0, 0, 1),
        footer(0, 0, 0, 1, 0),
        footer(0, 1, 0, 0, 0),
    ):
        content[:] = other
        assert await directory.read(LOG_KIND, FILE.number) is None


async def test_directory_is_read_with_the_footer_if_it_is_small() -> None:
    for ledgers, reads in ((10, 1), (20_000, 2)):
        disk = RecordingDisk()
        rows = MemoryIndex()
        for ledger_id in range(ledgers):
            rows.put([IndexedEntry(ledger_id, 3, 1_000 + 20 * ledger_id, 10)])
        await written(disk, rows)
        disk.taken()
        directory = IndexDirectory(disk, ME)
        found = await directory.read(LOG_KIND, FILE.number)
        assert found is not None
        sizes = [int(length) for _, _, _, length in disk.taken("read")]
        assert len(sizes) == reads
        assert sizes[0] == min(64 << 10, len(disk.files[index_path(FILE.number)]))
        index_file, columns = found
        assert columns.ledgers.tolist() == list(range(ledgers))
        assert set(columns.lasts) == {3}
        assert await find(index_file, ledgers - 1, 3) == (1_000 + 20 * (ledgers - 1), 10)
        assert await index_file.columns() is not None


async def test_long_file_is_written_in_parts_with_pauses() -> None:
    disk = RecordingDisk()
    file = await disk.open("index", create=True)
    rows = MemoryIndex()
    count = 512 * 300
    rows.put([IndexedEntry(1, at, 1_000 + 20 * at, 10) for at in range(count)])
    pauses = 0

    async def pause() -> None:
        nonlocal pauses
        pauses += 1

    disk.taken()
    await write_index_file(file, FILE, ME, rows.columns(), pause)
    block = 13 + 18 + 4 * 512 + 4
    part = -(-(256 << 10) // block) * block
    assert disk.taken() == [
        ("write", "index", 0),
        ("write", "index", part),
        ("write_durable", "index", 2 * part),
    ]
    assert pauses == 75, "one for four blocks"
    found = await read_index_file(file, FILE.kind, FILE.number, ME)
    assert found is not None
    assert found[0].row_count == count
    assert [len(columns) for _, columns in await found[0].columns()] == [count]


async def test_keys_of_blocks_tell_which_of_them_can_have_an_entry() -> None:
    disk = MemoryDisk()
    rows = MemoryIndex()
    rows.put([IndexedEntry(4, at, 1_000 + at, 10) for at in range(100, 1_200)])
    rows.put([IndexedEntry(6, at, 5_000 + at, 10) for at in (7, 9)])
    file = await written(disk, rows)
    assert file.block_count == 3
    expected = {
        (3, 100): -1, (4, 99): -1, (4, 100): 0, (4, 611): 0, (4, 612): 1, (4, 1_123): 1,
        (4, 1_124): 2, (4, 1_199): 2, (5, 0): 2, (6, 7): 2, (6, 9): 2, (6, 10): -1, (7, 0): -1,
    }  # fmt: skip
    assert {key: file.block_at(*key) for key in expected} == expected
    assert list(file.blocks_from(4, 0)) == [(0, 100), (1, 612), (2, 1_124)]
    assert list(file.blocks_from(4, 611)) == [(0, 100), (1, 612), (2, 1_124)]
    assert list(file.blocks_from(4, 612)) == [(1, 612), (2, 1_124)]
    assert list(file.blocks_from(6, 0)) == [(2, 0)]
    assert list(file.blocks_from(6, 9)) == [(2, 0)]
    assert list(file.blocks_from(6, 10)) == []
    assert list(file.blocks_from(3, 0)) == []
    assert list(file.blocks_from(7, 0)) == []


async def test_block_that_is_cut_short_is_damaged() -> None:
    disk = MemoryDisk()
    file = await written(disk, some_rows(600))
    content = disk.files[index_path(FILE.number)]
    start = file._offsets[1]
    del content[start + 10 :]
    await file.load(0)
    with pytest.raises(DamagedBlockError, match=f"the index block at byte {start} is damaged"):
        await file.load(1)


async def test_verification_accounts_for_the_bytes_of_each_block() -> None:
    file = await written(MemoryDisk(), some_rows(1_500))
    sizes: list[int] = []

    async def throttle(size: int) -> None:
        sizes.append(size)

    await file.verify_blocks(throttle)
    assert len(sizes) == file.block_count > 2
    assert sum(sizes) == file._directory_offset
