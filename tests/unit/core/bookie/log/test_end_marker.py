"""The end marker keeps the newest end, survives a torn write, and trusts only its own bytes."""

from rhumbline.core.bookie.log.end_marker import (
    END_MARKER_PATH,
    SLOT_BYTES,
    EndMarker,
    LogEnd,
    read_end_marker,
)
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = BookieId("b1@00000001")


async def test_newest_end_is_read_and_a_torn_write_leaves_the_one_before() -> None:
    disk = MemoryDisk()
    assert await read_end_marker(disk, ME) is None
    for start in range(2):  # each start of the bookie goes on where the last one ended
        marker = EndMarker(disk, ME)
        await marker.open()
        for end in range(1, 8):
            await marker.write(LogEnd(3, 1_000 * start + end, 77))
            assert await read_end_marker(disk, ME) == LogEnd(3, 1_000 * start + end, 77)
        await marker.aclose()
    intact = bytes(disk.files[END_MARKER_PATH])
    ends = set()
    for at in range(0, 2 * SLOT_BYTES, 5):
        disk.files[END_MARKER_PATH][at] ^= 1
        found = await read_end_marker(disk, ME)
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
    assert await read_end_marker(disk, ME) == LogEnd(3, 900, 2)


async def test_foreign_truncated_or_zeroed_marker_is_no_evidence() -> None:
    disk = MemoryDisk()
    marker = EndMarker(disk, ME)
    await marker.open()
    await marker.write(LogEnd(3, 900, 2))
    assert await read_end_marker(disk, BookieId("b2@00000002")) is None
    for content in (b"", b"x" * 700, bytes(1024)):
        disk.files[END_MARKER_PATH] = bytearray(content)
        assert await read_end_marker(disk, ME) is None
