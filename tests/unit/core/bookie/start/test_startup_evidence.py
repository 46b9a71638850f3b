"""Each piece of evidence for the end of the log, and what a start concludes without it."""

from collections.abc import Sequence

import pytest

from rhumbline.core.bookie.index.index_file import DataFile
from rhumbline.core.bookie.ledger_records import LedgerRecords, LogManifest, seal_record
from rhumbline.core.bookie.log.end_marker import EndMarker, LogEnd
from rhumbline.core.bookie.log.file_set import FileSet, file_path
from rhumbline.core.bookie.log.log_file import LogFile
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    FILE_NUMBER_MAX,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    SORTED_KIND,
    FileHeader,
    encode_record,
)
from rhumbline.core.bookie.log.replay import Damage
from rhumbline.core.bookie.log.sorted_file import SortedFileWriter
from rhumbline.core.bookie.start.startup import OpenedFiles, open_files, read_header
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import ForeignDataError
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME = BookieId("b1@00000001")
MISSING_SNAPSHOT = "the snapshot at the beginning of the log is missing"
BAD_HEADER = "the file's header is damaged"


class Image:
    """The files of a bookie, written log by log. ``states`` is the state in the snapshots."""

    def __init__(self) -> None:
        self.disk = MemoryDisk()
        self.files = FileSet(self.disk, 0)
        self.logs: dict[int, LogFile] = {}
        self.ends: dict[int, int] = {}
        """The end of each log without its seal."""
        self.states = LedgerRecords()
        self.states.boot_id = "boot-1"
        self.states.create(1, KEY)

    async def write_log(
        self, number: int, *, entries: int = 2, has_snapshot: bool = True, has_seal: bool = True
    ) -> LogFile:
        """Write a log after the last one, with one group for each entry; seals the last one."""
        await self.files.prepare()
        log = LogFile(await self.files.create(LOG_KIND, number, 0), number, 1_000 + number)
        previous = next(reversed(self.logs.values()), None)
        end = (0, 0, 0) if previous is None else (*previous.place, previous.last_crc)
        await log.write_header(FileHeader(LOG_KIND, number, log.generation, *end, ME))
        if has_snapshot:
            await self.append_states(log, list(self.states.snapshot()))
        if previous is not None and has_seal:
            await self.append_states(previous, [seal_record(number)])
        for at in range(entries):
            await log.append([encode_record(entry(1, 100 * number + at))], 1, is_durable=True)
        self.logs[number], self.ends[number] = log, log.end
        return log

    async def append_states(self, log: LogFile, records: Sequence[bytes]) -> None:
        encoded = [encode_record(record, is_state=True) for record in records]
        await log.append(encoded, len(encoded), is_durable=True)

    async def mark(self, number: int, end: int, generation: int = 0) -> None:
        marker = EndMarker(self.disk, ME)
        await marker.open()
        await marker.write(LogEnd(number, end, generation or 1_000 + number))

    def content(self, number: int, kind: int = LOG_KIND) -> bytearray:
        return self.disk.files[file_path(kind, number)]

    async def open(self, *, boot: str = "boot-1", was_used: bool = False) -> OpenedFiles:
        return await open_files(FileSet(self.disk, 0), ME, boot, was_used=was_used)

    async def reasons(self, *, boot: str = "boot-1", was_used: bool = False) -> list[Damage]:
        return (await self.open(boot=boot, was_used=was_used)).damages


async def three_logs() -> Image:
    image = Image()
    for number in (1, 2, 3):
        await image.write_log(number)
    return image


def is_data_file(image: Image, number: int) -> DataFile:
    return DataFile(LOG_KIND, number, 1_000 + number, image.ends[number])


async def test_intact_logs_are_all_in_use_and_only_the_newest_is_replayed() -> None:
    image = await three_logs()
    await image.mark(3, image.ends[3])
    opened = await image.open(was_used=True)
    assert opened.is_orderly
    assert (opened.damages, opened.torn_bytes, opened.missing_logs) == ([], 0, [])
    assert (opened.logs, opened.unused_logs, opened.leftover_logs) == ([1, 2, 3], [], [])
    assert opened.data_files == {at: is_data_file(image, at) for at in (1, 2, 3)}
    assert list(opened.rows) == [3]
    assert [row.entry_id for row in opened.rows[3].rows()] == [300, 301]
    assert opened.highest_number == 3
    assert opened.states.has_complete_snapshot
    assert opened.states.ledgers[1].lac == 300
    assert opened.last_log is not None
    assert opened.last_log.place == (3, image.ends[3])
    assert opened.last_log.generation == 1_003
    assert opened.last_log.last_crc == image.logs[3].last_crc
    body = encode_record(entry(1, 302))
    start = await opened.last_log.append([body], 1, is_durable=True)
    assert start == image.ends[3] + GROUP_HEADER_BYTES
    assert len((await image.open()).rows[3].entries_of(1)) == 3, "the chain goes on"


