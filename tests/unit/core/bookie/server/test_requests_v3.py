"""The v3 form over a real socket: adds, reads, LACs, long polls, force, lists, handshake."""

import asyncio

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.log.log_format import OFFSET_MASK
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.wire import availability, handshake, v2, v3
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, lac_body, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import log_paths


def poll(wire: Wire, ledger_id: int, previous_lac: int, timeout_ms: int = 5000) -> bytes:
    request = v3.long_poll_request(
        wire.next_txn(), ledger_id, previous_lac=previous_lac, timeout_ms=timeout_ms
    )
    return v3.frame(request)


async def test_one_connection_may_mix_both_wire_forms() -> None:
    async with one_bookie() as (_, _bookie, wire):
        response = await wire.request3(v3.add_request(5, 1, 0, KEY, entry(1, 0)))
        assert (response.header.txn_id, v3.status_of(response)) == (5, Status.OK)
        assert response.add_response.ledger_id == 1
        assert await wire.add(entry(1, 1)) == Code.OK
        response = await wire.request3(v3.read_request(6, 1, 0))
        assert response.read_response.body == entry(1, 0)
        assert response.read_response.max_lac == 0
        assert await wire.read(1, 1) == (Code.OK, entry(1, 1))
        response = await wire.request3(v3.read_request(7, 1, -1, fence_key=KEY))
        assert response.read_response.body == entry(1, 1)
        assert not response.read_response.HasField("max_lac")
        response = await wire.request3(v3.add_request(8, 1, 2, KEY, entry(1, 2)))
        assert v3.status_of(response) == Status.FENCED
        again = v3.add_request(9, 1, 2, KEY, entry(1, 2), is_recovery=True)
        assert v3.status_of(await wire.request3(again)) == Status.OK


async def test_long_poll_returns_the_entry_when_the_lac_rises() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        reader = await Wire.connect(bookie)
        reader.send(poll(reader, 1, -1))
        await asyncio.sleep(0.02)
        assert bookie.statistics()["parked_polls"] == 1
        assert await wire.add(entry(1, 1)) == Code.OK
        response = (await reader.response3()).read_response
        assert (response.entry_id, response.body) == (0, entry(1, 0))
        assert response.max_lac == 0
        assert response.lac_updated_ms > 0
        assert bookie.statistics()["parked_polls"] == 0
        reader.send(poll(reader, 1, -1))
        assert not (await reader.response3()).read_response.HasField("lac_updated_ms")
        await reader.aclose()


async def test_long_poll_ends_at_its_timeout_and_at_a_fence() -> None:
    async with one_bookie() as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        assert await wire.add(entry(1, 1)) == Code.OK
        wire.send(poll(wire, 1, 0, timeout_ms=30))
        response = await wire.response3()
        body = response.read_response
        assert (v3.status_of(response), body.entry_id, body.max_lac) == (Status.OK, -1, 0)
        assert not body.HasField("body")
        wire.send(poll(wire, 1, 0))
        wire.send(v2.encode_read(1, 1, v2.FLAG_FENCE, KEY))
        first, second = await wire.frame(), await wire.frame()
        forms = sorted((first[0], second[0]))
        assert forms == [2, 10]


async def test_long_poll_of_an_unknown_and_of_an_empty_ledger() -> None:
    async with one_bookie() as (_, _bookie, wire):
        wire.send(poll(wire, 6, -1, timeout_ms=20))
        assert v3.status_of(await wire.response3()) == Status.NO_LEDGER
        assert await wire.fence(6) == Code.NO_ENTRY
        wire.send(poll(wire, 6, -1, timeout_ms=20))
        assert v3.status_of(await wire.response3()) == Status.NO_ENTRY


async def test_long_poll_waits_for_a_ledger_that_does_not_exist_yet() -> None:
    async with one_bookie() as (_, bookie, wire):
        wire.send(poll(wire, 1, -1))
        wire.send(poll(wire, 2, -1, timeout_ms=20))
        assert v3.status_of(await wire.response3()) == Status.NO_LEDGER
        assert await wire.add(entry(1, 0)) == Code.OK
        assert bookie.statistics()["parked_polls"] == 1
        wire.send(v2.encode_add(KEY, entry(1, 1, lac=0)))
        response = (await wire.response3()).read_response
        assert (response.entry_id, response.max_lac) == (0, 0)
        assert await wire.add_response() == Code.OK
        assert bookie.statistics()["parked_polls"] == 0


