"""The write log makes groups durable one after the other, and stops for good when it fails."""

import asyncio
from collections.abc import Callable, Iterator

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index.index_file import DataFile
from rhumbline.core.bookie.ledger_records import (
    LedgerRecord,
    LedgerRecords,
    boot_record,
    limbo_cleared_record,
)
from rhumbline.core.bookie.log.commit_group import AddSink, CommitGroup, Outbox
from rhumbline.core.bookie.log.end_marker import END_MARKER_PATH, LogEnd, find_end_marker
from rhumbline.core.bookie.log.file_set import FileSet, file_path
from rhumbline.core.bookie.log.group_queue import CONTENDED_BYTES_MAX
from rhumbline.core.bookie.log.group_split import LARGE_LEDGER_BYTES
from rhumbline.core.bookie.log.log_file import LogFile
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    FileHeader,
    decode_file_header,
    iterate_records,
)
from rhumbline.core.bookie.log.replay import scan_file
from rhumbline.core.bookie.log.write_log import WriteLog
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    ClosedError,
    DiskFailedError,
    DiskFullError,
    InvariantBrokenError,
    RhumblineError,
)
from rhumbline.core.wire.entry import ENTRY_HEADER
from rhumbline.core.wire.v2 import ADD_KEY_BYTES
from rhumbline.tests.unit.core.bookie.bookie_world import until
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

ME = BookieId("b1@00000001")
FIRST, SECOND = file_path(LOG_KIND, 11), file_path(LOG_KIND, 12)
NEW_FIRST, NEW_SECOND = FIRST + ".new", SECOND + ".new"
"""Their paths before they have their names."""
LEDGER = LedgerRecord(1, bytes(20))
STATE = limbo_cleared_record(7)


class Sink(AddSink):
    """A sink that is only an identity here."""

    def deliver(self, outbox: Outbox) -> None:
        """Ignores the adds."""

    def reject(self, outbox: Outbox, error: RhumblineError) -> None:
        """Ignores the failure."""


class Owner:
    """An owner that notes all events; ``records`` is its snapshot."""

    def __init__(self) -> None:
        self.records = [boot_record("boot-1"), b"\x03snapshot"]
        self.number = 10
        self.durable: list[tuple[CommitGroup, int, bytes]] = []
        self.refused: list[tuple[CommitGroup, RhumblineError]] = []
        self.partly_refused: list[tuple[CommitGroup, RhumblineError]] = []
        self.loans: list[Callable[[], bool]] = []
        self.sealed: list[DataFile] = []
        self.failures: list[RhumblineError] = []

    def next_file_number(self) -> int:
        self.number += 1
        return self.number

    def next_generation(self) -> int:
        return 1_000 + self.number

    def snapshot(self) -> Iterator[bytes]:
        return iter(self.records)

    def group_durable(self, group: CommitGroup, position: int, body: bytes) -> None:
        self.durable.append((group, position, body))
        for callback in group.callbacks:
            callback(None)

    def group_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        self.refused.append((group, error))
        for callback in group.callbacks:
            callback(error)

    def adds_refused(self, group: CommitGroup, error: RhumblineError) -> None:
        self.partly_refused.append((group, error))
        for callback in group.callbacks:
            callback(None)

    async def lend_space(self) -> bool:
        return self.loans.pop()() if self.loans else False

    def file_sealed(self, data_file: DataFile) -> None:
        self.sealed.append(data_file)

    def log_failed(self, error: RhumblineError) -> None:
        self.failures.append(error)