async def test_empty_disk_has_no_files() -> None:
    for was_used in (False, True):
        opened = await Image().open(was_used=was_used)
        assert (opened.logs, opened.damages, opened.last_log) == ([], [], None)
        assert opened.is_orderly


async def test_older_logs_are_replayed_while_the_snapshot_is_incomplete() -> None:
    image = Image()
    await image.write_log(1)
    await image.write_log(2)
    await image.write_log(3, has_snapshot=False)
    opened = await image.open()
    assert sorted(opened.rows) == [2, 3]
    assert opened.states.boot_id == "boot-1"
    assert opened.damages == [Damage(3, image.ends[3], image.ends[3], MISSING_SNAPSHOT)]
    assert not opened.is_orderly
    only = Image()
    await only.write_log(1, has_snapshot=False)
    assert await only.reasons() == []
    end = only.ends[1]
    await only.mark(1, end)
    assert await only.reasons(was_used=True) == [Damage(1, end, end, MISSING_SNAPSHOT)]
    await only.mark(1, end)
    assert await only.reasons() == [Damage(1, end, end, MISSING_SNAPSHOT)]


async def test_interrupted_creation_of_a_log_is_no_damage_even_if_the_bookie_was_used() -> None:
    """Without a seal or a marker that names it, a log was never used."""
    image = Image()
    await image.write_log(1)
    await image.write_log(2, has_snapshot=False, has_seal=False, entries=0)
    await image.mark(1, image.ends[1])
    opened = await image.open(was_used=True)
    assert opened.damages == []
    assert opened.logs == [1, 2]
    assert sorted(opened.rows) == [1, 2]


async def test_log_with_a_damaged_header_was_used_only_if_something_names_it() -> None:
    image = await three_logs()
    image.content(3)[10] ^= 1
    opened = await image.open()
    assert opened.damages == [Damage(3, 0, 0, BAD_HEADER)]
    assert opened.logs == [1, 2, 3]
    assert opened.data_files[3] is None
    assert opened.last_log is not None
    assert opened.last_log.place == (2, image.logs[2].end), "behind its seal"

    image = Image()
    await image.write_log(1)
    await image.write_log(2, has_seal=False)
    image.content(2)[10] ^= 1
    opened = await image.open()
    assert opened.damages == []
    assert (opened.unused_logs, opened.logs, opened.leftover_logs) == ([2], [1], [2])
    assert opened.is_orderly
    assert opened.data_files == {1: is_data_file(image, 1)}
    await image.mark(1, image.ends[1])
    assert await image.reasons() == []
    await image.mark(2, image.ends[2])
    assert await image.reasons() == [Damage(2, 0, 0, BAD_HEADER)]


async def test_damaged_header_of_an_older_log_leaves_its_end_unknown() -> None:
    image = await three_logs()
    image.content(2)[10] ^= 1
    opened = await image.open()
    assert opened.logs == [1, 2, 3]
    assert opened.data_files[2] is None
    size = len(image.content(1))
    assert opened.data_files[1] == DataFile(LOG_KIND, 1, 1_001, size), "up to its whole size"
    assert opened.data_files[3] == is_data_file(image, 3)


async def test_missing_logs_are_noticed() -> None:
    image = await three_logs()
    del image.disk.files[file_path(LOG_KIND, 3)]
    assert await image.reasons() == [Damage(3, 0, 0, "log 3 is missing")]
    image = await three_logs()
    del image.disk.files[file_path(LOG_KIND, 2)]
    opened = await image.open()
    assert opened.damages == [Damage(2, 0, 0, "log 2 is missing")]
    assert opened.missing_logs == [2]
    assert opened.logs == [1, 3]
    image = await three_logs()
    del image.disk.files[file_path(LOG_KIND, 1)]
    assert await image.reasons() == [], "it may have been compacted"
    await image.mark(4, 600)
    assert await image.reasons() == [Damage(4, 0, 0, "log 4 is missing")]


