"""Files are known by number, and chunks of sealed files are read once when they are used again."""

import pytest

from rhumbline.core.bookie.index.ledger_entries import Location
from rhumbline.core.bookie.log import file_set
from rhumbline.core.bookie.log.file_set import (
    CHUNK_BYTES,
    FileGoneError,
    FileSet,
    file_path,
    parse_number,
)
from rhumbline.core.bookie.log.log_format import (
    LOG_KIND,
    OFFSET_BITS,
    RECORD_HEADER_BYTES,
    SORTED_KIND,
    encode_record,
)
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

LOG = "log/0000000007.log"


def test_name_of_a_file_holds_its_number() -> None:
    assert file_path(LOG_KIND, 7) == LOG
    assert file_path(SORTED_KIND, 123) == "sorted/0000000123.sorted"
    assert parse_number(LOG_KIND, "0000000007.log") == 7
    assert parse_number(SORTED_KIND, "0000000123.sorted") == 123
    for name in (
        "0000000007.sorted",
        "0000000007",
        "000000007.log",
        "00000000007.log",
        "000000000x.log",
        "000000000².log",
        "000000000\u0664.log",
        ".log",
    ):
        assert parse_number(LOG_KIND, name) is None, name


async def test_files_are_listed_by_rising_number_and_other_names_are_ignored() -> None:
    disk = RecordingDisk()
    files = FileSet(disk, 0)
    assert await files.numbers(LOG_KIND) == [], "the directory does not exist"
    await files.prepare()
    assert disk.taken() == [
        ("make_directory", "log"),
        ("make_directory", "sorted"),
        ("sync_directory", ""),
    ]
    disk.files |= {file_path(LOG_KIND, 12): bytearray(), file_path(LOG_KIND, 3): bytearray()}
    disk.files |= {"log/readme": bytearray(), file_path(SORTED_KIND, 5): bytearray()}
    assert await files.numbers(LOG_KIND) == [3, 12]
    assert await files.numbers(SORTED_KIND) == [5]


async def test_file_without_a_name_is_ignored_until_it_gets_one() -> None:
    disk = RecordingDisk()
    files = FileSet(disk, 0)
    await files.prepare()
    disk.taken()
    for number in (7, 8):
        created = await files.create_unnamed(LOG_KIND, number, 5_000)
        await created.write_durable(0, [b"content"])
        await created.close()
    assert await files.numbers(LOG_KIND) == []
    disk.taken()
    named = await files.name(LOG_KIND, 7)
    assert disk.taken("rename", "sync_directory") == [
        ("rename", LOG + ".new", LOG),
        ("sync_directory", "log"),
    ]
    assert await files.open(LOG_KIND, 7) is named
    assert await named.read(0, 100) == b"content"
    await files.remove_unnamed(LOG_KIND)
    await files.remove_unnamed(LOG_KIND)
    assert await files.numbers(LOG_KIND) == [7]
    assert [path for path in disk.files if path.startswith("log/")] == [LOG]


async def test_file_is_opened_once_and_removed_durably() -> None:
    disk = RecordingDisk()
    files = FileSet(disk, 0)
    await files.prepare()
    disk.taken()
    created = await files.create(LOG_KIND, 7, 5_000)
    assert disk.taken() == [("create", LOG, 5_000)]
    assert await files.open(LOG_KIND, 7) is created
    disk.files[file_path(LOG_KIND, 8)] = bytearray()
    opened = await files.open(LOG_KIND, 8)
    assert await files.open(LOG_KIND, 8) is opened
    await files.sync_directory(SORTED_KIND)
    assert disk.taken() == [("sync_directory", "sorted")]
    disk.files[file_path(LOG_KIND, 9)] = bytearray()
    await files.remove(LOG_KIND, [6, 7, 9])
    assert disk.taken() == [
        ("remove", file_path(LOG_KIND, 6)),
        ("close", LOG),
        ("remove", LOG),
        ("remove", file_path(LOG_KIND, 9)),
        ("sync_directory", "log"),
    ]
    await files.create(LOG_KIND, 7, 0)
    disk.taken()
    await files.aclose()
    assert disk.taken() == [("close", file_path(LOG_KIND, 8)), ("close", LOG)]
    await files.aclose()
    assert disk.taken() == []


class Records:
    """A sealed file with records of one size; ``sealed`` may be left out."""

    def __init__(self, cache_chunks: int = 4) -> None:
        self.disk = RecordingDisk()
        self.files = FileSet(self.disk, cache_chunks * CHUNK_BYTES)

    async def write(self, count: int, size: int, *, is_sealed: bool = True) -> "Records":
        await self.files.prepare()
        file = await self.files.create(LOG_KIND, 7, 0)
        self.entries = [bytes([at % 251]) * size for at in range(count)]
        await file.write(0, [encode_record(entry) for entry in self.entries])
        if is_sealed:
            self.files.seal(7)
        self.disk.taken()
        return self

    def location(self, at: int) -> Location:
        size = len(self.entries[at])
        offset = at * (size + RECORD_HEADER_BYTES) + RECORD_HEADER_BYTES
        return Location(7 << OFFSET_BITS | offset, size)

    async def read(self, at: int) -> list[tuple[int, int]]:
        """Read and check a record; returns the (offset, length) of each read of the disk."""
        assert await self.files.read_record(self.location(at)) == self.entries[at]
        return [(int(start), int(size)) for _, _, start, size in self.disk.taken("read")]


