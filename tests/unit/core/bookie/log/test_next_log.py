"""The next log is prepared beside the current one, and begins with everything that changed."""

import asyncio
from collections.abc import Iterable
from random import Random

import pytest

from rhumbline.core.bookie.background_pace import BackgroundPace
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.ledger_records import LedgerRecord, LedgerRecords
from rhumbline.core.bookie.log import write_log
from rhumbline.core.bookie.log.commit_group import CommitGroup, Outbox
from rhumbline.core.bookie.log.file_set import FileSet, file_path
from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    LOG_KIND,
    decode_file_header,
    iterate_records,
)
from rhumbline.core.bookie.log.next_log import NextLog
from rhumbline.core.bookie.log.replay import scan_file
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError, DiskFailedError
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.turns import counted_turns
from rhumbline.tests.unit.core.bookie.bookie_world import (
    KEY,
    CountingSink,
    FixedClock,
    entry,
    lac_body,
    until,
)
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

ME = BookieId("b1@0000abcd")
NUMBER = 7
PATH = file_path(LOG_KIND, NUMBER)
NEW = PATH + ".new"
"""Its path before it has its name."""
SMALL = BookieConfig(log_file_bytes=1 << 14, tail_cache_bytes=0, boot_id="boot-1")
LEDGERS = 3_000
"""A snapshot of so many ledgers takes several slices."""


class World:
    """A next log on a disk that records what is done to it."""

    def __init__(self, records: Iterable[bytes] = (b"first", b"last")) -> None:
        self.disk = RecordingDisk()
        self.files = FileSet(self.disk, 0)
        self.log = NextLog(
            self.files,
            ME,
            NUMBER,
            99,
            reserved_bytes=1 << 20,
            snapshot=lambda: iter(records),
            pace=BackgroundPace(),
        )

    async def records(self) -> list[bytes]:
        """Return the records of the finished file."""
        header = decode_file_header(bytes(self.disk.files[PATH]), PATH)
        found: list[bytes] = []

        def on_group(_: int, body: bytes) -> None:
            found.extend(data for _, data, _ in iterate_records(body))

        scan = await scan_file(await self.disk.open(PATH), header, None, on_group)
        assert scan.damages == []
        return found


def group_of(*states: bytes, ledgers: Iterable[int] = ()) -> CommitGroup:
    """Return a group with an entry of each of the ledgers, and state records."""
    group = CommitGroup()
    for ledger_id in ledgers:
        group.append_entry(LedgerRecord(ledger_id, KEY), 0, -1, bytes(40), Outbox())
    for state in states:
        group.append_state(state)
    return group


def state_of_ledgers(ledgers: Iterable[int]) -> list[bytes]:
    return [LedgerRecord(ledger_id, KEY).encode() for ledger_id in ledgers]


async def test_header_is_written_when_everything_else_is_durable() -> None:
    world = World()
    await world.files.prepare()
    ends: list[bool] = []
    world.log.prepare(lambda: ends.append(world.log.is_prepared))
    await until(lambda: ends)
    assert ends == [True]
    with pytest.raises(CorruptionError):
        decode_file_header(bytes(world.disk.files[NEW]), NEW)
    world.log.note_group(group_of(b"a change", ledgers=[1]))
    world.disk.taken()
    file = await world.log.finish(None)
    assert file.number == NUMBER
    done = world.disk.taken("write", "write_durable", "sync", "rename", "sync_directory")
    assert done[-4:] == [
        ("sync", NEW),
        ("write_durable", NEW, 0),
        ("rename", NEW, PATH),
        ("sync_directory", "log"),
    ]
    assert await world.records() == [b"first", b"last", *state_of_ledgers([1]), b"a change"]


async def test_state_of_a_ledger_precedes_the_record_that_deletes_it() -> None:
    world = World()
    await world.files.prepare()
    world.log.prepare()
    world.log.note_group(group_of(b"tombstone of 2", ledgers=[1, 2]))
    world.log.note_states([b"carried"])
    await world.log.finish(None)
    changes = [*state_of_ledgers([1, 2]), b"tombstone of 2", b"carried"]
    assert await world.records() == [b"first", b"last", *changes]