class LogWorld:
    """An open log on a disk that records what is done to it."""

    def __init__(self, config: BookieConfig | None = None) -> None:
        self.disk = RecordingDisk()
        self.files = FileSet(self.disk, 0)
        self.owner = Owner()
        self.config = config or BookieConfig(log_file_bytes=1 << 20)
        self.log = WriteLog(self.files, self.config, ME, self.owner)

    async def open(self, previous: LogFile | None = None) -> "LogWorld":
        await self.files.prepare()
        await self.log.open(previous)
        self.disk.taken()
        return self

    def add(self, entry: bytes = bytes(100)) -> CommitGroup:
        """Adds an entry to the open group without starting the writer; returns the group."""
        group = self.log.open_group()
        group.append_entry(LEDGER, 0, -1, entry, group.outbox_of(Sink()))
        return group

    async def add_durably(self, entry: bytes = bytes(100)) -> None:
        count = len(self.owner.durable)
        self.add(entry)
        self.log.kick()
        await self.until_durable(count + 1)

    async def until_durable(self, count: int) -> None:
        """Wait until this number of groups is durable."""
        await until(lambda: len(self.owner.durable) >= count)

    async def records_of(self, number: int) -> list[tuple[bytes, bool]]:
        """Return (bytes, is a state record) of all records of an intact log file."""
        path = file_path(LOG_KIND, number)
        header = decode_file_header(bytes(self.disk.files[path]), path)
        found: list[tuple[bytes, bool]] = []
        file = await self.disk.open(path)

        def on_group(_: int, body: bytes) -> None:
            found.extend((data, is_state) for _, data, is_state in iterate_records(body))

        scan = await scan_file(file, header, None, on_group)
        assert scan.torn_bytes == 0
        return found


async def until_idle() -> None:
    """Let other tasks run until nothing is left to do."""
    for _ in range(50):
        await asyncio.sleep(0)


async def test_file_begins_with_a_durable_snapshot_before_it_is_used() -> None:
    world = LogWorld()
    assert world.log.durable_end == 0
    await world.files.prepare()
    world.disk.taken()
    await world.log.open(None)
    end = world.log.current.end
    assert world.disk.taken("create", "write", "write_durable", "sync", "sync_directory") == [
        ("create", END_MARKER_PATH, 0),
        ("write", END_MARKER_PATH, 0),
        ("sync_directory", ""),
        ("create", NEW_FIRST, 1 << 20),
        ("write", NEW_FIRST, FILE_HEADER_BYTES),
        ("sync", NEW_FIRST),
        ("write_durable", NEW_FIRST, 0),
        ("sync_directory", "log"),
        ("write_durable", END_MARKER_PATH, 512),
    ]
    header = decode_file_header(bytes(world.disk.files[FIRST]), FIRST)
    assert header == FileHeader(LOG_KIND, 11, 1_011, 0, 0, 0, ME)
    assert await world.records_of(11) == [(record, True) for record in world.owner.records]
    assert (await find_end_marker(world.disk, ME)).end == LogEnd(11, end, 1_011)
    assert (world.log.number, world.log.durable_end) == (11, 11 << OFFSET_BITS | end)
    assert (world.log.written_bytes, world.log.sync_count) == (end, 0)
    await world.log.aclose()


async def test_file_after_another_names_its_end_and_seals_it() -> None:
    world = await LogWorld().open()
    await world.add_durably(b"entry")
    previous = world.log.current
    end, crc = previous.end, previous.last_crc
    world.disk.files[FIRST] += b"torn"
    again = WriteLog(world.files, world.config, ME, world.owner)
    world.disk.taken()
    await again.open(previous)
    operations = world.disk.taken("create", "write", "write_durable", "sync", "truncate")
    seal = ("write_durable", FIRST, end)
    assert operations[-3:] == [("truncate", FIRST, end), ("sync", FIRST), seal]
    assert operations.index(("sync", NEW_SECOND)) < operations.index(seal)
    header = decode_file_header(bytes(world.disk.files[SECOND]), SECOND)
    assert header[3:6] == (11, end, crc)
    states = LedgerRecords()
    states.apply((await world.records_of(11))[-1][0])
    assert states.sealed_for == 12
    assert world.owner.sealed == [], "the owner knows the older logs"
    await again.aclose()


