"""A directory that was restored from an older copy is detected, and starts in limbo (BKE-25)."""

import asyncio

import pytest

from rhumbline.core.bookie import bookie as bookie_module
from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.identity import IDENTITY_FILE, decode_identity, read_identity
from rhumbline.core.bookie.log.end_marker import END_MARKER_PATH
from rhumbline.core.bookie.start.start_guard import RECORD_MS, StartGuard
from rhumbline.core.bookie.start.start_record import StartRecord, decode, encode
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    BadVersionError,
    DiskFailedError,
    MetadataUnavailableError,
    NoNodeError,
    WrongClusterError,
)
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


async def started() -> tuple[World, MemoryDisk, BookieId]:
    """Return a world with ledger 1, and the disk of its bookie, which was never opened."""
    world = World()
    await world.start()
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    await world.make_ledger(1, bookie_id)
    return world, disk, bookie_id


async def add(bookie: Bookie, first: int, end: int) -> None:
    wire = await Wire.connect(bookie)
    for number in range(first, end):
        assert await wire.add(entry(1, number)) == Code.OK
    await wire.aclose()


async def stored_record(world: World, bookie_id: BookieId) -> StartRecord:
    return decode((await world.store.get(Paths().start(bookie_id))).data)


async def record_nothing(bookie: Bookie) -> None:
    """Make the shutdown of a bookie look like a kill to the next start."""
    bookie._guard.record = _do_nothing  # type: ignore[method-assign]
    await bookie.aclose()


async def check_limbo(world: World, disk: MemoryDisk, words: str) -> None:
    """Open the disk: nothing is denied, no plain add is accepted, and that survives a restart."""
    bookie = await world.open(disk, is_backup=True)
    wire = await Wire.connect(bookie)
    assert await wire.read(1, 0) == (Code.OK, entry(1, 0))
    assert (await wire.read(1, 9))[0] == Code.IO
    assert await wire.fence(1, 9) == Code.IO
    assert await wire.add(entry(1, 9)) in (Code.IO, Code.FENCED)
    assert await wire.add(entry(1, 9), v2.FLAG_RECOVERY_ADD) == Code.OK
    await wire.aclose()
    assert words in str(bookie.statistics()["limbo_reason"])
    assert words in (await stored_record(world, bookie.bookie_id)).limbo
    await bookie.aclose()
    again = await world.open(disk, is_backup=True)
    assert again.storage.damages == []
    assert again.storage.states.limbo.is_active
    assert words in again.limbo_reason
    await again.aclose()


async def check_no_limbo(world: World, disk: MemoryDisk) -> None:
    bookie = await world.open(disk, is_backup=True)
    assert not bookie.storage.states.limbo.is_active
    assert bookie.limbo_reason == ""
    await bookie.aclose()


async def test_copy_from_before_the_last_start_is_in_limbo() -> None:
    """The copy denied what later starts had acknowledged."""
    world, disk, _ = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    await bookie.aclose()
    backup = disk.copy()
    bookie = await world.open(disk, is_backup=True)
    assert not bookie.storage.states.limbo.is_active
    await add(bookie, 3, 6)
    await bookie.aclose()
    await check_limbo(world, backup, "older copy")
    await world.aclose()


async def test_copy_from_before_the_first_start_is_in_limbo() -> None:
    world, disk, _ = await started()
    backup = disk.copy()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 1)
    await bookie.aclose()
    restored = await world.open(backup, is_backup=True)
    wire = await Wire.connect(restored)
    assert (await wire.read(1, 0))[0] == Code.IO
    assert await wire.fence(1, 0) == Code.IO
    await wire.aclose()
    await restored.aclose()
    await world.aclose()


async def test_copy_from_the_last_start_is_in_limbo_after_an_orderly_shutdown() -> None:
    world, disk, _ = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    backup = disk.copy()
    await add(bookie, 3, 6)
    await bookie.aclose()
    await check_limbo(world, backup, "the log ends at file 1")
    await world.aclose()