async def test_many_changes_are_written_before_the_file_counts_as_prepared() -> None:
    world = World([b"snapshot"] * 2_000)
    await world.files.prepare()
    world.log.prepare()
    world.log.note_group(group_of(ledgers=range(5_000)))
    await until(lambda: world.log.is_prepared)
    size = len(world.disk.files[NEW])
    await world.log.finish(None)
    assert len(world.disk.files[PATH]) == size, "nothing was left but the header"
    assert await world.records() == [b"snapshot"] * 2_000 + state_of_ledgers(range(5_000))


async def test_changes_that_come_faster_than_they_are_written_are_left_for_the_end() -> None:
    world = World()
    await world.files.prepare()
    world.log.prepare()
    noted = 0
    while not world.log.is_prepared:
        if not world.log._ledgers:
            world.log.note_group(group_of(ledgers=range(noted, noted + 1_500)))
            noted += 1_500
        await asyncio.sleep(0)
    assert noted == 9 * 1_500
    size = len(world.disk.files[NEW])
    await world.log.finish(None)
    assert len(world.disk.files[PATH]) > size + 50_000, "the last changes were left"
    assert (await world.records())[2:] == state_of_ledgers(range(noted))


async def test_other_tasks_run_while_the_snapshot_is_encoded() -> None:
    world = World([b"snapshot"] * 10_000)
    await world.files.prepare()
    async with counted_turns() as turns:
        world.log.prepare()
        await world.log.prepared()
        assert turns.count >= 20


async def test_failure_of_the_preparation_is_raised_at_its_end() -> None:
    world = World()
    await world.files.prepare()
    world.disk.is_failing = True
    world.log.prepare()
    await until(lambda: world.log.is_prepared)
    with pytest.raises(DiskFailedError):
        await world.log.finish(None)


async def test_cancelled_file_has_neither_a_header_nor_a_name() -> None:
    world = World([b"snapshot"] * 10_000)
    await world.files.prepare()
    world.log.prepare()
    await until(lambda: NEW in world.disk.files)
    world.log.cancel()
    await until(lambda: world.log.is_prepared)
    assert not any(world.disk.files[NEW][:FILE_HEADER_BYTES])
    assert await world.files.numbers(LOG_KIND) == []
    await world.files.remove_unnamed(LOG_KIND)
    assert NEW not in world.disk.files


# --- with a storage -------------------------------------------------------------------------------


class Changes:
    """Random changes of a storage, each of which is durable before the next burst."""

    def __init__(self, storage: Storage, seed: int) -> None:
        self.storage = storage
        self.random = Random(seed)
        self.sink = CountingSink()
        self.added = 0
        self.next_entry: dict[int, int] = {}

    def create(self, ledger_id: int) -> None:
        self.storage.create_ledger(ledger_id, KEY, is_proven=True, metadata=b"m%d" % ledger_id)
        self.next_entry[ledger_id] = 0

    async def burst(self) -> None:
        """Make some changes, and wait until they are durable."""
        random, storage = self.random, self.storage
        for _ in range(random.randrange(1, 12)):
            ledger = random.choice(list(storage.states.ledgers.values()))
            kind = random.randrange(10)
            if kind < 5 and ledger.accepts_adds:
                number = self.next_entry[ledger.ledger_id]
                self.next_entry[ledger.ledger_id] += 1
                data = entry(ledger.ledger_id, number, bytes(random.randrange(100)))
                storage.add(ledger, data, self.sink)
                self.added += 1
            elif kind == 5:
                storage.fence(ledger, lambda error: None)
            elif kind == 6:
                storage.delete_ledger(ledger.ledger_id)
            elif kind == 7:
                storage.write_lac(ledger, lac_body(ledger.ledger_id, 2), lambda error: None)
            elif kind == 8:
                storage.refresh_copy(ledger, b"copy %d" % random.randrange(1_000))
            else:
                self.create(max(self.next_entry) + 1)
        await storage.write_manifest()
        assert self.sink.count == self.added

    def state(self) -> dict[str, object]:
        """Return what a restart must find."""
        return state_of(self.storage.states)