async def test_each_group_is_durable_before_it_is_reported() -> None:
    world = await LogWorld().open()
    start = world.log.current.end
    written = world.log.written_bytes
    gate = world.disk.gate = asyncio.Event()
    first = world.add(b"one")
    assert world.log.pending_bytes == 11
    world.log.kick()
    await until(lambda: world.disk.gated_bytes)
    second = world.add(b"second")
    world.add(b"third")
    assert second is not first
    assert world.log.group is second
    world.log.kick()
    assert world.log.pending_bytes == 14 + 13
    for _ in range(20):
        await asyncio.sleep(0)
    padding = world.config.log_file_bytes // 16
    assert world.disk.gated_bytes == GROUP_HEADER_BYTES + 11 + padding, "one group is in flight"
    assert world.owner.durable == []
    world.disk.gate = None
    gate.set()
    await until(lambda: len(world.owner.durable) == 2)
    bodies = [b"".join(group.buffers) for group in (first, second)]
    position = 11 << OFFSET_BITS | start + GROUP_HEADER_BYTES
    assert world.owner.durable == [
        (first, position, bodies[0]),
        (second, position + 11 + GROUP_HEADER_BYTES, bodies[1]),
    ]
    assert world.log.pending_bytes == 0
    assert world.log.sync_count == 2
    assert world.log.written_bytes == written + 2 * GROUP_HEADER_BYTES + 11 + 27
    assert [done[0] for done in world.disk.taken("write_durable", "write")] == [
        "write_durable",
        "write",
        "write_durable",
        "write",
    ]
    marker = LogEnd(11, world.log.current.end, 1_011)
    assert (await find_end_marker(world.disk, ME)).end == marker
    await world.log.aclose()


async def test_full_group_is_closed_and_written_before_the_next() -> None:
    by_count = LogWorld(BookieConfig(group_count_max=2))
    by_bytes = LogWorld(BookieConfig(group_bytes_max=2 * 108))
    for world in (by_count, by_bytes):
        await world.open()
        groups = [world.add() for _ in range(5)]
        assert groups[0] is groups[1]
        assert groups[2] is groups[3] is not groups[0]
        assert groups[4] is world.log.group
        assert [group.count for group in groups[::2]] == [2, 2, 1]
        assert world.log.pending_bytes == 5 * 108
        world.log.kick()
        await world.until_durable(3)
        assert [found[0] for found in world.owner.durable] == groups[::2]
        assert world.log.pending_bytes == 0
        await world.log.aclose()


def add_of(world: LogWorld, ledger: LedgerRecord, size: int) -> CommitGroup:
    """Add an entry to the open group, as a connection does; return the group."""
    group = world.log.open_group()
    entry = ENTRY_HEADER.pack(ledger.ledger_id, 0, -1, size).ljust(size, b"x")
    outbox = group.outbox_of(Sink())
    group.append_entry(ledger, 0, -1, entry, outbox)
    outbox.adds.append(entry[:ADD_KEY_BYTES])
    return group


async def test_small_ledger_does_not_wait_for_the_bytes_of_a_large_one_in_its_group() -> None:
    world = await LogWorld().open()
    large_bytes = 2 * LARGE_LEDGER_BYTES
    gate = world.disk.gate = asyncio.Event()
    add_of(world, LEDGER, large_bytes)
    add_of(world, LedgerRecord(2, bytes(20)), 100)
    pending_bytes = world.log.pending_bytes
    world.log.kick()
    await until(lambda: world.disk.gated_bytes)
    assert world.disk.gated_bytes < large_bytes, "the small ledger is written first"
    assert world.log.pending_bytes == pending_bytes - 108
    later = add_of(world, LedgerRecord(3, bytes(20)), 100)
    world.log.kick()
    world.disk.gate = None
    gate.set()
    await until(lambda: len(world.owner.durable) == 3)
    groups = [group for group, _, _ in world.owner.durable]
    assert [[add[0].ledger_id for add in group.adds] for group in groups] == [[2], [1], [3]]
    assert groups[2] is later, "large ledgers have their turn before the next group"
    assert world.log.pending_bytes == 0
    sizes = [len(data) for data, _ in await world.records_of(11)][-3:]
    assert sizes == [100, large_bytes, 100]
    await world.log.aclose()


