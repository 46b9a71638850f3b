"""A sorted file begins with the bytes of its ledgers and holds its records as they were."""

import pytest
from crc32c import crc32c

from rhumbline.core.bookie.index.ledger_entries import LedgerEntries
from rhumbline.core.bookie.ledger_records import LedgerBytes
from rhumbline.core.bookie.log.file_rows import read_rows
from rhumbline.core.bookie.log.file_set import FileSet, file_path
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    OFFSET_BITS,
    SORTED_KIND,
    FileHeader,
    GroupHeader,
    decode_file_header,
    decode_group_header,
    encode_record,
)
from rhumbline.core.bookie.log.sorted_file import GROUP_BYTES, SortedFile, SortedFileWriter
from rhumbline.core.bookie.start.startup import read_ledger_bytes
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import DiskFullError
from rhumbline.tests.unit.core.bookie.bookie_world import entry
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

ME = BookieId("b1@00000001")
PATH = file_path(SORTED_KIND, 9)
BASE = 4 << OFFSET_BITS | 700
"""Position of the first byte of the source."""


class Source:
    """Records in a row, and the rows of some of them."""

    def __init__(self, entries: list[bytes]) -> None:
        self.entries = entries
        self.records = [encode_record(data) for data in entries]
        self.view = memoryview(b"".join(self.records))

    def rows(self, *numbers: int) -> LedgerEntries:
        """Return rows with these records, as the ids 0, 1, 2, ... of a ledger."""
        rows = LedgerEntries()
        for entry_id, at in enumerate(numbers):
            start = sum(map(len, self.records[:at])) + 8
            rows.put(entry_id, BASE + start, len(self.entries[at]))
        return rows

    def bytes_of(self, *numbers: int) -> bytes:
        return b"".join(self.records[at] for at in numbers)


async def new_writer(disk: RecordingDisk) -> tuple[FileSet, SortedFileWriter]:
    files = FileSet(disk, 1 << 20)
    await files.prepare()
    disk.taken()
    return files, SortedFileWriter(files, ME, 9, 55)


def source_of(count: int = 5) -> Source:
    return Source([entry(1, at, bytes(at * 10)) for at in range(count)])


@pytest.mark.parametrize(
    ("numbers", "is_in_order"),
    [
        ((0, 1, 2), True),
        ((1, 2, 3, 4), True),
        ((1, 2), False),
        ((0, 2, 4), True),
        ((3, 0, 2), False),
        ((2, 1, 0), False),
        ((2,), True),
    ],
)
async def test_records_are_copied_and_their_positions_returned(
    numbers: tuple[int, ...], is_in_order: bool
) -> None:
    disk = RecordingDisk()
    files, writer = await new_writer(disk)
    await writer.begin({1: 5}, 0)
    source = source_of()
    start = len(disk.files[PATH]) + GROUP_HEADER_BYTES
    for _ in range(2):
        positions = writer.add(source.view, BASE, source.rows(*numbers), is_in_order=is_in_order)
        expected = []
        for at in numbers:
            expected.append(9 << OFFSET_BITS | start + 8)
            start += len(source.records[at])
        assert positions.tolist() == expected
    end = await writer.finish()
    content = bytes(disk.files[PATH])
    body = source.bytes_of(*numbers) * 2
    assert content.endswith(body)
    assert end == len(content)
    group = decode_group_header(content, len(content) - len(body) - GROUP_HEADER_BYTES)
    assert group is not None
    assert group[:3] == (2 * len(numbers), 55, 1)
    assert group[5:] == (len(body), crc32c(body))
    _, scan = await read_rows(files, decode_file_header(content, PATH), end)
    assert (scan.damages, scan.end, scan.group_number) == ([], end, 2)


async def test_file_begins_with_its_header_and_the_bytes_of_each_ledger() -> None:
    disk = RecordingDisk()
    files, writer = await new_writer(disk)
    assert (writer.number, writer.generation) == (9, 55)
    await writer.begin({1: 500, 7: 2}, 4_000)
    head = len(disk.files[PATH])
    assert disk.taken() == [
        ("create", PATH, head + 502 + 8 * 4_000 + GROUP_HEADER_BYTES),
        ("write", PATH, 0),
        ("write_durable", PATH, FILE_HEADER_BYTES),
    ]
    content = bytes(disk.files[PATH])
    assert decode_file_header(content, PATH) == FileHeader(SORTED_KIND, 9, 55, 0, 0, 0, ME)
    body = content[FILE_HEADER_BYTES + GROUP_HEADER_BYTES :]
    assert decode_group_header(content, FILE_HEADER_BYTES) == GroupHeader(
        1, 55, 0, 0, 0, len(body), crc32c(body)
    )
    found = await read_ledger_bytes(files, 9, 55)
    assert isinstance(found, LedgerBytes)
    assert (found.ledgers.tolist(), found.sizes.tolist()) == ([1, 7], [500, 2])
    assert await read_ledger_bytes(files, 9, 56) is None


async def test_finished_file_is_durable_with_its_name_and_without_reserved_space() -> None:
    disk = RecordingDisk()
    files, writer = await new_writer(disk)
    await writer.begin({1: 5}, 0)
    source = source_of()
    writer.add(source.view, BASE, source.rows(0, 1), is_in_order=True)
    await writer.flush()
    start = len(disk.files[PATH])
    disk.files[PATH] += bytes(100)
    writer.add(source.view, BASE, source.rows(2, 3), is_in_order=True)
    disk.taken()
    end = await writer.finish()
    assert disk.taken() == [
        ("write_durable", PATH, start),
        ("truncate", PATH, end),
        ("sync", PATH),
        ("sync_directory", "sorted"),
    ]
    assert end == start + GROUP_HEADER_BYTES + len(source.bytes_of(2, 3))
    assert disk.files[PATH].endswith(source.bytes_of(2, 3))
    position = 9 << OFFSET_BITS | end - len(source.records[3]) + 8
    location = source.rows(3).find(0)
    assert location is not None
    for _ in range(2):
        assert await files.read_record(location._replace(position=position)) == source.entries[3]
    assert disk.taken("read")[-1] == ("read", PATH, 0, 131_072), "it is sealed"


async def test_file_without_further_records_is_not_written_again() -> None:
    disk = RecordingDisk()
    _, writer = await new_writer(disk)
    await writer.begin({}, 0)
    disk.taken()
    end = await writer.finish()
    assert disk.taken("write", "write_durable") == []
    assert end == len(disk.files[PATH])


async def test_group_is_full_at_its_size() -> None:
    disk = RecordingDisk()
    _, writer = await new_writer(disk)
    await writer.begin({1: 5}, 0)
    assert not writer.is_full
    for size, is_full in ((GROUP_BYTES - 9, False), (GROUP_BYTES - 8, True)):
        source = Source([bytes(size)])
        writer.add(source.view, BASE, source.rows(0), is_in_order=True)
        assert writer.is_full == is_full
        await writer.flush()
        assert not writer.is_full
    assert GROUP_BYTES == 512 << 10


async def test_full_disk_is_reported() -> None:
    disk = RecordingDisk()
    _, writer = await new_writer(disk)
    disk.room = 100
    with pytest.raises(DiskFullError):
        await writer.begin({1: 5}, 4_000)


def test_live_bytes_of_a_new_file_are_those_of_all_its_entries() -> None:
    file = SortedFile(9, 5_000, 4_000, 3)
    assert (file.number, file.end, file.age) == (9, 5_000, 3)
    assert (file.entry_bytes, file.live_bytes, file.counted_at) == (4_000, 4_000, -1)
