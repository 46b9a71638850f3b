"""Requests that a bookie refuses, and the code that each of them gets."""

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.protocol.errors import (
    NoSuchLedgerError,
    UnknownStateError,
)
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, Wire, entry, lac_body, one_bookie


async def write_lac(
    wire: Wire, ledger_id: int, lac: int, *, key: bytes = KEY, body: bytes | None = None
) -> int:
    known = lac_body(ledger_id, lac) if body is None else body
    request = v3.write_lac_request(wire.next_txn(), ledger_id, lac, key, known)
    return v3.status_of(await wire.request3(request))


async def test_bookie_holds_a_limited_number_of_ledgers() -> None:
    async with one_bookie(BookieConfig(ledger_count_max=2)) as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        assert await wire.fence(2) == Code.NO_ENTRY
        assert await wire.add(entry(3, 0)) == Code.TOO_MANY_REQUESTS
        assert await wire.add(entry(3, 0), v2.FLAG_RECOVERY_ADD) == Code.TOO_MANY_REQUESTS
        assert await wire.fence(3) == Code.TOO_MANY_REQUESTS
        assert await write_lac(wire, 3, 5) == Status.TOO_MANY_REQUESTS
        assert await write_lac(wire, 3, -1) == Status.TOO_MANY_REQUESTS
        assert sorted(bookie.service.ledgers) == [1, 2]
        assert await wire.add(entry(1, 1)) == Code.OK
        assert await write_lac(wire, 1, 0) == Status.OK


async def test_limited_number_of_requests_wait_for_metadata() -> None:
    async with one_bookie(BookieConfig(metadata_waits_max=2)) as (_, bookie, wire):
        for ledger_id in (1, 2, 3, 4):
            wire.send(v2.encode_add(KEY, entry(ledger_id, 0)))
        wire.send(v2.encode_read(5, 0, v2.FLAG_FENCE, KEY))
        responses = [v2.decode_response(await wire.frame()) for _ in range(5)]
        codes = {response[1]: response[0] for response in responses}
        assert codes == {
            1: Code.OK,
            2: Code.OK,
            3: Code.TOO_MANY_REQUESTS,
            4: Code.TOO_MANY_REQUESTS,
            5: Code.TOO_MANY_REQUESTS,
        }
        assert bookie.service.membership.waiting_count == 0
        assert await wire.add(entry(3, 0)) == Code.OK
        assert sorted(bookie.service.ledgers) == [1, 2, 3]


async def test_deleted_ledger_does_not_return() -> None:
    async with one_bookie() as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        await world.ledgers.delete(1)
        bookie.storage.delete_ledger(1)
        for flags in (0, v2.FLAG_RECOVERY_ADD):
            assert await wire.add(entry(1, 1), flags) == Code.NO_LEDGER
        assert await write_lac(wire, 1, 5) == Status.NO_LEDGER
        assert await write_lac(wire, 1, -1) == Status.NO_LEDGER
        assert await wire.fence(1) == Code.IO, "a deletion is no proof for a recovery"
        assert await wire.read(1, 0) == (Code.NO_LEDGER, b"")
        assert await wire.read(1, -1) == (Code.NO_LEDGER, b"")
        poll = v3.long_poll_request(7, 1, previous_lac=5, timeout_ms=5_000)
        assert v3.status_of(await wire.request3(poll)) == Status.NO_LEDGER
        assert bookie.service.ledgers == {}
        await world.ledgers.delete(2)
        assert await wire.fence(2) == Code.IO
        assert bookie.service.ledgers == {}