@pytest.mark.parametrize("is_older", [True, False])
async def test_end_of_the_log_is_recorded_while_the_bookie_runs(
    monkeypatch: pytest.MonkeyPatch, is_older: bool
) -> None:
    """A copy from before the last record is detected; what a kill leaves is not one."""
    monkeypatch.setattr(bookie_module, "RECORD_MS", 20)

    world, disk, bookie_id = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    older = disk.copy()
    await add(bookie, 3, 6)
    end = bookie.storage.log.durable_end
    for _ in range(500):
        await asyncio.sleep(0.01)
        if (await stored_record(world, bookie_id)).end >= end:
            break
    await add(bookie, 6, 9)
    killed = disk.copy()
    await record_nothing(bookie)
    if is_older:
        await check_limbo(world, older, "the log ends at file 1")
    else:
        await check_no_limbo(world, killed)
    await world.aclose()


async def _do_nothing(end: int, limbo: str, *, is_final: bool = False) -> None:
    pass


async def test_restored_files_from_the_last_start_are_in_limbo_after_a_kill() -> None:
    """The copy denied what was acknowledged between the last record of the end and the kill."""
    world, disk, _ = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    backup = disk.restored()
    await add(bookie, 3, 6)
    await record_nothing(bookie)
    await check_limbo(world, backup, "the directory is a copy")
    await world.aclose()


async def test_directory_that_was_moved_after_an_orderly_shutdown_is_current() -> None:
    world, disk, bookie_id = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    await bookie.aclose()
    assert (await stored_record(world, bookie_id)).is_final
    moved = disk.restored()
    bookie = await world.open(moved, is_backup=True)
    assert bookie.limbo_reason == ""
    assert not (await stored_record(world, bookie_id)).is_final
    await record_nothing(bookie)
    await check_no_limbo(world, moved)  # killed, and started where it is now
    await world.aclose()


async def test_lost_end_marker_is_no_evidence_of_a_copy() -> None:
    world, disk, _ = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    await record_nothing(bookie)
    await disk.remove(END_MARKER_PATH)
    await check_no_limbo(world, disk)
    await world.aclose()


async def test_end_of_the_log_is_recorded_when_a_log_file_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bookie_module, "_RECORD_PAUSE_MS", 1)

    world, disk, bookie_id = await started()
    bookie = await world.open(disk, BookieConfig(log_file_bytes=4 << 10), is_backup=True)
    first = (await stored_record(world, bookie_id)).end
    await add(bookie, 0, 400)
    for _ in range(500):
        await asyncio.sleep(0.01)
        if (await stored_record(world, bookie_id)).end >> 40 > first >> 40:
            break
    else:
        raise AssertionError("the end was not recorded before the regular time")
    await bookie.aclose()
    await world.aclose()


@pytest.mark.parametrize("is_written", [False, True], ids=["request lost", "reply lost"])
async def test_interrupted_start_is_continued_and_causes_no_limbo(
    monkeypatch: pytest.MonkeyPatch, is_written: bool
) -> None:
    world, disk, bookie_id = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    await bookie.aclose()
    write = world.directory.write_start

    async def write_or_fail(bookie_id: BookieId, data: bytes, expect: Version | None) -> Version:
        if is_written:
            await write(bookie_id, data, expect)
        raise MetadataUnavailableError("the process was killed here")

    for _ in range(3):
        interrupted = await Bookie.open(
            world.runtime, disk, bookie._config, world.ledgers, world.directory
        )
        with monkeypatch.context() as patch:
            patch.setattr(type(world.directory), "write_start", _static(write_or_fail))
            with pytest.raises(MetadataUnavailableError):
                await interrupted.serve("127.0.0.1", 0)
        intent = decode_identity(bytes(disk.files[IDENTITY_FILE]))
        await interrupted.aclose()
    assert intent.start == (4 if is_written else 2)
    await check_no_limbo(world, disk)
    assert (await stored_record(world, bookie_id)).start == (5 if is_written else 2)
    await world.aclose()


def _static(function: object) -> object:
    return staticmethod(function)  # type: ignore[arg-type]


async def test_copy_with_an_interrupted_start_is_older_once_another_copy_was_started() -> None:
    """Both copies have the same number of starts; the tokens differ."""
    world, disk, _ = await started()
    bookie = await world.open(disk, is_backup=True)
    await add(bookie, 0, 3)
    await bookie.aclose()
    other = disk.copy()
    interrupted = await Bookie.open(
        world.runtime, disk, bookie._config, world.ledgers, world.directory
    )
    await interrupted._guard._draw_token()
    await interrupted.aclose()
    bookie = await world.open(other, is_backup=True)
    await add(bookie, 3, 6)
    await bookie.aclose()
    await check_limbo(world, disk, "older copy")
    await world.aclose()


