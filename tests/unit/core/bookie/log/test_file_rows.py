"""The rows of a data file follow from its groups, and states from its records, in order."""

import struct

import pytest
from crc32c import crc32c

from rhumbline.core.bookie.index.entry_index import MemoryIndex
from rhumbline.core.bookie.ledger_records import LedgerRecords, clean_end_record
from rhumbline.core.bookie.log.file_rows import read_group, read_rows
from rhumbline.core.bookie.log.file_set import FileSet
from rhumbline.core.bookie.log.log_file import LogFile
from rhumbline.core.bookie.log.log_format import (
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    STATE_BIT,
    FileHeader,
    encode_record,
)
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire.entry import ENTRY_HEADER_BYTES
from rhumbline.tests.unit.core.bookie.bookie_world import entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

BASE = 9 << OFFSET_BITS | 600


def body_of(*records: bytes) -> bytes:
    return b"".join(map(encode_record, records))


def test_each_entry_gets_a_row_with_its_position() -> None:
    entries = [entry(1, 0), entry(1, 1, b"longer payload"), entry(2, 7), entry(1, 0, b"again")]
    rows = MemoryIndex()
    body = body_of(*entries)
    assert read_group(9, 600, body, rows) == 4
    found = {(row.ledger_id, row.entry_id): row[2:] for row in rows.rows()}
    assert sorted(found) == [(1, 0), (1, 1), (2, 7)]
    for key, data in (((1, 1), entries[1]), ((2, 7), entries[2]), ((1, 0), entries[3])):
        position, length = found[key]
        assert body[position - BASE : position - BASE + length] == data
    assert read_group(9, 600, b"", rows) == 0


def test_states_are_applied_and_lacs_rise() -> None:
    states = LedgerRecords()
    ledger = LedgerRecords().create(1, bytes(20))
    body = encode_record(ledger.encode(), is_state=True) + body_of(
        entry(1, 5, lac=4), entry(1, 6, lac=3), entry(2, 0)
    )
    states.is_clean = True
    assert read_group(9, 600, body, MemoryIndex(), states) == 3
    assert {number: found.lac for number, found in states.ledgers.items()} == {1: 4}
    assert not states.is_clean
    clean = encode_record(clean_end_record(), is_state=True)
    assert read_group(9, 600, clean, MemoryIndex(), states) == 0
    assert states.is_clean, "no entry follows"
    read_group(9, 600, clean + body_of(entry(1, 7)), MemoryIndex(), states)
    assert not states.is_clean
    assert read_group(9, 600, body, MemoryIndex()) == 3, "states are left out"
    assert read_group(9, 600, encode_record(b"", is_state=True), MemoryIndex()) == 0


def test_malformed_records_are_corruption() -> None:
    good = body_of(entry(1, 0))
    end = len(good)
    for cut in (1, 7, 8, 9, end - 1):
        place = f"^file 9: a record is truncated at byte {600 + cut}$"
        with pytest.raises(CorruptionError, match=place):
            read_group(9, 600, good[:cut], MemoryIndex())
    with pytest.raises(CorruptionError, match="truncated"):
        read_group(9, 600, good + bytes(3), MemoryIndex())
    state = struct.pack(">II", STATE_BIT | 5, crc32c(b"stat")) + b"stat"
    with pytest.raises(CorruptionError, match="truncated"):
        read_group(9, 600, state, MemoryIndex())
    shortest = entry(1, 0)[:ENTRY_HEADER_BYTES]
    assert read_group(9, 600, body_of(shortest), MemoryIndex()) == 1
    place = f"^file 9, byte {600 + end + 8}: an entry of {ENTRY_HEADER_BYTES - 1} bytes"
    with pytest.raises(CorruptionError, match=place):
        read_group(9, 600, good + body_of(shortest[:-1]), MemoryIndex())


async def test_rows_of_a_whole_file_are_read_up_to_its_end() -> None:
    disk = MemoryDisk()
    files = FileSet(disk, 0)
    await files.prepare()
    header = FileHeader(LOG_KIND, 9, 77, 0, 0, 0, BookieId("b1@00000001"))
    log = LogFile(await files.create(LOG_KIND, 9, 0), 9, 77)
    await log.write_header(header)
    first = await log.append([body_of(entry(1, 0))], 1, is_durable=True)
    end = log.end
    await log.append([body_of(entry(1, 1))], 1, is_durable=True)
    read: list[int] = []

    async def throttle(size: int) -> None:
        read.append(size)

    rows, scan = await read_rows(files, header, end, throttle)
    assert [tuple(row) for row in rows.rows()] == [
        (1, 0, 9 << OFFSET_BITS | first + 8, len(entry(1, 0)))
    ]
    assert (scan.end, scan.damages) == (end, [])
    rows, _ = await read_rows(files, header, log.end)
    assert rows.row_count == 2
    body = body_of(entry(1, 2, bytes(1 << 18)))
    await log.append([body], 1, is_durable=True)
    await read_rows(files, header, log.end, throttle)
    assert read == [log.end - 512]
    assert first == 512 + GROUP_HEADER_BYTES
    await files.aclose()