@pytest.mark.parametrize("by_entry", [True, False])
async def test_long_poll_is_woken_before_the_higher_lac_is_durable(by_entry: bool) -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        wire.send(poll(wire, 1, -1))
        assert await wire.add(entry(1, 1, lac=-1)) == Code.OK  # after this, the poll is parked
        assert bookie.statistics()["parked_polls"] == 1
        gate = disk.gate = asyncio.Event()
        if by_entry:
            wire.send(v2.encode_add(KEY, entry(1, 2, lac=0)))
        else:
            wire.send(v3.frame(v3.write_lac_request(1, 1, 0, KEY, lac_body(1, 0))))
        response = (await wire.response3()).read_response
        assert (response.entry_id, response.max_lac) == (0, 0)
        disk.gate = None
        gate.set()
        if by_entry:
            assert await wire.add_response() == Code.OK
        else:
            assert v3.status_of(await wire.response3()) == Status.OK


async def test_long_poll_returns_the_lac_alone_if_the_entry_is_missing() -> None:
    async with one_bookie() as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        assert await wire.add(entry(1, 4, lac=3)) == Code.OK
        wire.send(poll(wire, 1, 1))
        response = (await wire.response3()).read_response
        assert (response.entry_id, response.max_lac) == (-1, 3)
        assert not response.HasField("body")


async def test_parked_polls_of_a_lost_connection_are_removed() -> None:
    config = BookieConfig(log_file_bytes=1 << 20, connection_polls_max=3)
    async with one_bookie(config) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        reader = await Wire.connect(bookie)
        for _ in range(4):
            reader.send(poll(reader, 1, 5))
        assert v3.status_of(await reader.response3()) == Status.TOO_MANY_REQUESTS
        assert bookie.statistics()["parked_polls"] == 3
        await reader.aclose()
        for _ in range(500):
            if not bookie.statistics()["parked_polls"]:
                break
            await asyncio.sleep(0.01)
        assert bookie.service.ledgers[1].polls is None


async def test_older_explicit_lac_never_replaces_a_newer_one() -> None:
    """A late message with a lower LAC replaced the newer one, also across restarts."""
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        response = await wire.request3(v3.read_lac_request(1, 1))
        assert v3.status_of(response) == Status.NO_ENTRY
        for lac in (3, 2):
            request = v3.write_lac_request(2, 1, lac, KEY, lac_body(1, lac))
            assert v3.status_of(await wire.request3(request)) == Status.OK
        response = await wire.request3(v3.read_lac_request(3, 1))
        assert v3.status_of(response) == Status.OK
        assert response.read_lac_response.lac_body == lac_body(1, 3)
        assert not response.read_lac_response.HasField("last_entry_body")
        assert bookie.service.ledgers[1].lac == 3
        image = disk.copy()
        assert await wire.add(entry(1, 7)) == Code.OK
        response = await wire.request3(v3.read_lac_request(4, 1))
        assert response.read_lac_response.lac_body == lac_body(1, 3)
        assert response.read_lac_response.last_entry_body == entry(1, 7)
        bad = v3.write_lac_request(5, 1, 9, bytes(20), lac_body(1, 9))
        assert v3.status_of(await wire.request3(bad)) == Status.UNAUTHORIZED
        await bookie.aclose()
        for _ in range(2):  # from the records after a kill, then from the snapshot of a log
            again = await world.open(image)
            assert again.service.ledgers[1].lac_body == lac_body(1, 3)
            await again.aclose()


async def test_lac_is_unknown_if_the_last_entry_cannot_be_read() -> None:
    """With an explicit LAC at hand, the response was OK with that older LAC."""
    disk = MemoryDisk()
    async with one_bookie(BookieConfig(tail_cache_bytes=0), disk) as (_, bookie, wire):
        request = v3.write_lac_request(1, 1, 0, KEY, lac_body(1, 0))
        assert v3.status_of(await wire.request3(request)) == Status.OK
        for number in range(20):
            assert await wire.add(entry(1, number)) == Code.OK
        location = bookie.storage.find(1, 19)
        offset = location.position & OFFSET_MASK
        (path,) = log_paths(disk)
        assert disk.files[path][offset : offset + location.length] == entry(1, 19)
        disk.files[path][offset + location.length - 1] ^= 1
        response = await wire.request3(v3.read_lac_request(2, 1))
        assert v3.status_of(response) == Status.IO
        assert not response.read_lac_response.HasField("lac_body")