async def test_fence_is_durable_after_the_large_adds_before_it() -> None:
    world = await LogWorld().open()
    gate = world.disk.gate = asyncio.Event()
    add_of(world, LEDGER, 2 * LARGE_LEDGER_BYTES)
    add_of(world, LedgerRecord(2, bytes(20)), 100)
    world.log.kick()
    await until(lambda: world.disk.gated_bytes)
    outcomes: list[RhumblineError | None] = []
    durable_before: list[int] = []

    def on_durable(error: RhumblineError | None) -> None:
        outcomes.append(error)
        durable_before.append(len(world.owner.durable))

    world.log.append_state(STATE, on_durable)
    world.disk.gate = None
    gate.set()
    await until(lambda: outcomes)
    assert (outcomes, durable_before) == ([None], [3])
    records = [(len(data), is_state) for data, is_state in await world.records_of(11)]
    assert records[-3:] == [(100, False), (2 * LARGE_LEDGER_BYTES, False), (len(STATE), True)]
    await world.log.aclose()


async def test_groups_are_smaller_while_large_adds_wait() -> None:
    world = await LogWorld().open()
    assert world.log.group_bytes_max == world.config.group_bytes_max
    gate = world.disk.gate = asyncio.Event()
    add_of(world, LEDGER, 2 * LARGE_LEDGER_BYTES)
    add_of(world, LedgerRecord(2, bytes(20)), 100)
    world.log.kick()
    await until(lambda: world.disk.gated_bytes)
    assert world.log.group_bytes_max == CONTENDED_BYTES_MAX
    world.disk.gate = None
    gate.set()
    await until(lambda: len(world.owner.durable) == 2)
    assert world.log.group_bytes_max == world.config.group_bytes_max
    await world.log.aclose()


async def test_large_ledger_that_finds_no_space_does_not_refuse_the_small_one() -> None:
    world = await LogWorld().open()
    world.disk.room = 100_000
    add_of(world, LEDGER, 2 * LARGE_LEDGER_BYTES)
    add_of(world, LedgerRecord(2, bytes(20)), 100)
    world.log.kick()
    await until(lambda: world.owner.refused)
    outcomes = [world.owner.durable[0][0], world.owner.refused[0][0]]
    assert [[add[0].ledger_id for add in group.adds] for group in outcomes] == [[2], [1]]
    assert (len(world.owner.durable), len(world.owner.refused)) == (1, 1)
    await world.log.aclose()


async def test_lazy_state_is_written_after_a_short_time_and_an_urgent_one_at_once() -> None:
    world = await LogWorld().open()
    outcomes: list[RhumblineError | None] = []
    world.log.append_state(STATE, outcomes.append)
    await until(lambda: outcomes)
    assert world.log.sync_count == 1
    loop = asyncio.get_running_loop()
    started = loop.time()
    world.log.append_state(STATE, outcomes.append, is_urgent=False)
    world.log.append_state(STATE, is_urgent=False)
    for _ in range(20):
        await asyncio.sleep(0)
    assert world.log.sync_count == 1
    await until(lambda: len(outcomes) == 2)
    assert loop.time() - started >= 0.045
    assert (outcomes, world.log.sync_count) == ([None, None], 2)
    world.log.append_state(STATE, outcomes.append, is_urgent=False)
    await world.add_durably()
    assert len(outcomes) == 3, "it is written with the next records"
    await asyncio.sleep(0.06)
    assert world.log.sync_count == 3, "nothing is left for the timer"
    await world.log.aclose()


