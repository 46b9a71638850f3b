"""A log file appends groups that form a chain, and a failed write leaves no trace of itself."""

import pytest
from crc32c import crc32c

from rhumbline.core.bookie.log.log_file import LogFile
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    FileHeader,
    GroupHeader,
    decode_file_header,
    decode_group_header,
)
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import DiskFullError
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

PATH = "log/1"


async def new_file(disk: RecordingDisk) -> LogFile:
    return LogFile(await disk.open(PATH, create=True), 5, 77)


async def test_groups_form_a_chain_of_numbers_lengths_and_checksums() -> None:
    disk = RecordingDisk()
    log = await new_file(disk)
    assert (log.place, log.last_crc) == ((5, FILE_HEADER_BYTES), 0)
    header = FileHeader(LOG_KIND, 5, 77, 0, 0, 0, BookieId("b1@00000001"))
    await log.write_header(header)
    bodies = [b"first", b"second body", b"third"]
    starts = [
        await log.append([b"first"], 3, is_durable=False),
        await log.append([b"second", b" body"], 4, is_durable=True),
        await log.append([b"third"], 1, is_durable=False),
    ]
    assert disk.taken() == [
        ("create", PATH, 0),
        ("write", PATH, 0),
        ("write", PATH, FILE_HEADER_BYTES),
        ("write_durable", PATH, starts[0] + 5),
        ("write", PATH, starts[1] + 11),
    ]
    content = bytes(disk.files[PATH])
    assert decode_file_header(content, PATH) == header
    previous = (0, 0)
    for number, (count, start, body) in enumerate(zip((3, 4, 1), starts, bodies, strict=True)):
        assert content[start : start + len(body)] == body
        expected = GroupHeader(count, 77, number, *previous, len(body), crc32c(body))
        assert decode_group_header(content, start - GROUP_HEADER_BYTES) == expected
        previous = (len(body), crc32c(body))
    assert log.place == (5, len(content))
    assert log.last_crc == crc32c(b"third")


async def test_file_that_is_opened_again_continues_the_chain() -> None:
    disk = RecordingDisk()
    file = await disk.open(PATH, create=True)
    log = LogFile(file, 5, 77, end=1_000, group_number=9, previous=(30, 40))
    assert (log.place, log.last_crc) == ((5, 1_000), 40)
    start = await log.append([b"body"], 1, is_durable=True)
    assert start == 1_000 + GROUP_HEADER_BYTES
    assert decode_group_header(bytes(disk.files[PATH]), 1_000) == GroupHeader(
        1, 77, 9, 30, 40, 4, crc32c(b"body")
    )


async def test_cut_durably_removes_what_a_failed_write_left() -> None:
    disk = RecordingDisk()
    log = await new_file(disk)
    await log.append([b"kept"], 1, is_durable=True)
    end, crc = log.end, log.last_crc
    disk.room = 20
    with pytest.raises(DiskFullError):
        await log.append([b"lost"], 1, is_durable=True)
    assert (log.end, log.last_crc) == (end, crc)
    assert len(disk.files[PATH]) == end + 20
    disk.room = None
    disk.taken()
    await log.cut()
    assert disk.taken() == [("truncate", PATH, end), ("sync", PATH)]
    await log.append([b"next"], 1, is_durable=True)
    assert decode_group_header(bytes(disk.files[PATH]), end) == GroupHeader(
        1, 77, 1, 4, crc, 4, crc32c(b"next")
    )