async def test_lac_is_unknown_in_limbo() -> None:
    """An OK with the LAC of what is left, or a denial, would say that nothing more is durable."""
    async with one_bookie() as (_, bookie, wire):
        for number in range(4):
            assert await wire.add(entry(1, number)) == Code.OK
        request = v3.write_lac_request(1, 1, 3, KEY, lac_body(1, 3))
        assert v3.status_of(await wire.request3(request)) == Status.OK
        assert await wire.fence(2) == Code.NO_ENTRY
        bookie.storage.states.limbo.begin()
        for ledger_id in (1, 2, 3):  # with entries, empty, unknown
            response = await wire.request3(v3.read_lac_request(2, ledger_id))
            assert v3.status_of(response) == Status.UNKNOWN_STATE
            assert (await wire.read(ledger_id, -1))[0] == Code.IO
            read = v3.read_request(3, ledger_id, -1)
            assert v3.status_of(await wire.request3(read)) == Status.UNKNOWN_STATE
            wait = v3.read_request(4, ledger_id, -1)
            wait.read_request.previous_lac = 9
            wait.read_request.timeout_ms = 1
            assert v3.status_of(await wire.request3(wait)) == Status.UNKNOWN_STATE
        for ledger_id in (2, 3):
            wire.send(poll(wire, ledger_id, -1, timeout_ms=1))
            assert v3.status_of(await wire.response3()) == Status.UNKNOWN_STATE
        assert await wire.fence(1, -1) == Code.OK


async def test_explicit_lac_wakes_a_poll() -> None:
    async with one_bookie() as (_, _bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        wire.send(poll(wire, 1, -1))
        wire.send(v3.frame(v3.write_lac_request(50, 1, 0, KEY, lac_body(1, 0))))
        responses = [await wire.response3(), await wire.response3()]
        bodies = [a.read_response.body for a in responses if a.HasField("read_response")]
        assert bodies == [entry(1, 0)]


async def test_list_of_entries_info_and_force() -> None:
    async with one_bookie() as (_, _bookie, wire):
        for number in (0, 1, 5):
            assert await wire.add(entry(1, number)) == Code.OK
        response = await wire.request3(v3.list_entries_request(1, 1))
        listed = availability.decode(response.get_list_of_entries_response.availability)
        assert [n for n in range(9) if n in listed] == [0, 1, 5]
        response = await wire.request3(v3.list_entries_request(2, 2))
        assert v3.status_of(response) == Status.NO_LEDGER
        assert await wire.fence(2) == Code.NO_ENTRY
        response = await wire.request3(v3.list_entries_request(3, 2))
        assert v3.status_of(response) == Status.OK
        response = await wire.request3(v3.bookie_info_request(4))
        assert response.get_bookie_info_response.free_bytes > 0
        assert response.get_bookie_info_response.total_bytes > 0
        response = await wire.request3(v3.force_request(5, 1))
        assert v3.status_of(response) == Status.OK


async def test_handshake_with_another_bookie_id_closes_the_connection() -> None:
    async with one_bookie() as (_, bookie, wire):
        hello = handshake.encode_hello(bookie.bookie_id)
        response = await wire.request(v2.encode_auth(handshake.PLUGIN, hello))
        assert isinstance(response, v2.AuthResponse)
        handshake.check_response(response.plugin, response.payload, bookie.bookie_id)
        assert await wire.add(entry(1, 0)) == Code.OK
        response = await wire.request(v2.encode_auth("AuthDisabledPlugin", b""))
        assert response == v2.AuthResponse("AuthDisabledPlugin", b"")
        for form in (2, 3):
            other = await Wire.connect(bookie)
            wanted = BookieId("b1@ffffffff")
            hello = handshake.encode_hello(wanted)
            if form == 2:
                response = await other.request(v2.encode_auth(handshake.PLUGIN, hello))
                assert isinstance(response, v2.AuthResponse)
                plugin, payload = response.plugin, response.payload
            else:
                reply = await other.request3(v3.auth_request(1, handshake.PLUGIN, hello))
                plugin = reply.auth_response.plugin.decode()
                payload = reply.auth_response.payload
            with pytest.raises(Exception, match="its address now belongs to b1@"):
                handshake.check_response(plugin, payload, wanted)
            assert await other.is_closed()
            await other.aclose()
        assert bookie.statistics()["closed"] == {"other-bookie-wanted": 2}


async def test_tls_and_unknown_operations_are_refused_without_a_body() -> None:
    async with one_bookie() as (_, _bookie, wire):
        response = await wire.request3(v3.start_tls_request(1))
        assert v3.status_of(response) == Status.BAD_REQUEST
        request = v3.read_lac_request(2, 1)
        request.header.version = pb.VERSION_TWO
        assert v3.status_of(await wire.request3(request)) == Status.BAD_VERSION
        response = await wire.request3(v3.add_request(3, 1, 0, KEY, b"short"))
        assert v3.status_of(response) == Status.BAD_REQUEST
        response = await wire.request3(v3.add_request(4, 2, 0, KEY, entry(1, 0)))
        assert v3.status_of(response) == Status.BAD_REQUEST
        assert await wire.add(entry(1, 0)) == Code.OK