async def test_second_read_in_a_chunk_reads_the_chunk_and_further_ones_nothing() -> None:
    records = await Records().write(500, 1_000)
    assert await records.read(0) == [(0, 1_008)]
    assert await records.read(1) == [(0, CHUNK_BYTES)]
    assert await records.read(0) == []
    assert await records.read(129) == []
    over = 131_072 // 1_008
    assert await records.read(over) == [(CHUNK_BYTES, CHUNK_BYTES)], "its first chunk is cached"
    assert await records.read(over + 1) == []


async def test_record_across_two_chunks_uses_the_second_one_if_that_is_cached() -> None:
    records = await Records().write(500, 1_000)
    over = 131_072 // 1_008
    assert await records.read(over + 5) == [((over + 5) * 1_008, 1_008)]
    assert await records.read(over + 6) == [(CHUNK_BYTES, CHUNK_BYTES)]
    assert await records.read(over) == [(0, CHUNK_BYTES)]
    records = await Records().write(500, 1_000)
    assert await records.read(over) == [(over * 1_008, 1_008)]
    assert await records.read(over) == [(0, CHUNK_BYTES), (CHUNK_BYTES, CHUNK_BYTES)]


async def test_least_recently_used_chunk_is_dropped() -> None:
    records = await Records(2).write(6, CHUNK_BYTES - RECORD_HEADER_BYTES)
    chunk = [(at * CHUNK_BYTES, CHUNK_BYTES) for at in range(6)]
    for at in (0, 1, 2):
        assert await records.read(at) == [chunk[at]], "the record fills the chunk"
    for at in (0, 1):
        assert await records.read(at) == [chunk[at]]
        assert await records.read(at) == []
    assert await records.read(0) == []
    assert await records.read(2) == [chunk[2]]
    assert await records.read(0) == [], "it was used after chunk 1"
    assert await records.read(1) == [chunk[1]]


async def test_large_records_open_files_and_a_cache_without_room_are_read_directly() -> None:
    large = await Records().write(2, CHUNK_BYTES - RECORD_HEADER_BYTES + 1)
    unsealed = await Records().write(2, 100, is_sealed=False)
    uncached = await Records(0).write(2, 100)
    for records in (large, unsealed, uncached):
        size = len(records.entries[0]) + RECORD_HEADER_BYTES
        for _ in range(3):
            assert await records.read(1) == [(size, size)]
    await unsealed.files.open(LOG_KIND, 7)
    assert await unsealed.read(1) == [(108, 108)]
    assert await unsealed.read(1) == [(0, CHUNK_BYTES)], "an opened file is sealed"


async def test_first_reads_are_remembered_for_a_bounded_number_of_chunks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(file_set, "_TOUCHED_MAX", 2)
    records = await Records(9).write(600, 1_000)
    first, second, third = 0, 140, 270
    assert await records.read(first) == [(0, 1_008)]
    assert await records.read(second) == [(second * 1_008, 1_008)]
    assert await records.read(third) == [(third * 1_008, 1_008)]
    assert await records.read(first) == [(0, 1_008)], "it was the oldest of three"
    assert await records.read(third) == [(2 * CHUNK_BYTES, CHUNK_BYTES)]
    assert await records.read(first) == [(0, CHUNK_BYTES)]


async def test_damaged_record_names_its_place() -> None:
    records = await Records().write(2, 100)
    records.disk.files[LOG][120] ^= 1
    for _ in range(2):
        with pytest.raises(CorruptionError, match="byte 116: a record does not match"):
            await records.files.read_record(records.location(1))
    assert records.files.place_of(7 << OFFSET_BITS | 5) == f"{LOG}, byte 5"
    assert records.files.place_of(8 << OFFSET_BITS | 5) == "file 8, byte 5"
    beyond = Location(7 << OFFSET_BITS | 3 * CHUNK_BYTES, 100)
    with pytest.raises(CorruptionError):
        await records.files.read_record(beyond)
    with pytest.raises(CorruptionError, match=f"^file 7 ends before byte {2 * CHUNK_BYTES}$"):
        await records.files.read_record(beyond)


async def test_removed_file_is_gone_with_its_chunks() -> None:
    records = await Records().write(2, 100)
    await records.read(0)
    await records.read(0)
    await records.files.remove(LOG_KIND, [7])
    for location in (records.location(0), records.location(1)):
        with pytest.raises(FileGoneError, match=r"^file 7 does not exist$"):
            await records.files.read_record(location)
    with pytest.raises(FileGoneError):
        await records.files.read_span(7 << OFFSET_BITS, 7 << OFFSET_BITS | 5)
    again = await records.write(2, 100, is_sealed=False)
    assert await again.read(0) == [(0, 108)]
    assert await again.read(0) == [(0, 108)], "a new file of this number is not sealed"


async def test_chunks_of_other_files_survive_a_removal() -> None:
    records = await Records().write(2, 100)
    await records.read(0)
    await records.read(0)
    await records.files.remove(LOG_KIND, [8])
    assert await records.read(0) == []


async def test_span_is_read_unverified_and_ends_with_its_file() -> None:
    records = await Records().write(2, 100)
    start = 7 << OFFSET_BITS | 50
    content = bytes(records.disk.files[LOG])
    assert await records.files.read_span(start, start + 70) == content[50:120]
    assert records.disk.taken("read") == [("read", LOG, 50, 70)]
    assert await records.files.read_span(start, start + 1_000) == content[50:]
