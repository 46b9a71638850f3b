"""A bookie reports what it does, and an operator may make it read-only."""

import asyncio
from functools import partial

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.life_cycle import BookieEvent, BookieState
from rhumbline.core.bookie.log.replay import Damage
from rhumbline.core.bookie.maintenance.scrubber import ScrubReport
from rhumbline.core.bookie.registration import registration_of
from rhumbline.core.protocol.errors import (
    ClosedError,
    ConfigurationError,
    InvariantBrokenError,
    MetadataUnavailableError,
    WrongClusterError,
)
from rhumbline.core.wire import v2
from rhumbline.core.wire.registration import Registration
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk


async def test_statistics_of_a_new_bookie_and_after_some_requests() -> None:
    async with one_bookie() as (_, bookie, wire):
        await wire.read(1, 0)  # the connection is made
        new = bookie.statistics()
        log_bytes = new.pop("log_bytes")
        assert new.pop("operations")["read"]["not_found"] == 1
        assert new.pop("operation")["read"]["count"] == 1
        assert log_bytes == bookie.storage.log.current.end
        assert new == {
            "bookie": bookie.bookie_id,
            "entries": 0,
            "bytes": 0,
            "syncs": 0,
            "ledgers": 0,
            "connections": 1,
            "parked_polls": 0,
            "pending_bytes": 0,
            "tail_cache_bytes": 0,
            "free_bytes": 1 << 40,
            "disk_bytes": 1 << 41,
            "read_only_below_bytes": 1 << 30,
            "reserve_below_bytes": 1 << 28,
            "maintenance_reserve_bytes": 5 << 18,
            "maintenance_reserve_missing_bytes": 0,
            "space": "enough",
            "space_short": False,
            "space_blocked": False,
            "space_exhausted": False,
            "space_obstacles": [],
            "maintenance_obstacles": 0,
            "garbage_files_removed": 0,
            "read_only": False,
            "registered": True,
            "sessions_lost": 0,
            "limbo": False,
            "limbo_reason": None,
            "restored_entries": 0,
            "missing_entries": 0,
            "damaged_ranges": 0,
            "sealed_logs": 0,
            "sorted_files": 0,
            "sorted_bytes": 0,
            "deleted_ledgers": 0,
            "ledgers_held_back": 0,
            "ledgers_returned": 0,
            "ledgers_surplus": 0,
            "repaired_entries": 0,
            "maintenance_failures": 0,
            "partial_frame_bytes": 0,
            "unsent_bytes": 0,
            "closed": {},
            "failure": None,
        }
        for number in range(3):
            assert await wire.add(entry(1, number)) == Code.OK
        other = await Wire.connect(bookie)
        await other.read(1, 0)
        figures = bookie.statistics()
        assert figures["operations"]["add"]["ok"] == figures["operation"]["add"]["count"] == 3
        size = len(entry(1, 0)) + 8
        assert (figures["entries"], figures["ledgers"], figures["connections"]) == (3, 1, 2)
        assert figures["bytes"] == figures["tail_cache_bytes"] >= 3 * size
        assert figures["log_bytes"] == log_bytes + figures["bytes"] + 44 * figures["syncs"]
        assert figures["syncs"] >= 3
        assert figures["pending_bytes"] == 0
        await other.aclose()


async def test_operator_makes_a_bookie_read_only_and_writable_again() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        bookie.set_read_only(True)
        assert (bookie.state, bookie.is_read_only) == (BookieState.READ_ONLY, True)
        assert await wire.add(entry(1, 1)) == Code.READ_ONLY
        assert await wire.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
        assert bookie.statistics()["read_only"]
        bookie.set_read_only(False)
        assert not bookie.is_read_only
        assert await wire.add(entry(1, 2)) == Code.OK
        assert "writable" in bookie.story().lower()


async def test_port_is_known_while_the_bookie_listens_and_is_used_once() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    bookie = await Bookie.open(world.runtime, disk, BookieConfig(), world.ledgers, world.directory)
    assert (bookie.bookie_id, bookie.region, bookie.state) == (
        bookie_id,
        "east",
        BookieState.STARTING,
    )
    with pytest.raises(ClosedError):
        _ = bookie.port
    assert not bookie.statistics()["registered"]
    taken = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = taken.sockets[0].getsockname()[1]
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
        await bookie.serve("127.0.0.1", port)
    taken.close()
    await bookie.aclose()
    await bookie.aclose()
    assert bookie.state is BookieState.CLOSED
    await world.aclose()


async def test_registration_names_the_addresses_for_each_viewer() -> None:
    config = BookieConfig(
        advertised_host="bookie.example",
        advertised_addresses=(("west", "10.0.0.1:4000"), ("north", "10.0.0.2:4001")),
    )
    async with one_bookie(config) as (world, bookie, _):
        registration = await world.directory.registration(bookie.bookie_id)
        assert (registration.host, registration.port) == ("bookie.example", bookie.port)
        assert registration.free_bytes == 1 << 40
        properties = dict(registration.properties)
        assert (properties["region"], properties["rack"]) == ("east", "r1")
        values = list(properties.values())
        assert "10.0.0.1:4000" in values
        assert "10.0.0.2:4001" in values


