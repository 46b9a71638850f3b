"""The live rows of a file: all entries of held ledgers, the last copy of each."""

from array import array
from random import Random

import pytest

from rhumbline.core.bookie.index.index_file import DataFile
from rhumbline.core.bookie.ledger_records import boot_record
from rhumbline.core.bookie.log.file_set import file_path
from rhumbline.core.bookie.log.log_file import LogFile
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    FileHeader,
    encode_record,
)
from rhumbline.core.bookie.maintenance.duty_cycle import DutyCycle
from rhumbline.core.bookie.maintenance.live_rows import ROWS_AT_ONCE, LiveRows, is_ascending
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, FixedClock, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL

ME = BookieId("b1@00000001")
NUMBER = 90


class Pauses(DutyCycle):
    """A duty cycle that counts its pauses."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    async def pause(self) -> None:
        self.count += 1


class SealedLog:
    """A storage that holds ledgers 1 and 2, and a log file with the given groups."""

    async def write(self, *groups: list[bytes]) -> "SealedLog":
        self.disk = MemoryDisk()
        self.storage = Storage(Runtime(FixedClock(), Random(1)), self.disk, SMALL, ME)
        await self.storage.open()
        for ledger_id in (1, 2):
            self.storage.create_ledger(ledger_id, KEY, is_proven=True)
        file = await self.storage.files.create(LOG_KIND, NUMBER, 0)
        log = LogFile(file, NUMBER, 77)
        await log.write_header(FileHeader(LOG_KIND, NUMBER, 77, 0, 0, 0, ME))
        self.starts = []
        for group in groups:
            self.starts.append(log.end)
            await log.append(group, len(group), is_durable=True)
        self.starts.append(log.end)
        self.storage.data_files[NUMBER] = DataFile(LOG_KIND, NUMBER, 77, log.end)
        self.pauses = Pauses()
        return self

    async def read(self, slice_bytes: int = 1 << 20) -> LiveRows:
        live = LiveRows(self.storage, LOG_KIND, NUMBER, slice_bytes)
        await live.read(self.pauses)
        return live

    @property
    def content(self) -> bytearray:
        return self.disk.files[file_path(LOG_KIND, NUMBER)]

    def entries(self, live: LiveRows, ledger_id: int) -> list[bytes]:
        rows = live.ledgers[ledger_id]
        return [
            bytes(self.content[at - (NUMBER << OFFSET_BITS) :][:length])
            for at, length in zip(rows.positions, rows.lengths, strict=True)
        ]


def record(ledger_id: int, entry_id: int, payload: bytes = b"hello") -> bytes:
    return encode_record(entry(ledger_id, entry_id, payload))


async def test_entries_of_held_ledgers_are_live_and_state_records_are_not() -> None:
    state = encode_record(boot_record("boot-with-a-long-name"), is_state=True)
    log = await SealedLog().write(
        [state, record(1, 0), record(9, 0), record(2, 5), state],
        [record(1, 1), record(1, 4, b"longer"), state],
    )
    live = await log.read()
    assert sorted(live.ledgers) == [1, 2]
    assert log.entries(live, 1) == [entry(1, 0), entry(1, 1), entry(1, 4, b"longer")]
    assert log.entries(live, 2) == [entry(2, 5)]
    assert live.ledgers[1].ids.tolist() == [0, 1, 4]
    assert live.ledger_bytes == {
        1: 2 * len(entry(1, 0)) + len(entry(1, 4, b"longer")),
        2: len(entry(2, 5)),
    }
    assert (live.is_whole, live.unordered) == (True, set())
    assert live.slices == [(FILE_HEADER_BYTES, len(log.content))]


async def test_last_copy_of_an_entry_is_live() -> None:
    log = await SealedLog().write(
        [record(1, 5), record(1, 3, b"old"), record(2, 0), record(2, 1)],
        [record(1, 3, b"new"), record(1, 9), record(2, 1, b"again")],
    )
    live = await log.read()
    assert live.unordered == {1, 2}
    assert live.ledgers[1].ids.tolist() == [5, 3, 9]
    assert log.entries(live, 1) == [entry(1, 5), entry(1, 3, b"new"), entry(1, 9)]
    assert log.entries(live, 2) == [entry(2, 0), entry(2, 1, b"again")]
    assert live.ledger_bytes[2] == len(entry(2, 0)) + len(entry(2, 1, b"again"))


async def test_slices_are_as_long_as_their_limit_permits() -> None:
    log = await SealedLog().write(*[[record(1, at)] for at in range(6)])
    start, size = log.starts[0], log.starts[1] - log.starts[0]
    assert (await log.read(3 * size)).slices == [
        (start, start + 3 * size),
        (start + 3 * size, start + 6 * size),
    ]
    assert len((await log.read(3 * size - 1)).slices) == 3
    single = (await log.read(1)).slices
    assert single == list(zip(log.starts, log.starts[1:], strict=False))
    log.content[log.starts[2] + GROUP_HEADER_BYTES + 9] ^= 1
    live = await log.read()
    assert live.slices == [(start, log.starts[2]), (log.starts[3], log.starts[6])]
    assert not live.is_whole
    assert live.ledgers[1].ids.tolist() == [0, 1, 3, 4, 5]


async def test_file_whose_header_is_not_that_of_the_file_has_no_live_rows() -> None:
    log = await SealedLog().write([record(1, 0)])
    data_file = log.storage.data_files[NUMBER]
    for other in (
        data_file._replace(generation=78),
        data_file._replace(number=91),
        data_file._replace(kind=2),
        None,
    ):
        if other is None:
            del log.storage.data_files[NUMBER]
        else:
            log.storage.data_files[NUMBER] = other
        live = await log.read()
        assert (live.ledgers, live.slices, live.is_whole) == ({}, [], False)
    log.storage.data_files[NUMBER] = data_file
    assert (await log.read()).is_whole
    log.content[5] ^= 1
    live = await log.read()
    assert (live.ledgers, live.is_whole) == ({}, False)


async def test_many_entries_are_read_in_steps() -> None:
    count = 2 * ROWS_AT_ONCE + 1
    log = await SealedLog().write([record(1, at) for at in range(count)])
    live = await log.read()
    assert live.ledgers[1].ids.tolist() == list(range(count))
    assert live.unordered == set()
    assert log.pauses.count == 6, "three for parsing, three for ordering"
    ids = [*range(1, count), 0]
    log = await SealedLog().write([record(1, at) for at in ids])
    live = await log.read()
    assert live.ledgers[1].ids.tolist() == ids
    assert live.unordered == {1}
    ids = [*range(ROWS_AT_ONCE), ROWS_AT_ONCE - 1, *range(ROWS_AT_ONCE, 1_500)]
    log = await SealedLog().write([record(1, at) for at in ids])
    live = await log.read()
    assert live.unordered == {1}, "the step begins with a copy"
    assert live.ledgers[1].ids.tolist() == list(range(1_500))


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([], True), ([4], True), ([1, 2, 9], True), ([1, 1], False), ([2, 1], False)],
)
def test_ids_are_ascending_if_each_is_above_the_one_before(ids: list[int], expected: bool) -> None:
    assert is_ascending(array("q", ids)) is expected