async def test_logs_below_the_floor_are_leftovers_and_the_floor_must_exist() -> None:
    image = Image()
    await image.write_log(1)
    await image.write_log(2)
    image.states.manifest = LogManifest(2, {})
    await image.write_log(3)
    opened = await image.open()
    assert (opened.logs, opened.leftover_logs, opened.damages) == ([2, 3], [1], [])
    assert sorted(opened.data_files) == [2, 3]
    del image.disk.files[file_path(LOG_KIND, 1)]
    assert (await image.open()).leftover_logs == []
    del image.disk.files[file_path(LOG_KIND, 2)]
    assert await image.reasons() == [Damage(2, 0, 0, "the oldest log is missing")]
    image = Image()
    await image.write_log(1)
    await image.write_log(2)
    image.states.manifest = LogManifest(3, {})
    await image.write_log(3)
    del image.disk.files[file_path(LOG_KIND, 2)]
    opened = await image.open()
    assert (opened.damages, opened.logs) == ([], [3]), "the missing log is below the floor"
    image.states.manifest = LogManifest(9, {})
    only = Image()
    only.states.manifest = LogManifest(9, {})
    await only.write_log(1)
    opened = await only.open()
    assert opened.damages == [Damage(9, 0, 0, "the oldest log is missing")]
    assert (opened.logs, opened.rows) == ([], {})


async def test_marker_says_how_far_the_newest_log_was_acknowledged() -> None:
    image = await three_logs()
    end = image.ends[3]
    for marked, expected in (
        ((3, end - 1), []),
        ((3, end), []),
        ((3, end + 1), [Damage(3, end, end + 1, "acknowledged groups at its end are missing")]),
        ((2, end + 9_999), []),
        ((3, end, 77), [Damage(3, 0, end, "another log file was used under this number")]),
        ((3, end + 9, 77), [Damage(3, 0, end, "another log file was used under this number")]),
    ):
        await image.mark(*marked)
        assert await image.reasons() == expected, marked


async def test_end_of_an_older_log_must_be_the_one_that_its_successor_names() -> None:
    image = Image()
    log = await image.write_log(1)
    await log.append([encode_record(entry(1, 7))], 1, is_durable=True)
    await image.write_log(2, has_snapshot=False, has_seal=False)
    assert await image.reasons() == [], "intact"
    other = Image()
    changed = await other.write_log(1)
    await changed.append([encode_record(entry(1, 8))], 1, is_durable=True)
    image.content(1)[:] = other.content(1)
    reason = "its last group is not the one that the next file names"
    end = changed.end
    assert await image.reasons() == [Damage(1, end, end, reason)]


async def test_seal_behind_the_named_end_is_read() -> None:
    image = Image()
    await image.write_log(1)
    await image.write_log(2, has_snapshot=False)
    opened = await image.open()
    assert opened.states.sealed_for == 2
    assert opened.damages == [Damage(2, image.ends[2], image.ends[2], MISSING_SNAPSHOT)]
    for at in (0, 20, GROUP_HEADER_BYTES + 3, -1):
        broken = Image()
        broken.disk = image.disk.copy()
        start = image.ends[1] if at >= 0 else len(image.content(1))
        broken.content(1)[start + at] ^= 1
        opened = await broken.open()
        assert (opened.states.sealed_for, opened.damages) == (0, []), at
    cut = Image()
    cut.disk = image.disk.copy()
    del cut.content(1)[-1:]
    assert (await cut.open()).states.sealed_for == 0


async def test_torn_group_is_damage_if_it_may_have_been_complete() -> None:
    image = await three_logs()
    start = image.logs[3].end
    await image.logs[3].append([encode_record(entry(1, 400))], 1, is_durable=True)
    torn = image.disk.copy()
    del torn.files[file_path(LOG_KIND, 3)][-1:]
    image.content(3)[-1] ^= 1
    size = len(image.content(3)) - start
    down = "the operating system went down while the last group was written"
    complete = "the last group was complete once and is damaged now"
    for boot, expected in (
        ("boot-1", [Damage(3, start, start + size, complete)]),
        ("boot-2", [Damage(3, start, start + size, down)]),
        ("", []),
    ):
        opened = await image.open(boot=boot)
        assert (opened.damages, opened.torn_bytes) == (expected, size)
        opened = await open_files(FileSet(torn, 0), ME, boot, was_used=False)
        cut = [Damage(3, start, start + size - 1, down)] if boot == "boot-2" else []
        assert (opened.damages, opened.torn_bytes) == (cut, size - 1)
    image.states.boot_id = ""
    unknown = Image()
    unknown.states.boot_id = ""
    await unknown.write_log(1)
    unknown.content(1)[-1] ^= 1
    assert await unknown.reasons() == []


