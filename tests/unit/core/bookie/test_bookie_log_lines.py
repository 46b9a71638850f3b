"""Each rare transition of a bookie has its log line."""

import asyncio
from collections.abc import Callable

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

FLOOD = 500


async def until(is_reached: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_reached():  # noqa: ASYNC110 - observed from outside
            await asyncio.sleep(0.01)


async def test_a_life_without_faults() -> None:
    with recorded_log() as log:
        async with one_bookie() as (_, bookie, wire):
            assert await wire.add(entry(1, 0)) == Code.OK
            bookie.set_read_only(True)
            bookie.set_read_only(False)
            assert await wire.fence(1) == Code.OK
            assert await wire.fence(1) == Code.OK
    assert [e for e in log.events(bookie=bookie.bookie_id) if e != "bookie registered"] == [
        "bookie writable",
        "bookie read-only",
        "bookie writable",
        "ledger fenced",
        "bookie closing",
        "bookie closed",
    ]
    assert log.fields("bookie read-only")[0]["reason"] == "by command"
    assert log.fields("ledger fenced") == [{"bookie": bookie.bookie_id, "ledger": 1}]


async def test_nothing_is_logged_for_adds_and_reads() -> None:
    async with one_bookie() as (_, _, wire):
        with recorded_log() as log:
            for number in range(50):
                assert await wire.add(entry(1, number)) == Code.OK
                assert (await wire.read(1, number))[0] == Code.OK
    assert log.events() == []


async def test_a_full_disk_and_the_return_of_space() -> None:
    disk = MemoryDisk()
    config = BookieConfig(
        log_file_bytes=1 << 16,
        space_check_ms=10,
        read_only_below_bytes=200_000,
        reserve_below_bytes=100_000,
    )
    async with one_bookie(config, disk) as (_, bookie, _):
        with recorded_log("rhumbline.core.bookie.bookie") as log:
            for room in (150_000, 50_000, None):
                disk.room = room
                await bookie._space.check()
    assert log.events() == ["bookie read-only", "bookie full", "bookie writable"]
    assert log.fields("bookie read-only")[0]["reason"] == "little free disk space"


async def test_a_failed_disk() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, bookie, wire):
        with recorded_log("rhumbline.core.bookie.bookie") as log:
            disk.is_failing = True
            wire.send(v2.encode_add(KEY, entry(1, 0)))
            assert await wire.is_closed()
            disk.is_failing = False
    assert log.events() == ["bookie failed"]
    assert log.fields("bookie failed")[0]["error"] == (
        f"{type(bookie.service.failure).__name__}: {bookie.service.failure}"
    )


async def test_a_lost_registration() -> None:
    config = BookieConfig(log_file_bytes=1 << 20, registration_retry_ms=10)
    async with one_bookie(config) as (world, bookie, _):
        keeper = bookie._registrations._keepers[0]
        assert keeper is not None and keeper._session is not None
        with recorded_log("rhumbline.core.bookie.registration") as log:
            world.store.expire_session(keeper._session)
            await until(lambda: len(log.events()) == 2)
            assert log.events() == ["registration lost", "bookie registered"]
            assert log.fields("bookie registered")[0]["mode"] == "writable"


async def test_a_flood_of_malformed_frames_has_one_line() -> None:
    async with one_bookie() as (_, bookie, _):
        with recorded_log() as log:
            for _ in range(FLOOD):
                wire = await Wire.connect(bookie)
                wire.send((4).to_bytes(4, "big") + b"\x07abc")
                assert await wire.is_closed()
                await wire.aclose()
            assert log.events() == ["malformed request"]
            bookie.service._log_limit._interval_s = 0.0  # as if ten seconds had passed
            bookie.service._log_limit._keys[""] = (0.0, FLOOD - 1)
            wire = await Wire.connect(bookie)
            wire.send(bytes(4))
            assert await wire.is_closed()
            await wire.aclose()
    first, second = log.fields("malformed request")
    assert first["peer"].startswith("127.0.0.1:")
    assert "unknown byte 0x07" in first["error"]
    assert ("dropped" in first, second["dropped"]) == (False, FLOOD - 1)