async def test_explicit_lac_is_refused_if_it_is_malformed_or_signed_by_another_key() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await write_lac(wire, 1, 5) == Status.OK
        assert bookie.service.ledgers[1].lac == 5
        assert await write_lac(wire, 1, 6, key=bytes(20)) == Status.UNAUTHORIZED
        assert await write_lac(wire, 1, -1, key=bytes(20)) == Status.UNAUTHORIZED
        body = lac_body(1, 7)
        for bad in (body[:15], body.ljust(65, b"x"), lac_body(1, -2)):
            assert await write_lac(wire, 1, 7, body=bad) == Status.BAD_REQUEST
        assert bookie.service.ledgers[1].lac == 5
        for good in (body[:16], body.ljust(64, b"x")):
            assert await write_lac(wire, 1, 7, body=good) == Status.OK
        assert bookie.service.ledgers[1].lac == 7
        bookie.set_read_only(True)
        assert await write_lac(wire, 1, 8) == Status.READ_ONLY
        assert await write_lac(wire, 2, -1) == Status.READ_ONLY
        bookie.set_read_only(False)
        assert await write_lac(wire, 2, -1) == Status.OK
        assert await write_lac(wire, 2, -1) == Status.OK, "it is proven now"
        assert bookie.service.ledgers[2].is_proven
        assert not bookie.service.ledgers[1].is_proven
        assert await write_lac(wire, 1, -1) == Status.OK
        assert bookie.service.ledgers[1].is_proven


async def test_full_bookie_accepts_recovery_adds_only_with_its_reserve() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        bookie.service.accepts_adds = False
        for ledger_id in (1, 2):
            assert await wire.add(entry(ledger_id, 1)) == Code.READ_ONLY
            assert await wire.add(entry(ledger_id, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
        bookie.service.accepts_recovery_adds = False
        for ledger_id in (1, 3):
            assert await wire.add(entry(ledger_id, 2), v2.FLAG_RECOVERY_ADD) == Code.READ_ONLY
        assert sorted(bookie.service.ledgers) == [1, 2]


async def test_ledger_in_limbo_refuses_adds_and_denials() -> None:
    async with one_bookie() as (_, bookie, wire):
        for ledger_id in (1, 2):
            assert await wire.add(entry(ledger_id, 0)) == Code.OK
        await bookie.storage.begin_limbo()
        assert await wire.add(entry(1, 1)) == Code.IO
        assert await wire.add(entry(1, 1), v2.FLAG_RECOVERY_ADD) == Code.OK
        assert await wire.read(1, 1) == (Code.OK, entry(1, 1))
        assert (await wire.read(1, -1))[0] == Code.IO
        assert (await wire.read(1, 5))[0] == Code.IO
        assert (await wire.read(9, 5))[0] == Code.IO
        assert await wire.fence(1) == Code.OK, "a fencing read gets the last entry that is left"
        assert await wire.fence(1, 5) == Code.IO
        assert await bookie.service.entry_ids(1) == [0, 1], "those that are left"
        with pytest.raises(UnknownStateError):
            bookie.service.resolve(1, -1)
        assert bookie.service.resolve(1, 0) == 0
        bookie.storage.states.limbo.clear(2)
        assert await wire.add(entry(2, 1)) == Code.OK
        assert await bookie.service.entry_ids(2) == [0, 1]


async def test_ids_of_a_ledgers_entries_are_listed() -> None:
    async with one_bookie() as (_, bookie, wire):
        for number in (0, 1, 5):
            assert await wire.add(entry(1, number)) == Code.OK
        assert await wire.fence(2) == Code.NO_ENTRY
        assert await bookie.service.entry_ids(1) == [0, 1, 5]
        assert await bookie.service.entry_ids(2) == []
        with pytest.raises(NoSuchLedgerError):
            await bookie.service.entry_ids(3)
        rows = bookie.storage.index.recent.entries_of(1)
        for number in range(6, 40_000):
            rows.put(number, 1, 1)
        assert await bookie.service.entry_ids(1) == [0, 1, *range(5, 40_000)]


async def test_fencing_read_needs_the_master_key() -> None:
    async with one_bookie() as (_, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        request = v3.read_request(6, 1, 0, fence_key=KEY)
        request.read_request.ClearField("master_key")
        assert v3.status_of(await wire.request3(request)) == Status.UNAUTHORIZED
        assert not bookie.service.ledgers[1].is_fenced
        assert await wire.fence(1, 0) == Code.OK
        assert bookie.service.ledgers[1].is_fence_durable