async def write_sorted(image: Image, number: int, sizes: dict[int, int]) -> int:
    """Write a sorted file without entries; returns its end."""
    writer = SortedFileWriter(image.files, ME, number, 500 + number)
    await image.files.prepare()
    await writer.begin(sizes, 0)
    return await writer.finish()


async def test_sorted_files_of_the_manifest_are_found_in_its_order() -> None:
    image = Image()
    ends = {number: await write_sorted(image, number, {1: number, 2: 5}) for number in (9, 4, 6)}
    image.states.manifest = LogManifest(1, {9: ends[9], 4: ends[4]})
    await image.write_log(1)
    opened = await image.open()
    assert [
        (found.number, found.end, found.entry_bytes, found.age) for found in opened.sorted.values()
    ] == [(9, ends[9], 14, 1), (4, ends[4], 9, 2)]
    assert list(opened.sorted) == [9, 4]
    assert opened.data_files[9] == DataFile(SORTED_KIND, 9, 509, ends[9])
    assert (opened.damages, opened.highest_number) == ([], 9)
    assert 6 not in opened.data_files


async def test_missing_and_damaged_sorted_files_are_damage() -> None:
    image = Image()
    end = await write_sorted(image, 9, {1: 7})
    image.states.manifest = LogManifest(1, {9: end})
    await image.write_log(1)
    intact = bytes(image.content(9, SORTED_KIND))
    bad_head = [Damage(9, 0, end, "the head of a sorted file is damaged")]
    for at in (3, FILE_HEADER_BYTES + 3, FILE_HEADER_BYTES + GROUP_HEADER_BYTES + 9, end - 1):
        image.content(9, SORTED_KIND)[:] = intact
        image.content(9, SORTED_KIND)[at] ^= 1
        opened = await image.open()
        assert opened.damages == bad_head
        assert (opened.sorted[9].end, opened.sorted[9].entry_bytes) == (end, 0)
        is_header = at < FILE_HEADER_BYTES
        assert (opened.data_files[9] is None) == is_header
    image.content(9, SORTED_KIND)[:] = intact[:-1]
    assert await image.reasons() == bad_head
    del image.disk.files[file_path(SORTED_KIND, 9)]
    opened = await image.open()
    assert opened.damages == [Damage(9, 0, end, "a sorted file is missing")]
    assert (opened.sorted, 9 in opened.data_files) == ({}, False)


async def test_header_must_be_that_of_the_file_and_of_the_bookie() -> None:
    image = Image()
    await image.write_log(1)
    header = await read_header(image.files, LOG_KIND, 1, ME)
    assert header == FileHeader(LOG_KIND, 1, 1_001, 0, 0, 0, ME)
    with pytest.raises(ForeignDataError, match=r"b1@00000001, not to b2@00000002$"):
        await read_header(image.files, LOG_KIND, 1, BookieId("b2@00000002"))
    for kind, number in ((LOG_KIND, 2), (SORTED_KIND, 5)):
        image.disk.files[file_path(kind, number)] = image.content(1)
        assert await read_header(image.files, kind, number, ME) is None
    for number in (0, FILE_NUMBER_MAX + 1):
        with pytest.raises(ForeignDataError, match=f"file number {number} is not between"):
            await read_header(image.files, LOG_KIND, number, ME)
    image.disk.files[file_path(LOG_KIND, FILE_NUMBER_MAX)] = bytearray()
    assert await read_header(image.files, LOG_KIND, FILE_NUMBER_MAX, ME) is None


async def test_missing_marker_is_damage_also_after_a_crash_of_the_machine() -> None:
    """A cut log without its marker used to be whole after a crash (plan damage, seed 130)."""
    image = await three_logs()
    end = image.ends[3]
    reason = "the end marker is damaged or missing, so the log may have lost its end"
    for boot in ("boot-1", "boot-2", ""):
        assert await image.reasons(was_used=True, boot=boot) == [Damage(3, end, end, reason)]
    assert await image.reasons() == []
    await image.mark(3, end)
    assert await image.reasons(was_used=True) == []
