"""The end marker keeps the newest end, survives a torn write, and trusts only its own bytes."""

import struct

from crc32c import crc32c

from rhumbline.core.bookie.log.end_marker import (
    END_MARKER_PATH,
    SLOT_BYTES,
    EndMarker,
    LogEnd,
    find_end_marker,
)
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import DiskFailedError
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk, RecordingFile

ME = BookieId("b1@00000001")


async def test_newest_end_is_read_and_a_torn_write_leaves_the_one_before() -> None:
    disk = MemoryDisk()
    assert (await find_end_marker(disk, ME)).end is None
    for start in range(2):  # each start of the bookie goes on where the last one ended
        marker = EndMarker(disk, ME)
        await marker.open()
        for end in range(1, 8):
            await marker.write(LogEnd(3, 1_000 * start + end, 77))
            assert (await find_end_marker(disk, ME)).end == LogEnd(3, 1_000 * start + end, 77)
        await marker.aclose()
    intact = bytes(disk.files[END_MARKER_PATH])
    ends = set()
    for at in range(0, 2 * SLOT_BYTES, 5):
        disk.files[END_MARKER_PATH][at] ^= 1
        found = (await find_end_marker(disk, ME)).end
        assert found is not None
        ends.add(found.end)
        disk.files[END_MARKER_PATH][:] = intact
    assert ends == {1_006, 1_007}


async def test_withdrawn_file_is_marked_by_the_last_write_and_not_by_the_highest_number() -> None:
    disk = MemoryDisk()
    marker = EndMarker(disk, ME)
    await marker.open()
    await marker.write(LogEnd(4, 600, 1))
    await marker.write(LogEnd(3, 900, 2), is_durable=True)
    assert (await find_end_marker(disk, ME)).end == LogEnd(3, 900, 2)


async def test_foreign_truncated_or_zeroed_marker_is_no_evidence() -> None:
    disk = MemoryDisk()
    marker = EndMarker(disk, ME)
    await marker.open()
    await marker.write(LogEnd(3, 900, 2))
    assert (await find_end_marker(disk, BookieId("b2@00000002"))).end is None
    for content in (b"", b"x" * 700, bytes(1024)):
        disk.files[END_MARKER_PATH] = bytearray(content)
        assert (await find_end_marker(disk, ME)).end is None


async def test_file_has_two_slots_that_are_written_in_turn() -> None:
    disk = RecordingDisk()
    marker = EndMarker(disk, ME)
    await marker.open()
    await marker.open()
    assert disk.taken() == [
        ("create", END_MARKER_PATH, 0),
        ("write", END_MARKER_PATH, 0),
        ("sync_directory", ""),
    ]
    assert disk.files[END_MARKER_PATH] == bytes(1_024)
    await marker.write(LogEnd(3, 900, 2))
    await marker.write(LogEnd(3, 950, 2), is_durable=True)
    await marker.write(LogEnd(4, 600, 5))
    assert disk.taken() == [
        ("write", END_MARKER_PATH, 512),
        ("write_durable", END_MARKER_PATH, 0),
        ("write", END_MARKER_PATH, 512),
    ]

    def slot(*fields: int) -> bytes:
        data = struct.pack(">8sQQQQ250s", b"RHUMEND\0", *fields, ME.encode())
        data = data.ljust(508, b"\0")
        return data + struct.pack(">I", crc32c(data))

    content = disk.files[END_MARKER_PATH]
    assert content == slot(2, 3, 2, 950) + slot(3, 4, 5, 600)
    await marker.aclose()
    await marker.aclose()
    assert disk.taken() == [("close", END_MARKER_PATH)]
    assert (await find_end_marker(disk, ME)).end == LogEnd(4, 600, 5)
    assert disk.taken() == [("read", END_MARKER_PATH, 0, 1_024), ("close", END_MARKER_PATH)]
    again = EndMarker(disk, ME)
    await again.open()
    await again.write(LogEnd(4, 700, 5))
    assert content == slot(4, 4, 5, 700) + slot(3, 4, 5, 600)
    for cut in (1_023, 512):
        del content[cut:]
        assert (await find_end_marker(disk, ME)).end == LogEnd(4, 700, 5)
    del content[511:]
    assert (await find_end_marker(disk, ME)).end is None


async def test_marker_that_cannot_be_read_proves_nothing() -> None:
    class FailingDisk(RecordingDisk):
        async def open(
            self, path: str, *, create: bool = False, allocate_bytes: int = 0
        ) -> RecordingFile:
            raise DiskFailedError(f"{path}: I/O error")

    assert await find_end_marker(FailingDisk(), ME) == (None, False)


async def test_marker_is_lost_if_no_torn_write_leaves_it_so() -> None:
    disk = MemoryDisk()
    assert (await find_end_marker(disk, ME)).is_lost
    marker = EndMarker(disk, ME)
    await marker.open()
    assert (await find_end_marker(disk, ME)).is_lost, "it was never written"
    await marker.write(LogEnd(3, 900, 2), is_durable=True)
    intact = bytes(disk.files[END_MARKER_PATH])
    assert not (await find_end_marker(disk, ME)).is_lost
    torn = disk.files[END_MARKER_PATH]
    for at in range(8, SLOT_BYTES, 7):
        torn[SLOT_BYTES + at :] = bytes(SLOT_BYTES - at)
        assert not (await find_end_marker(disk, ME)).is_lost, "the rest of a slot was not written"
    for content in (intact[:-1], b"", bytes(2 * SLOT_BYTES)):
        torn[:] = content
        assert (await find_end_marker(disk, ME)).is_lost