async def test_metadata_store_that_is_older_than_the_storage_is_refused() -> None:
    world, disk, bookie_id = await started()
    path = Paths().start(bookie_id)
    bookie = await world.open(disk, is_backup=True)
    await bookie.aclose()
    first = (await world.store.get(path)).data
    for _ in range(2):
        bookie = await world.open(disk, is_backup=True)
        await bookie.aclose()
    await world.store.put(path, first)
    with pytest.raises(WrongClusterError, match=r"started 3 times.* knows start 1 "):
        await world.open(disk, is_backup=True)
    await world.store.delete(path)
    with pytest.raises(WrongClusterError, match="knows no start"):
        await world.open(disk, is_backup=True)
    await world.aclose()


async def test_bookie_whose_copy_was_started_accepts_no_more_adds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bookie_module, "RECORD_MS", 20)

    world, disk, bookie_id = await started()
    bookie = await world.open(disk, is_backup=True)
    await world.store.put(
        Paths().start(bookie_id), encode(StartRecord(2, "feedfeedfeedfeed", 0, ""))
    )
    wire = await Wire.connect(bookie)
    assert await wire.add(entry(1, 0)) == Code.OK
    for _ in range(500):
        await asyncio.sleep(0.01)
        if bookie.service.failure is not None:
            break
    assert await wire.add(entry(1, 1)) == Code.IO
    await wire.aclose()
    await bookie.aclose()
    assert (await stored_record(world, bookie_id)).token == "feedfeedfeedfeed"
    await world.aclose()


async def test_late_reply_of_a_record_is_no_foreign_start() -> None:
    world, disk, bookie_id = await started()
    bookie = await world.open(disk, is_backup=True)
    record = await stored_record(world, bookie_id)
    later = encode(StartRecord(record.start, record.token, record.end + 1, ""))
    await world.store.put(Paths().start(bookie_id), later)
    await bookie._guard.record(record.end + 2, "")
    await bookie._guard.record(record.end + 3, "")
    assert (await stored_record(world, bookie_id)).end == record.end + 3
    await bookie.aclose()
    await world.aclose()