async def test_registration_has_the_place_the_space_and_the_holder_of_the_lock() -> None:
    config = BookieConfig(advertised_addresses=(("west", "10.0.0.1:4000"),))
    async with one_bookie(config) as (_, bookie, _):
        properties = {
            "region": "east",
            "rack": "r1",
            "free_bytes": "7",
            "address.west": "10.0.0.1:4000",
        }
        of = partial(
            registration_of,
            bookie._identity,
            config,
            host="10.0.0.9",
            port=4000,
            free_bytes=7,
            is_in_limbo=False,
        )
        assert of(holder="") == Registration(bookie.bookie_id, "10.0.0.9", 4000, properties)
        assert of(holder="lock-7").properties == {**properties, "holder": "lock-7"}


async def test_bookie_without_space_is_registered_as_read_only_from_the_start() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    await world.format(disk)
    config = BookieConfig(log_file_bytes=1 << 16, read_only_below_bytes=1 << 30)
    bookie = await Bookie.open(world.runtime, disk, config, world.ledgers, world.directory)
    disk.room = 1 << 29
    await bookie._space.check()
    assert bookie.state is BookieState.STARTING, "it is not served yet"
    await bookie.serve("127.0.0.1", 0)
    assert (bookie.state, bookie.service.accepts_recovery_adds) == (BookieState.READ_ONLY, True)
    assert await world.directory.writable() == []
    assert await world.directory.read_only() == [bookie.bookie_id]
    await bookie.aclose()
    await world.aclose()


async def test_tasks_of_a_bookie_are_named_after_their_work() -> None:
    async with one_bookie() as (_, bookie, _):
        names = {task.get_name() for task in bookie._tasks._tasks}
        own = {"free space", "scrub", "end of the log", "maintenance", "close idle connections"}
        assert names == {"registration", *own}