async def test_lazy_state_that_arrives_during_a_write_is_written_soon_after() -> None:
    world = await LogWorld().open()
    gate = world.disk.gate = asyncio.Event()
    world.add()
    world.log.kick()
    await until(lambda: world.disk.gated_bytes)
    outcomes: list[RhumblineError | None] = []
    world.log.append_state(STATE, outcomes.append, is_urgent=False)
    world.disk.gate = None
    gate.set()
    await until(lambda: outcomes)
    assert outcomes == [None]
    assert world.log.sync_count == 2
    await world.log.aclose()


async def test_closing_writes_what_waits_and_frees_the_reserved_space() -> None:
    world = await LogWorld().open()
    outcomes: list[RhumblineError | None] = []
    world.log.append_state(STATE, outcomes.append, is_urgent=False)
    world.disk.taken()
    await world.log.aclose()
    end = world.log.current.end
    assert outcomes == [None]
    assert world.disk.taken("truncate", "sync", "write_durable", "close")[1:] == [
        ("truncate", FIRST, end),
        ("sync", FIRST),
        ("write_durable", END_MARKER_PATH, 512),
        ("close", END_MARKER_PATH),
    ]
    assert (await find_end_marker(world.disk, ME)).end == LogEnd(11, end, 1_011)
    assert isinstance(world.log.failure, ClosedError)
    world.log.append_state(STATE, outcomes.append)
    world.log.append_state(STATE)
    assert isinstance(outcomes[-1], ClosedError)
    assert len(outcomes) == 2
    world.disk.taken()
    world.log.kick()
    await world.log.aclose()
    await asyncio.sleep(0)
    assert world.disk.taken() == []
    assert world.owner.failures == []


async def test_log_that_was_never_open_can_be_closed() -> None:
    world = LogWorld()
    await world.log.aclose()
    assert isinstance(world.log.failure, ClosedError)


