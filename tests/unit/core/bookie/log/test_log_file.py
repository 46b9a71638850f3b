"""A log file appends groups that form a chain, and a failed write leaves no trace of itself."""

import pytest
from crc32c import crc32c

from rhumbline.core.bookie.log.log_file import PADDING_BYTES, LogFile
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
        ("write_durable", PATH, 0),
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


async def padded_file(disk: RecordingDisk, reserved_bytes: int) -> LogFile:
    file = await disk.open(PATH, create=True, allocate_bytes=reserved_bytes)
    return LogFile(file, 5, 77, reserved_bytes=reserved_bytes)


async def test_small_durable_group_is_followed_by_zeros_that_the_next_groups_replace() -> None:
    disk = RecordingDisk()
    log = await padded_file(disk, 64 << 20)
    await log.append([b"snapshot"], 1, is_durable=False)
    assert len(disk.files[PATH]) == log.end, "only what is synced at once is padded"
    await log.append([b"first"], 1, is_durable=True)
    padded = log.end + PADDING_BYTES
    assert len(disk.files[PATH]) == padded
    assert not any(disk.files[PATH][log.end :])
    while log.end + GROUP_HEADER_BYTES + 5_000 <= padded:
        await log.append([b"x" * 5_000], 1, is_durable=True)
        assert len(disk.files[PATH]) == padded
    await log.append([b"x" * 5_000], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end + PADDING_BYTES


async def test_large_group_is_not_padded() -> None:
    disk = RecordingDisk()
    log = await padded_file(disk, 64 << 20)
    await log.append([b"x" * 40_000], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end


async def test_small_group_after_a_large_one_is_not_padded() -> None:
    """Small and large groups in turn would write the padding each time, and never use it."""
    disk = RecordingDisk()
    log = await padded_file(disk, 64 << 20)
    await log.append([b"x" * 40_000], 1, is_durable=True)
    await log.append([b"small"], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end
    await log.append([b"small"], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end + PADDING_BYTES


async def test_padding_is_a_small_part_of_the_reserved_space_and_ends_with_it() -> None:
    disk = RecordingDisk()
    log = await padded_file(disk, 8_000)
    await log.append([b"first"], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end + 500
    await log.append([b"x" * 7_000], 1, is_durable=True)
    assert log.end < len(disk.files[PATH]) == 8_000
    await log.append([b"x" * 1_000], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end


async def test_file_that_was_cut_is_not_padded_again() -> None:
    disk = RecordingDisk()
    log = await padded_file(disk, 64 << 20)
    await log.append([b"first"], 1, is_durable=True)
    await log.cut()
    assert len(disk.files[PATH]) == log.end
    await log.append([b"seal"], 1, is_durable=True)
    assert len(disk.files[PATH]) == log.end