async def test_nothing_is_served_before_the_storage_is_claimed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A later start would not know of an ack that was sent before the claim."""
    world, disk, _ = await started()
    bookie = await Bookie.open(world.runtime, disk, BookieConfig(), world.ledgers, world.directory)
    gate = asyncio.Event()
    claim = bookie._guard.claim

    async def wait_and_claim(end: int, limbo: str) -> None:
        await gate.wait()
        await claim(end, limbo)

    monkeypatch.setattr(bookie._guard, "claim", wait_and_claim)
    serving = asyncio.ensure_future(bookie.serve("127.0.0.1", 0))
    await asyncio.sleep(0.05)
    early = await Wire.connect(bookie)
    assert await early.is_closed()
    await early.aclose()
    gate.set()
    await serving
    await add(bookie, 0, 1)
    await bookie.aclose()
    await world.aclose()


async def test_claim_that_another_process_has_overtaken_fails() -> None:
    world, disk, bookie_id = await started()
    bookie = await world.open(disk, is_backup=True)
    await bookie.aclose()
    late = await Bookie.open(world.runtime, disk, bookie._config, world.ledgers, world.directory)
    await world.store.put(
        Paths().start(bookie_id), encode(StartRecord(2, "feedfeedfeedfeed", 0, ""))
    )
    with pytest.raises(WrongClusterError, match="another process has started") as raised:
        await late.serve("127.0.0.1", 0)
    assert isinstance(raised.value.__cause__, BadVersionError)
    await late.aclose()
    await world.aclose()


async def guard_of(world: World, disk: MemoryDisk) -> StartGuard:
    """Return a guard that has compared the disk with the record of its starts."""
    guard = StartGuard(disk, world.directory, await read_identity(disk), world.runtime.random)
    await guard.check()
    return guard


def test_end_is_recorded_every_half_minute() -> None:
    assert RECORD_MS == 30_000


async def test_first_claim_numbers_the_start_and_draws_a_token() -> None:
    world, disk, bookie_id = await started()
    disk.files[END_MARKER_PATH] = bytearray()
    disk.identities[END_MARKER_PATH] = "2f.1"
    guard = await guard_of(world, disk)
    assert (guard.limbo_reason(0), guard.recorded_limbo) == (None, "")
    await guard.claim(3 << 40, "why")
    identity = guard.identity
    assert await read_identity(disk) == identity
    assert (identity.start, identity.was_opened, identity.previous_token) == (1, True, "")
    assert len(identity.token) == 16
    assert int(identity.token, 16) >= 0
    assert await stored_record(world, bookie_id) == StartRecord(
        1, identity.token, 3 << 40, "why", "2f.1"
    )
    assert guard.recorded_limbo == "why"
    second = await guard_of(world, disk)
    await second.claim(4 << 40, "")
    assert (second.identity.start, second.identity.previous_token) == (2, identity.token)
    assert (await stored_record(world, bookie_id)).token == second.identity.token
    await world.aclose()


async def test_short_tokens_are_filled_with_zeros(monkeypatch: pytest.MonkeyPatch) -> None:
    world, disk, _ = await started()
    guard = await guard_of(world, disk)
    bits: list[int] = []

    def getrandbits(count: int) -> int:
        bits.append(count)
        return 0xBEEF

    monkeypatch.setattr(world.runtime.random, "getrandbits", getrandbits)
    await guard.claim(0, "")
    assert (guard.identity.token, bits) == ("000000000000beef", [64])
    await world.aclose()


async def test_limbo_reason_names_the_starts_and_the_ends_of_the_log() -> None:
    world, disk, _ = await started()
    older = disk.copy()
    await (await guard_of(world, disk)).claim((3 << 40) + 17, "")
    same = await guard_of(world, disk)
    assert same.limbo_reason((3 << 40) + 17) is None
    assert same.limbo_reason((3 << 40) + 16) == (
        "the log ends at file 3, byte 16, but it was durable up to file 3, byte 17: the directory "
        "is an older copy, or it lost the end of its log"
    )
    assert (await guard_of(world, older)).limbo_reason(9 << 40) == (
        "the directory is an older copy: its last start is number 0, but start 1 came after it"
    )
    await world.aclose()


async def test_unchanged_record_is_not_written_again() -> None:
    world, disk, bookie_id = await started()
    guard = await guard_of(world, disk)
    await guard.claim(1, "")
    path = Paths().start(bookie_id)
    await guard.record(2, "why")
    version = (await world.store.get(path)).version
    await guard.record(2, "why")
    assert (await world.store.get(path)).version == version
    await guard.record(2, "why", is_final=True)
    assert (await stored_record(world, bookie_id)).is_final
    assert guard.recorded_limbo == "why"
    await guard.record(2, "why")
    assert not (await stored_record(world, bookie_id)).is_final
    await world.aclose()


async def test_record_of_another_start_or_a_deleted_one_is_never_replaced() -> None:
    world, disk, bookie_id = await started()
    guard = await guard_of(world, disk)
    await guard.claim(1, "")
    path = Paths().start(bookie_id)
    await world.store.put(path, encode(StartRecord(2, "feed", 0, "")))
    with pytest.raises(WrongClusterError, match=f"has started a copy of bookie {bookie_id}$"):
        await guard.record(2, "")
    assert (await stored_record(world, bookie_id)).token == "feed"
    await world.store.delete(path)
    with pytest.raises((WrongClusterError, NoNodeError)):
        await guard.record(3, "")
    await world.aclose()


async def test_marker_that_cannot_be_read_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    world, disk, bookie_id = await started()
    guard = await guard_of(world, disk)

    async def fail(path: str) -> str:
        raise DiskFailedError(f"{path}: I/O error")

    monkeypatch.setattr(disk, "file_identity", fail)
    await guard.claim(1, "")
    assert (await stored_record(world, bookie_id)).marker == ""
    assert (await guard_of(world, disk)).limbo_reason(1) is None
    await world.aclose()