async def test_shutdown_ends_connections_tasks_and_timers() -> None:
    async with one_bookie(BookieConfig(log_file_bytes=1 << 16)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        partial = await Wire.connect(bookie)
        partial.send(v2.encode_add(KEY, entry(1, 1))[:20])
        while not bookie.statistics()["partial_frame_bytes"]:  # noqa: ASYNC110 - from outside
            await asyncio.sleep(0.001)
        await bookie.aclose()
        assert await wire.is_closed()
        figures = bookie.statistics()
        assert figures["closed"] == {"shutdown": 2}
        assert (figures["registered"], figures["partial_frame_bytes"]) == (False, 0)
        assert (len(bookie._tasks), bookie._tasks.is_closed) == (0, True)
        assert not bookie._server.is_serving()  # type: ignore[union-attr]
        await partial.aclose()


async def test_storage_that_cannot_be_opened_is_closed_again() -> None:
    world = World()
    await world.start()
    disk = RecordingDisk()
    await world.format(disk)
    bookie = await world.open(disk)
    await bookie.aclose()

    calls = 0

    async def fail() -> int:
        nonlocal calls
        calls += 1
        if calls == 1:
            return 1 << 40  # before anything is opened
        raise WrongClusterError("no space is known")

    disk.free_bytes = fail  # type: ignore[method-assign]
    disk.taken()
    with pytest.raises(WrongClusterError):
        await world.open(disk)
    closed = {operation[1] for operation in disk.taken("close")}
    assert {path for path in disk.files if path.startswith("log")} <= closed
    await world.aclose()


async def test_unclaimed_or_failed_storage_never_takes_adds() -> None:
    async with one_bookie() as (_, bookie, _):
        bookie._is_claimed = False
        with pytest.raises(InvariantBrokenError, match="an unclaimed storage is served"):
            bookie.set_read_only(True)
        bookie._is_claimed = True
        bookie.service.failure = ClosedError("the log failed")
        bookie._is_read_only_by_command = False
        with pytest.raises(InvariantBrokenError, match="a failed log takes adds"):
            bookie._enter(BookieEvent.ADMIT_ALL)
        bookie.service.failure = None


async def opened(config: BookieConfig | None = None) -> tuple[World, Bookie]:
    """Return a bookie that claimed its storage and listens nowhere, for virtual time."""
    world = World()
    await world.start()
    disk = MemoryDisk()
    await world.format(disk)
    config = config or BookieConfig(log_file_bytes=1 << 16)
    bookie = await Bookie.open(world.runtime, disk, config, world.ledgers, world.directory)
    await bookie._guard.claim(bookie.storage.log.durable_end, "")
    bookie._is_claimed = True
    return world, bookie


@pytest.mark.run_by(runner=run_jumping)
async def test_end_of_the_log_is_recorded_in_time_and_at_most_once_a_second() -> None:
    world, bookie = await opened()
    clock = asyncio.get_running_loop().time
    times: list[float] = []
    error: Exception | None = None

    async def record(end: int, limbo: str, *, is_final: bool = False) -> None:
        assert (end, limbo, is_final) == (bookie.storage.log.durable_end, "", False)
        times.append(round(clock() - start, 6))
        if error is not None:
            raise error

    bookie._guard.record = record  # type: ignore[method-assign]
    start = clock()
    recording = bookie._tasks.spawn(bookie._record_end(), "end of the log")
    await asyncio.sleep(70)
    assert times == [31, 62]
    bookie.storage.on_log_began()
    await asyncio.sleep(0.1)
    assert times == [31, 62, 70]
    bookie.storage.on_log_began()
    error = MetadataUnavailableError("no session")
    await asyncio.sleep(0.8)
    assert times == [31, 62, 70]
    await asyncio.sleep(1.1)
    assert times == [31, 62, 70, 71]
    error = WrongClusterError("another process has started a copy")
    assert bookie.service.failure is None
    await asyncio.sleep(32)
    assert times == [31, 62, 70, 71, 102]
    assert bookie.service.failure is error
    assert recording.done()
    await bookie.aclose()
    await world.aclose()


@pytest.mark.run_by(runner=run_jumping)
@pytest.mark.parametrize("has_failed", [False, True])
async def test_last_record_says_whether_the_shutdown_was_orderly(has_failed: bool) -> None:
    world, bookie = await opened()
    records: list[tuple[int, str, bool]] = []

    async def record(end: int, limbo: str, *, is_final: bool = False) -> None:
        records.append((end, limbo, is_final))

    bookie._guard.record = record  # type: ignore[method-assign]
    if has_failed:
        bookie.service.failure = ClosedError("the log failed")
    await bookie.aclose()
    await bookie.aclose()
    assert records == [(bookie.storage.log.durable_end, "", not has_failed)]
    await world.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_shutdown_waits_two_seconds_for_the_last_record() -> None:
    world, bookie = await opened()
    clock = asyncio.get_running_loop().time

    async def record(end: int, limbo: str, *, is_final: bool = False) -> None:
        await asyncio.sleep(3_600)

    bookie._guard.record = record  # type: ignore[method-assign]
    start = clock()
    await bookie.aclose()
    assert clock() - start == pytest.approx(2.0)
    assert bookie.state is BookieState.CLOSED
    await world.aclose()


@pytest.mark.run_by(runner=run_jumping)
@pytest.mark.parametrize("is_claimed", [False, True])
async def test_storage_that_was_not_claimed_is_not_recorded(is_claimed: bool) -> None:
    world, bookie = await opened()
    bookie._is_claimed = is_claimed
    calls: list[int] = []

    async def record(end: int, limbo: str, *, is_final: bool = False) -> None:
        calls.append(end)
        raise MetadataUnavailableError("no session")

    bookie._guard.record = record  # type: ignore[method-assign]
    await bookie.aclose()
    assert len(calls) == is_claimed
    await world.aclose()


@pytest.mark.run_by(runner=run_jumping)
async def test_files_are_scrubbed_at_intervals_and_damaged_ones_are_rewritten() -> None:
    world, bookie = await opened(BookieConfig(log_file_bytes=1 << 16, scrub_ms=5_000))
    reports = [ScrubReport() for _ in range(3)]
    reports[1].damages = [Damage(4, 1, 2, "rotten"), Damage(6, 1, 2, "rotten too")]
    times: list[float] = []
    retired: list[list[int]] = []

    async def walk() -> ScrubReport:
        times.append(round(asyncio.get_running_loop().time() - start, 6))
        return reports[len(times) - 1]

    bookie.scrubber.walk = walk  # type: ignore[method-assign]
    bookie.maintenance.retire_files = retired.append  # type: ignore[method-assign, assignment]
    start = asyncio.get_running_loop().time()
    with recorded_log() as log:
        bookie._tasks.spawn(bookie._scrub(), "scrub")
        await asyncio.sleep(16)
    assert (times, retired) == ([5, 10, 15], [[4, 6]])
    assert log.fields("damage found") == [
        {"bookie": bookie.bookie_id, "files": (4, 6), "reason": "rotten"}
    ]
    await bookie.aclose()
    await world.aclose()


async def test_the_registration_holds_the_location_of_the_settings() -> None:
    async with one_bookie(BookieConfig(advertised_host="machine-1")) as (world, bookie, _):
        registration = await world.directory.registration(bookie.bookie_id)
        assert registration.location == (None, "r1", "machine-1")
    config = BookieConfig(zone="z2", rack="r9", host="machine-2", advertised_host="10.0.0.1")
    async with one_bookie(config) as (world, bookie, _):
        registration = await world.directory.registration(bookie.bookie_id)
        assert registration.location == ("z2", "r9", "machine-2")
        (info,) = await world.directory.snapshot()
        assert info.path == ("east", "z2", "r9", "machine-2")
