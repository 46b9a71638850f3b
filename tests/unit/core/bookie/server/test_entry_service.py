"""Adds, reads and fences over a real socket, in the v2 form."""

import asyncio

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import SMALL, fill


async def test_added_entries_are_readable_before_and_after_a_restart() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        for number in range(50):
            wire.send(v2.encode_add(KEY, entry(1, number)))
        responses = [v2.decode_response(await wire.frame()) for _ in range(50)]
        assert responses == [v2.AddResponse(Code.OK, 1, n) for n in range(50)]
        for number in (0, 49):
            assert await wire.read(1, number) == (Code.OK, entry(1, number))
        assert await wire.read(1, -1) == (Code.OK, entry(1, 49))
        assert await wire.read(1, 50) == (Code.NO_ENTRY, b"")
        assert await wire.read(2, 0) == (Code.NO_LEDGER, b"")
        await bookie.aclose()
        again = await world.open(disk)
        second = await Wire.connect(again)
        for number in (0, 49, -1):
            assert (await second.read(1, number))[1] == entry(1, number % 50)
        assert await second.add(entry(1, 50)) == Code.OK
        await second.aclose()
        await again.aclose()


async def test_fence_refuses_plain_adds_but_not_recovery_adds() -> None:
    async with one_bookie() as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        assert await wire.fence(1) == Code.OK
        assert await wire.add(entry(1, 1)) == Code.FENCED
        assert await wire.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
        assert await wire.read(1, 1) == (Code.OK, entry(1, 1))
        assert await wire.fence(1, 2) == Code.NO_ENTRY


async def test_no_response_to_a_fence_leaves_before_it_is_durable() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        for ledger_id, entry_id in ((1, 0), (1, 5), (2, -1)):
            disk.gate = asyncio.Event()
            frame = v2.encode_read(ledger_id, entry_id, v2.FLAG_FENCE, KEY)
            wire.send(frame)
            wire.send(v2.encode_read(1, 0))
            first = v2.decode_response(await wire.frame())
            assert isinstance(first, v2.ReadResponse)
            if ledger_id == 1 and entry_id == 5:
                # The fence of ledger 1 is durable already, so the response does not wait.
                assert first == v2.ReadResponse(Code.NO_ENTRY, 1, 5, b"")
                assert v2.decode_response(await wire.frame())[:3] == (Code.OK, 1, 0)
                disk.gate.set()
                disk.gate = None
                continue
            assert first == v2.ReadResponse(Code.OK, 1, 0, entry(1, 0))
            waiting = asyncio.ensure_future(wire.frame())
            await asyncio.sleep(0.02)
            assert not waiting.done()
            gate, disk.gate = disk.gate, None
            gate.set()
            response = v2.decode_response(await waiting)
            expected = Code.OK if ledger_id == 1 else Code.NO_ENTRY
            assert response[:3] == (expected, ledger_id, entry_id)


async def test_second_fencing_read_waits_for_the_fence_of_the_first() -> None:
    """The ledger is fenced in memory at once, but a crash may still undo that."""
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        disk.gate = gate = asyncio.Event()
        for entry_id in (0, 5):
            wire.send(v2.encode_read(1, entry_id, v2.FLAG_FENCE, KEY))
        waiting = asyncio.ensure_future(wire.frame())
        await asyncio.sleep(0.05)
        was_early = waiting.done()
        disk.gate = None
        gate.set()
        assert not was_early
        assert v2.decode_response(await waiting)[:3] == (Code.OK, 1, 0)
        assert v2.decode_response(await wire.frame())[:3] == (Code.NO_ENTRY, 1, 5)


async def test_fence_survives_the_log_that_recorded_it() -> None:
    """A new log begins with a snapshot of all fences; compaction removes the older log."""
    disk = MemoryDisk()
    async with one_bookie(SMALL, disk) as (world, bookie, wire):
        assert await wire.fence(4) == Code.NO_ENTRY
        await fill(wire, 60)
        first = min(bookie.storage.sealed_logs)
        assert await wire.add(entry(4, 0)) == Code.FENCED
        await bookie.maintenance.step()
        assert first not in bookie.storage.sealed_logs
        image = disk.copy()
        await bookie.aclose()
        again = await world.open(image, SMALL)
        second = await Wire.connect(again)
        assert await second.add(entry(4, 0)) == Code.FENCED
        await second.aclose()
        await again.aclose()


async def test_fenced_ledger_stays_fenced_after_a_kill() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        assert await wire.fence(3) == Code.NO_ENTRY
        image = disk.copy()
        await bookie.aclose()
        again = await world.open(image)
        second = await Wire.connect(again)
        assert await second.add(entry(3, 0)) == Code.FENCED
        assert await second.add(entry(3, 0), v2.FLAG_RECOVERY_ADD) == Code.OK
        await second.aclose()
        await again.aclose()