def state_of(states: LedgerRecords) -> dict[str, object]:
    return {
        "ledgers": {
            one.ledger_id: (one.is_fenced, one.is_proven, one.lac, one.lac_body)
            for one in states.ledgers.values()
        },
        "tombstones": set(states.tombstones),
        "copies": dict(states.copies),
    }


async def opened(disk: MemoryDisk) -> Storage:
    storage = Storage(Runtime(FixedClock(), Random(1)), disk, SMALL, ME)
    await storage.open()
    return storage


async def filled(disk: MemoryDisk, seed: int = 1) -> tuple[Storage, Changes]:
    """Return a storage whose log begins with the state of many ledgers, and is not full."""
    storage = await opened(disk)
    changes = Changes(storage, seed)
    for ledger_id in range(LEDGERS):
        changes.create(ledger_id)
    await storage.write_manifest()
    await changes.burst()
    assert storage.log._next is None
    assert storage.log.current.end > LEDGERS * 50
    return storage, changes


@pytest.fixture
def short_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a file end soon after its snapshot."""
    monkeypatch.setattr(write_log, "_SNAPSHOT_FACTOR", 1.05)


@pytest.mark.seeds(4)
@pytest.mark.usefixtures("short_files")
async def test_start_after_a_kill_finds_every_change_that_was_durable(seed: int) -> None:
    disk = MemoryDisk()
    storage, changes = await filled(disk, seed)
    kills: list[tuple[MemoryDisk, dict[str, object]]] = []
    first = storage.log.number
    while storage.log.number < first + 3:
        was_preparing = storage.log._next is not None
        await changes.burst()
        if was_preparing or storage.log._next is not None:
            kills.append((disk.copy(), changes.state()))
    assert len(kills) >= 10
    assert any(path.endswith(".new") for killed, _ in kills for path in killed.files)
    for killed, expected in kills:  # not in between, when the preparation would go on
        again = await opened(killed)
        assert not again.damages
        assert state_of(again.states) == expected
        assert not any(path.endswith(".new") for path in killed.files)
        await again.aclose()
    await storage.aclose()


@pytest.mark.usefixtures("short_files")
async def test_adds_are_acknowledged_while_the_next_log_is_prepared() -> None:
    storage, changes = await filled(MemoryDisk())
    number, during = storage.log.number, 0
    while storage.log.number == number:
        await changes.burst()
        during += storage.log.number == number and storage.log._next is not None
    assert during >= 3
    await storage.aclose()


async def test_file_grows_by_an_eighth_at_most_while_the_next_one_is_prepared() -> None:
    disk = MemoryDisk()
    storage = await opened(disk)
    changes = Changes(storage, 1)
    changes.create(1)
    await storage.write_manifest()
    number, limit = storage.log.number, max(SMALL.log_file_bytes, 16 * storage.log.current.end)
    ledger = storage.states.ledgers[1]
    held = asyncio.Event()
    original = disk.sync_directory

    async def sync_directory(path: str) -> None:
        await held.wait()
        await original(path)

    disk.sync_directory = sync_directory  # type: ignore[method-assign]
    for entry_id in range(limit // 500):
        data = entry(1, entry_id, bytes(1_000))
        storage.add(ledger, data, changes.sink)
        for _ in range(20):
            await asyncio.sleep(0)
    assert storage.log.number == number
    assert limit * 1.1 < storage.log.current.end < limit * 1.125 + 2_000
    assert changes.sink.count < limit // 500
    held.set()
    await until(lambda: changes.sink.count == limit // 500)
    assert storage.log.number > number
    await storage.aclose()


@pytest.mark.usefixtures("short_files")
async def test_log_that_fails_while_the_next_one_is_prepared_writes_nothing_more() -> None:
    disk = RecordingDisk()
    storage, changes = await filled(disk)
    while storage.log._next is None:
        await changes.burst()
    disk.is_failing = True
    with pytest.raises(DiskFailedError):
        await storage.write_manifest()
    disk.is_failing = False
    await asyncio.sleep(0)
    disk.taken()
    for _ in range(200):
        await asyncio.sleep(0)
    assert disk.taken("write", "write_durable", "sync") == []
    await storage.aclose()
