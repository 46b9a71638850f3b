"""A scan finds every good group, and tells a torn end from damage."""

from collections.abc import Awaitable, Callable

import pytest

from rhumbline.core.bookie.log import replay
from rhumbline.core.bookie.log.log_file import LogFile
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    FileHeader,
    GroupHeader,
    encode_group_header,
)
from rhumbline.core.bookie.log.replay import Damage, FileScan, scan_file
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

PATH = "log/5"
HEADER = FileHeader(LOG_KIND, 5, 77, 0, 0, 0, BookieId("b1@00000001"))
MISSING_END = "the end of the file is missing or bad"
Groups = list[tuple[int, bytes]]


class ScannedFile:
    """A log file with some groups; ``starts`` are the offsets of their headers."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.bodies: list[bytes] = []
        self.starts: list[int] = []
        self.log: LogFile

    @property
    def content(self) -> bytearray:
        return self.disk.files[PATH]

    @property
    def end(self) -> int:
        return self.log.end

    async def write(self, *bodies: bytes) -> "ScannedFile":
        self.log = LogFile(await self.disk.open(PATH, create=True), 5, 77)
        await self.log.write_header(HEADER)
        for body in bodies:
            self.starts.append(self.log.end)
            self.bodies.append(body)
            await self.log.append([body], 1, is_durable=False)
        return self

    def groups(self, *numbers: int) -> Groups:
        """Return what a scan reports for the groups of these numbers."""
        return [(self.starts[at] + GROUP_HEADER_BYTES, self.bodies[at]) for at in numbers]

    async def scan(
        self,
        end: int | None = None,
        throttle: Callable[[int], Awaitable[None]] = replay.yield_to_loop,
    ) -> tuple[FileScan, Groups]:
        found: Groups = []
        scan = await scan_file(
            await self.disk.open(PATH),
            HEADER,
            end,
            lambda offset, body: found.append((offset, body)),
            throttle,
        )
        return scan, found


async def three_groups() -> ScannedFile:
    return await ScannedFile().write(b"first", b"second", b"third one")


@pytest.mark.parametrize("is_last", [True, False])
async def test_intact_file_is_scanned_to_its_end(is_last: bool) -> None:
    file = await three_groups()
    scan, found = await file.scan(None if is_last else file.end)
    assert found == file.groups(0, 1, 2)
    previous = (9, file.log.last_crc)
    assert scan == FileScan(file.end, 3, previous)
    assert (scan.damages, scan.torn_bytes, scan.is_cut_short) == ([], 0, False)


async def test_file_without_groups_ends_behind_its_header() -> None:
    file = await ScannedFile().write()
    scan, found = await file.scan()
    assert (scan, found) == (FileScan(FILE_HEADER_BYTES, 0, (0, 0)), [])


async def test_groups_behind_the_known_end_are_not_read() -> None:
    file = await three_groups()
    scan, found = await file.scan(file.starts[2])
    assert found == file.groups(0, 1)
    assert scan.end == file.starts[2]
    assert scan.damages == []


async def test_group_that_lies_across_the_known_end_is_not_read() -> None:
    file = await three_groups()
    for end in (file.starts[2] + 1, file.starts[2] + GROUP_HEADER_BYTES, file.end - 1):
        scan, found = await file.scan(end)
        assert found == file.groups(0, 1)
        assert scan.damages == [Damage(5, file.starts[2], end, MISSING_END)]


@pytest.mark.parametrize("kept", [1, 43, 44, 45, 48, 52])
async def test_incomplete_last_group_is_torn_and_cut_short(kept: int) -> None:
    file = await three_groups()
    del file.content[file.starts[2] + kept :]
    scan, found = await file.scan()
    assert found == file.groups(0, 1)
    assert (scan.end, scan.group_number) == (file.starts[2], 2)
    assert (scan.damages, scan.torn_bytes, scan.is_cut_short) == ([], kept, True)


async def test_complete_bad_last_group_is_torn_and_not_cut_short() -> None:
    file = await three_groups()
    file.content[-1] ^= 1
    scan, _ = await file.scan()
    assert (scan.torn_bytes, scan.is_cut_short, scan.damages) == (53, False, [])
    file.content[file.starts[2]] ^= 1
    scan, _ = await file.scan()
    assert (scan.torn_bytes, scan.is_cut_short, scan.damages) == (53, False, [])
    del file.content[file.starts[2] + GROUP_HEADER_BYTES :]
    scan, _ = await file.scan()
    assert (scan.torn_bytes, scan.is_cut_short) == (44, False), "a whole header, which is bad"
    del file.content[-1:]
    scan, _ = await file.scan()
    assert (scan.torn_bytes, scan.is_cut_short) == (43, True)


@pytest.mark.parametrize("padding", [1, 44, 300_000, 5 << 20])
async def test_zeros_after_the_last_group_are_padding(padding: int) -> None:
    file = await three_groups()
    end = file.end
    file.content.extend(bytes(padding))
    scan, found = await file.scan()
    assert found == file.groups(0, 1, 2)
    assert (scan.end, scan.group_number) == (end, 3)
    assert (scan.damages, scan.torn_bytes, scan.is_cut_short) == ([], 0, False)


@pytest.mark.parametrize("kept", [1, 20, 44, 45, 52])
async def test_beginning_of_a_group_in_padding_is_cut_short(kept: int) -> None:
    file = await three_groups()
    file.content[-1] = 0xFF
    file.content[file.starts[2] + kept :] = bytes(1000)
    scan, found = await file.scan()
    assert found == file.groups(0, 1)
    assert scan.is_cut_short
    assert 0 < scan.torn_bytes <= kept


async def test_complete_bad_group_in_padding_is_not_cut_short() -> None:
    file = await three_groups()
    file.content[-1] ^= 1
    file.content.extend(bytes(1000))
    scan, _ = await file.scan()
    assert (scan.torn_bytes, scan.is_cut_short, scan.damages) == (53, False, [])


async def test_missing_or_bad_end_of_an_older_file_is_damage() -> None:
    file = await three_groups()
    expected = [Damage(5, file.starts[2], file.end, MISSING_END)]
    file.content[-1] ^= 1
    scan, found = await file.scan(file.end)
    assert found == file.groups(0, 1)
    assert (scan.damages, scan.torn_bytes, scan.is_cut_short) == (expected, 0, False)
    del file.content[file.starts[2] :]
    scan, _ = await file.scan(file.end)
    assert (scan.damages, scan.torn_bytes) == (expected, 0)
    scan, _ = await file.scan(file.end + 1)
    assert scan.damages == [Damage(5, file.starts[2], file.end + 1, MISSING_END)]


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (0, "no valid group header"),
        (30, "no valid group header"),
        (43, "no valid group header"),
        (44, "group 1 does not match its checksum"),
        (49, "group 1 does not match its checksum"),
    ],
)
async def test_bad_group_before_a_good_one_is_damage_and_the_scan_goes_on(
    at: int, reason: str
) -> None:
    file = await three_groups()
    file.content[file.starts[1] + at] ^= 1
    for end in (None, file.end):
        scan, found = await file.scan(end)
        assert found == file.groups(0, 2)
        assert scan.damages == [Damage(5, file.starts[1], file.starts[2], reason)]
        assert (scan.end, scan.group_number, scan.torn_bytes) == (file.end, 3, 0)


async def test_first_group_may_be_bad_too() -> None:
    file = await three_groups()
    file.content[file.starts[0]] ^= 1
    scan, found = await file.scan()
    assert found == file.groups(1, 2)
    assert scan.damages == [
        Damage(5, file.starts[0], file.starts[1], "no valid group header"),
    ]


async def test_group_that_does_not_follow_the_one_before_it_is_damage() -> None:
    file = await ScannedFile().write(b"first", b"second", b"third one", b"fourth")
    del file.content[file.starts[1] : file.starts[2]]
    scan, found = await file.scan()
    start = file.starts[1] + file.starts[3] - file.starts[2]
    assert found == [*file.groups(0), (start + GROUP_HEADER_BYTES, b"fourth")]
    reason = "found group 2 in place of group 1"
    assert scan.damages == [Damage(5, file.starts[1], start, reason)]
    file = await three_groups()
    for header in (
        GroupHeader(1, 77, 1, 6, file.log.last_crc, 0, 0),  # another length before it
        GroupHeader(1, 77, 1, 5, 1, 0, 0),  # another checksum before it
    ):
        file.content[file.starts[1] :] = encode_group_header(header)
        scan, found = await file.scan()
        assert found == file.groups(0)
        assert (scan.torn_bytes, scan.is_cut_short) == (GROUP_HEADER_BYTES, False)


async def test_groups_of_another_file_and_earlier_groups_are_not_taken_for_groups() -> None:
    """A client may put such bytes into an entry, and a disk may return those of a deleted file."""
    stale = encode_group_header(GroupHeader(1, 78, 9, 0, 0, 0, 0))
    earlier = encode_group_header(GroupHeader(1, 77, 1, 0, 0, 0, 0))
    file = await ScannedFile().write(b"first", stale + earlier + b"\xf5RhG", b"third")
    file.content[file.starts[1]] ^= 1
    scan, found = await file.scan()
    assert found == file.groups(0, 2)
    assert [damage.end for damage in scan.damages] == [file.starts[2]]
    scan, found = await (await ScannedFile().write(b"first", stale)).scan()
    assert len(found) == 2
    file.content[file.starts[0] :] = stale
    scan, found = await file.scan()
    assert (found, scan.torn_bytes) == ([], GROUP_HEADER_BYTES)


async def test_header_of_a_group_that_is_too_long_to_exist_is_bad() -> None:
    for length, is_cut_short in ((128 << 20, True), ((128 << 20) + 1, False)):
        file = await three_groups()
        file.content[file.starts[2] :] = (
            encode_group_header(GroupHeader(1, 77, 2, 6, 0, length, 0)) + b"x" * 20
        )
        scan, _ = await file.scan()
        assert scan.torn_bytes == GROUP_HEADER_BYTES + 20
        assert scan.is_cut_short == is_cut_short


@pytest.mark.parametrize("chunk", [64, 65, 97, 100])
async def test_next_group_is_found_across_the_chunks_of_a_read(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay, "_CHUNK_BYTES", chunk)
    for size in range(40, 160, 7):
        file = await ScannedFile().write(b"first", bytes(size), b"third", b"fourth")
        file.content[file.starts[1]] ^= 1
        scan, found = await file.scan()
        assert found == file.groups(0, 2, 3)
        assert [(damage.start, damage.end) for damage in scan.damages] == [
            (file.starts[1], file.starts[2])
        ]
        del file.content[file.starts[2] + 2 :]
        scan, found = await file.scan()
        assert found == file.groups(0)
        assert scan.torn_bytes == file.starts[2] + 2 - file.starts[1]


async def test_throttle_gets_the_bytes_that_were_read_since_its_last_call() -> None:
    called: list[int] = []

    async def throttle(size: int) -> None:
        called.append(size)

    bodies = [bytes(100 << 10)] * 7
    file = await ScannedFile().write(*bodies)
    await file.scan(throttle=throttle)
    group = GROUP_HEADER_BYTES + (100 << 10)
    assert called == [3 * group, 3 * group]
    called.clear()
    exact = await ScannedFile().write(bytes((256 << 10) - GROUP_HEADER_BYTES))
    await exact.scan(throttle=throttle)
    assert called == [256 << 10]


async def test_scan_reads_the_file_in_chunks() -> None:
    file = await ScannedFile().write(*[bytes(1_000)] * 50)
    await file.scan()
    assert file.disk.read_count == 1