async def test_another_master_key_is_refused() -> None:
    async with one_bookie() as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        other = bytes(20)
        assert await wire.add(entry(1, 1), key=other) == Code.UNAUTHORIZED
        flags = v2.FLAG_RECOVERY_ADD
        assert await wire.add(entry(1, 1), flags, key=other) == Code.UNAUTHORIZED
        assert await wire.fence(1, key=other) == Code.UNAUTHORIZED
        assert await wire.add(entry(1, 1)) == Code.OK


async def test_unknown_ledger_needs_metadata_that_names_this_bookie() -> None:
    async with one_bookie() as (world, bookie, wire):
        await world.make_ledger(70, bookie.bookie_id[:-1] + "x")  # type: ignore[arg-type]
        assert await wire.add(entry(70, 0)) == Code.IO
        assert await wire.add(entry(71, 0)) == Code.IO
        assert await wire.fence(70) == Code.IO
        assert await wire.fence(70) == Code.IO, "the second fence is not denied either"
        assert await wire.fence(71) == Code.IO
        assert await wire.add(entry(70, 0), v2.FLAG_RECOVERY_ADD) == Code.OK
        assert await wire.fence(70, 1) == Code.IO
        assert await wire.fence(70, 0) == Code.OK
        assert await wire.add(entry(8, 0)) == Code.OK
        assert await wire.fence(9) == Code.NO_ENTRY


async def test_adds_that_wait_for_metadata_keep_their_order() -> None:
    async with one_bookie() as (_, bookie, wire):
        for number in range(100):
            wire.send(v2.encode_add(KEY, entry(4, number)))
        responses = [v2.decode_response(await wire.frame()) for _ in range(100)]
        assert responses == [v2.AddResponse(Code.OK, 4, n) for n in range(100)]
        assert bookie.service.membership.waiting_count == 0


async def test_batch_read_from_a_slow_disk_returns_a_part() -> None:
    config = BookieConfig(log_file_bytes=8 << 20, tail_cache_bytes=0)
    disk = MemoryDisk()
    async with one_bookie(config, disk) as (_, _, wire):
        for number in range(40):
            assert await wire.add(entry(1, number)) == Code.OK
            assert await wire.add(entry(2, number, bytes(70_000))) == Code.OK  # far apart
        disk.read_s = 0.011
        found: list[bytes | memoryview] = []
        while len(found) < 40:
            frame = v2.encode_batch_read(1, len(found), 77, count_max=1_000, bytes_max=0)
            response = await wire.request(frame)
            assert isinstance(response, v2.BatchReadResponse)
            assert 1 <= len(response.entries) <= 5
            found += response.entries
        assert found == [entry(1, number) for number in range(40)]


async def test_batch_read_stops_at_its_limits_and_at_a_missing_entry() -> None:
    async with one_bookie() as (_, _bookie, wire):
        for number in (0, 1, 2, 4):
            assert await wire.add(entry(1, number)) == Code.OK
        size = len(entry(1, 0))

        async def batch(first: int, count: int, size: int) -> tuple[int, list[bytes]]:
            frame = v2.encode_batch_read(1, first, 77, count_max=count, bytes_max=size)
            response = await wire.request(frame)
            assert isinstance(response, v2.BatchReadResponse)
            assert response.request_id == 77
            return response.code, [bytes(entry) for entry in response.entries]

        assert await batch(0, 2, 0) == (Code.OK, [entry(1, 0), entry(1, 1)])
        assert await batch(0, 0, 0) == (Code.OK, [entry(1, n) for n in range(3)])
        assert await batch(0, 9, 1) == (Code.OK, [entry(1, 0)])
        assert await batch(0, 9, 40 + 2 * (size + 4)) == (
            Code.OK,
            [entry(1, n) for n in (0, 1)],
        )
        assert await batch(3, 9, 0) == (Code.NO_ENTRY, [])


async def test_catch_up_reads_are_served_from_files_when_not_cached() -> None:
    config = BookieConfig(log_file_bytes=1 << 16, tail_cache_bytes=1000)
    async with one_bookie(config) as (_, bookie, wire):
        payload = bytes(1000)
        for number in range(200):
            assert await wire.add(entry(1, number, payload)) == Code.OK
        assert len(bookie.storage.sealed_logs) >= 2
        for number in range(200):
            wire.send(v2.encode_read(1, number))
        found = [v2.decode_response(await wire.frame()) for _ in range(200)]
        bodies = {response[2]: response[3] for response in found}  # type: ignore[misc]
        assert bodies == {n: entry(1, n, payload) for n in range(200)}
