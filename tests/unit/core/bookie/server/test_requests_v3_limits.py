"""What v3 requests may hold, and what a bookie responds to those that may not be served."""

import asyncio
import struct

import pytest

from rhumbline.core.bookie.server.connection import ClientConnection
from rhumbline.core.bookie.server.requests_v3 import _Add, _is_entry_of
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import handshake, v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, lac_body, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


def header(ledger_id: int, entry_id: int, lac: int, length: int) -> bytes:
    return struct.pack(">qqqq", ledger_id, entry_id, lac, length)


@pytest.mark.parametrize(
    ("data", "is_valid"),
    [
        (header(1, 4, 3, 0), True),
        (header(1, 4, -1, 9) + b"payload", True),
        (header(1, 4, 3, 0)[:-1], False),
        (b"", False),
        (header(2, 4, 3, 0), False),
        (header(1, 5, 3, 0), False),
        (header(1, 4, 4, 0), False),
        (header(1, 4, -2, 0), False),
        (header(1, 4, 3, -1), False),
    ],
)
def test_entry_has_a_header_with_its_ids_a_lower_lac_and_a_length(
    data: bytes, is_valid: bool
) -> None:
    assert _is_entry_of(data, 1, 4, is_recovery=False) == is_valid


def test_entries_have_ids_from_zero_on() -> None:
    assert _is_entry_of(header(1, 0, -1, 0), 1, 0, is_recovery=False)
    assert not _is_entry_of(header(1, -1, -1, 0), 1, -1, is_recovery=False)
    assert not _is_entry_of(header(1, -1, -2, 0), 1, -1, is_recovery=False)


async def test_waiting_add_holds_its_entry_once() -> None:
    async with one_bookie() as (_, bookie, _):
        for is_recovery in (False, True):
            request = v3.add_request(5, 1, 0, KEY, entry(1, 0), is_recovery=is_recovery)
            (connection,) = bookie._connections
            assert isinstance(connection, ClientConnection)
            add = _Add(connection, request)
            assert (add.ledger_id, add.master_key, add.entry) == (1, KEY, entry(1, 0))
            assert add.is_recovery == is_recovery
            assert not request.add_request.HasField("body")
            response = v3.decode_response(add.response(None)[4:]).add_response
            assert (response.ledger_id, response.entry_id) == (1, 0)


def read_request(entry_id: int, flag: int | None = None, previous_lac: int | None = None,
                 timeout_ms: int = 5_000) -> pb.Request:  # fmt: skip
    request = v3.read_request(7, 1, entry_id)
    if flag is not None:
        request.read_request.flag = flag  # type: ignore[assignment]
    if previous_lac is not None:
        request.read_request.previous_lac = previous_lac
        request.read_request.timeout_ms = timeout_ms
    return request


async def test_only_a_recovery_add_may_have_a_lac_that_reaches_its_entry() -> None:
    """Apache's autorecovery writes into each copy the LAC of the whole ledger (rule BKE-8)."""
    first, second = entry(1, 0, lac=299), entry(1, 1, lac=299)
    async with one_bookie() as (_, _, wire):
        plain = await wire.request3(v3.add_request(7, 1, 0, KEY, first))
        assert v3.status_of(plain) == Status.BAD_REQUEST
        copied = await wire.request3(v3.add_request(8, 1, 0, KEY, first, is_recovery=True))
        assert v3.status_of(copied) == Status.OK
        assert await wire.add(second, v2.FLAG_RECOVERY_ADD) == Code.OK
        assert await wire.read(1, 0) == (Code.OK, first)
        assert await wire.read(1, 1) == (Code.OK, second)
        with pytest.raises(asyncio.IncompleteReadError):  # the bookie ends the connection
            await wire.add(second)


async def test_reads_of_impossible_entries_are_bad_requests() -> None:
    piggyback = pb.ReadRequest.ENTRY_PIGGYBACK
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        for request in (read_request(-2), read_request(0, piggyback, -1), read_request(-2, 1, 3)):
            response = await wire.request3(request)
            assert v3.status_of(response) == Status.BAD_REQUEST
            assert response.header.txn_id == 7
        response = await wire.request3(read_request(-1))
        assert response.read_response.body == entry(1, 0)
        assert bookie.statistics()["parked_polls"] == 0


async def test_plain_read_with_a_lac_waits_until_it_rises() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        wire.send(v3.frame(read_request(0, None, -1)))
        assert await wire.add(entry(1, 1, lac=-1)) == Code.OK
        assert bookie.statistics()["parked_polls"] == 1
        request = v3.write_lac_request(50, 1, 0, KEY, lac_body(1, 0))
        wire.send(v3.frame(request))
        found = {r.header.txn_id: r for r in [await wire.response3() for _ in range(2)]}
        assert (found[7].read_response.body, found[7].read_response.max_lac) == (entry(1, 0), 0)


async def test_fencing_read_never_waits() -> None:
    async with one_bookie() as (_, _, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        request = v3.read_request(7, 1, -1, fence_key=KEY)
        request.read_request.previous_lac = 9
        request.read_request.timeout_ms = 3_600_000
        response = await wire.request3(request)
        assert response.read_response.body == entry(1, 0)
        assert await wire.add(entry(1, 1)) == Code.FENCED


async def test_read_without_a_lac_never_waits() -> None:
    async with one_bookie() as (_, _, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        response = await wire.request3(read_request(-1, pb.ReadRequest.ENTRY_PIGGYBACK))
        assert response.read_response.body == entry(1, 0)


async def test_space_of_the_disk_is_reported() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, bookie, wire):
        disk.room = 12_345_678_901
        await bookie._space.check()
        response = await wire.request3(v3.bookie_info_request(4))
        info = response.get_bookie_info_response
        assert v3.status_of(response) == Status.OK
        assert (info.free_bytes, info.total_bytes) == (12_345_678_901, 1 << 41)


async def test_failed_log_fails_a_force_and_an_explicit_lac() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        disk.is_failing = True
        assert v3.status_of(await wire.request3(v3.force_request(5, 1))) == Status.IO
        disk.is_failing = False
        second = await Wire.connect(bookie)
        assert v3.status_of(await second.request3(v3.force_request(6, 1))) == Status.IO
        request = v3.write_lac_request(8, 1, 0, KEY, lac_body(1, 0))
        assert v3.status_of(await second.request3(request)) == Status.READ_ONLY
        await second.aclose()


async def test_handshake_states_whether_this_is_the_wanted_bookie() -> None:
    async with one_bookie() as (_, bookie, wire):
        hello = handshake.encode_hello(bookie.bookie_id)
        response = await wire.request3(v3.auth_request(3, handshake.PLUGIN, hello))
        assert v3.status_of(response) == Status.OK
        assert response.auth_response.plugin == handshake.PLUGIN.encode()
        hello = handshake.encode_hello(BookieId("b1@ffffffff"))
        response = await wire.request3(v3.auth_request(4, handshake.PLUGIN, hello))
        assert v3.status_of(response) == Status.UNAUTHORIZED
        assert await wire.is_closed()


async def test_plugin_with_an_unreadable_name_is_malformed() -> None:
    async with one_bookie() as (_, bookie, wire):
        request = v3.auth_request(3, "x", b"")
        request.auth_request.plugin = b"\xff\xfe"
        wire.send(v3.frame(request))
        assert await wire.is_closed()
        assert bookie.statistics()["closed"] == {"malformed": 1}