@pytest.mark.parametrize("is_by_rows", [False, True])
async def test_full_file_is_followed_by_another(is_by_rows: bool) -> None:
    size = 1 << 20 if is_by_rows else 4_096
    world = LogWorld(BookieConfig(log_file_bytes=size, index_rows_max=30 if is_by_rows else 10**6))
    await world.open()
    group_bytes = 208 + GROUP_HEADER_BYTES
    for number in (11, 12):
        start = world.log.current.end
        at_least = max(16 * start, 0 if is_by_rows else size)
        needed = max(-(-(at_least - start) // group_bytes), 30 if is_by_rows else 0)
        while world.log.number == number:
            await world.add_durably(bytes(200))
            await until_idle()
        count, rest = divmod(world.owner.sealed[-1].end - start, group_bytes)
        assert (count, rest) == (needed + 1, 0), "the last group began to prepare the next file"
        assert world.owner.sealed[-1][:3] == (LOG_KIND, number, 1_000 + number)
        states = LedgerRecords()
        states.apply((await world.records_of(number))[-1][0])
        assert states.sealed_for == number + 1
    await world.add_durably(bytes(200))
    assert world.owner.durable[-1][1] == 13 << OFFSET_BITS | world.log.current.end - 208
    await world.log.aclose()


async def test_next_group_begins_a_file_on_request() -> None:
    world = await LogWorld().open()
    await world.add_durably()
    world.log.roll_next()
    await world.add_durably()
    await world.add_durably()
    assert world.log.number == 12
    assert [found.number for found in world.owner.sealed] == [11]
    await world.log.aclose()


async def test_snapshot_is_written_in_several_groups() -> None:
    world = LogWorld()
    world.owner.records = [bytes([at]) * ((30 << 10) - 8) for at in range(12)]
    await world.open()
    header = decode_file_header(bytes(world.disk.files[FIRST]), FIRST)
    sizes: list[int] = []
    await scan_file(
        await world.disk.open(FIRST), header, None, lambda _, body: sizes.append(len(body))
    )
    assert sizes == [5 * 30 << 10, 5 * 30 << 10, 2 * 30 << 10]
    assert [data[0] for data, _ in await world.records_of(11)] == list(range(12))
    await world.log.aclose()
    exact = LogWorld()
    exact.owner.records = [bytes((128 << 10) - 8)]
    await exact.open()
    assert exact.log.current.end == FILE_HEADER_BYTES + GROUP_HEADER_BYTES + (128 << 10)
    await exact.log.aclose()


async def test_group_without_space_is_refused_and_its_states_are_kept() -> None:
    world = await LogWorld().open()
    await world.add_durably(b"entry")
    end = world.log.current.end
    outcomes: list[RhumblineError | None] = []
    world.disk.room = 30
    group = world.log.open_group()
    world.log.append_state(STATE, outcomes.append)
    await until(lambda: outcomes)
    assert isinstance(outcomes[0], DiskFullError)
    assert [found[0] for found in world.owner.refused] == [group]
    assert world.log.failure is None
    assert len(world.disk.files[FIRST]) == end, "its bytes were removed"
    world.disk.room = None
    await world.add_durably(b"later")
    records = await world.records_of(11)
    assert records[2:] == [(b"entry", False), (STATE, True), (b"later", False)]
    await world.add_durably(b"last")
    assert (await world.records_of(11))[5:] == [(b"last", False)], "carried once"
    assert world.log.sync_count == 3
    await world.log.aclose()


async def test_states_of_a_group_without_space_are_written_in_lent_space() -> None:
    """A bookie on a full disk must record a fence, or nothing on it can be deleted."""
    world = await LogWorld().open()
    await world.add_durably(b"entry")
    outcomes: list[RhumblineError | None] = []

    def lend(room: int) -> bool:
        world.disk.room = room
        return True

    world.owner.loans = [lambda: lend(1_000), lambda: lend(20)]
    world.disk.room = 30
    group = world.add(b"refused")
    world.log.append_state(STATE, outcomes.append)
    await until(lambda: outcomes)
    assert outcomes == [None]
    assert world.owner.loans == [], "one loan was not enough"
    assert [found[0] for found in world.owner.partly_refused] == [group]
    assert world.owner.refused == []
    assert (await world.records_of(11))[2:] == [(b"entry", False), (STATE, True)]
    world.disk.room = None
    await world.add_durably(b"later")
    assert (await world.records_of(11))[4:] == [(b"later", False)], "nothing is carried"
    await world.log.aclose()


async def test_without_space_for_another_file_the_old_one_continues_for_a_while() -> None:
    world = LogWorld(BookieConfig(log_file_bytes=1 << 16))
    await world.open()
    await world.add_durably(bytes(1 << 16))
    sealed = world.log.current
    world.disk.full_paths.add(NEW_SECOND)
    world.disk.taken()
    await world.add_durably(b"entry")
    await until_idle()
    assert ("close", NEW_SECOND) in world.disk.taken(), "an open file would keep its space"
    end = sealed.end
    assert world.log.current is sealed
    assert world.owner.sealed == []
    assert not {SECOND, NEW_SECOND} & set(world.disk.files)
    assert (await find_end_marker(world.disk, ME)).end == LogEnd(11, sealed.end, 1_011)
    assert (world.log._roll_at, world.log._roll_at_least) == (end + (1 << 12),) * 2
    numbers = []
    while world.log.current is sealed:
        numbers.append(sealed.end)
        await world.add_durably(bytes(500))
        await until_idle()
    assert numbers[-2] < end + (1 << 12) <= numbers[-1]
    assert world.log.number == 13
    header = decode_file_header(bytes(world.disk.files[file_path(LOG_KIND, 13)]), "13")
    assert header[3:5] == (11, world.owner.sealed[0].end)
    await world.log.aclose()


async def test_file_is_begun_without_reserved_space_on_a_nearly_full_disk() -> None:
    world = LogWorld(BookieConfig(log_file_bytes=1 << 20))
    world.disk.room = 50_000
    await world.files.prepare()
    world.disk.taken()
    await world.log.open(None)
    assert world.disk.taken("create")[1:] == [
        ("create", NEW_FIRST, 1 << 20),
        ("create", NEW_FIRST, 0),
    ]
    await world.log.aclose()


async def test_open_without_space_leaves_no_file_and_the_marker_of_the_old_one() -> None:
    world = await LogWorld().open()
    await world.add_durably()
    previous = world.log.current
    marker = (await find_end_marker(world.disk, ME)).end
    again = WriteLog(world.files, world.config, ME, world.owner)
    world.disk.full_paths.add(NEW_SECOND)
    with pytest.raises(DiskFullError):
        await again.open(previous)
    assert not {SECOND, NEW_SECOND} & set(world.disk.files)
    assert again.durable_end == 0
    assert (await find_end_marker(world.disk, ME)).end == marker
    world.disk.full_paths.clear()
    world.disk.full_paths.add(FIRST)
    again = WriteLog(world.files, world.config, ME, world.owner)
    with pytest.raises(DiskFullError):
        await again.open(previous)  # there is no space for the seal of the old file
    assert file_path(LOG_KIND, 13) not in world.disk.files
    assert again.durable_end == 0
    assert (await find_end_marker(world.disk, ME)).end == marker
    fresh = LogWorld()
    fresh.disk.full_paths.add(NEW_FIRST)
    await fresh.files.prepare()
    with pytest.raises(DiskFullError):
        await fresh.log.open(None)
    assert not {FIRST, NEW_FIRST} & set(fresh.disk.files)


@pytest.mark.parametrize("is_in_flight", [False, True])
async def test_failed_write_refuses_everything_for_good(is_in_flight: bool) -> None:
    world = await LogWorld(BookieConfig(group_count_max=1)).open()
    groups = [world.add() for _ in range(3)]
    gate = world.disk.gate = asyncio.Event()
    world.log.kick()
    if is_in_flight:
        await until(lambda: world.disk.gated_bytes)
    world.disk.is_failing = True
    world.disk.gate = None
    gate.set()
    await until(lambda: world.owner.failures)
    (failure,) = world.owner.failures
    assert isinstance(failure, DiskFailedError)
    assert world.log.failure is failure
    assert world.owner.refused == [(group, failure) for group in groups]
    assert (world.owner.durable, world.log.pending_bytes) == ([], 0)
    outcomes: list[RhumblineError | None] = []
    world.log.append_state(STATE, outcomes.append)
    assert outcomes == [failure]
    world.disk.is_failing = False
    world.disk.taken()
    world.log.kick()
    await world.log.aclose()
    assert world.disk.taken() == [("close", END_MARKER_PATH)], "nothing is written any more"
    assert world.log.failure is failure


async def test_error_of_the_program_fails_the_log_too() -> None:
    world = await LogWorld().open()

    def broken(group: CommitGroup, position: int, body: bytes) -> None:
        raise ValueError("broken")

    world.owner.group_durable = broken  # type: ignore[method-assign]
    world.add()
    world.log.kick()
    await until(lambda: world.owner.failures)
    (failure,) = world.owner.failures
    assert isinstance(failure, InvariantBrokenError)
    assert isinstance(failure.__cause__, ValueError)
    assert world.log.failure is failure
    await world.log.aclose()


async def test_another_file_is_tried_again_after_a_sixteenth_of_a_file() -> None:
    world = LogWorld(BookieConfig(log_file_bytes=4_100))
    await world.open()
    await world.add_durably()
    end = world.log.current.end
    world.disk.full_paths.add(NEW_SECOND)
    world.log.roll_next()
    await world.add_durably(b"entry")
    assert repr(world.log._roll_at) == repr(end + 256)
    await world.log.aclose()
