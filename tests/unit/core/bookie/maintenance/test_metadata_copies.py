"""A bookie keeps the metadata of its ledgers, as far as it can be read, until they are closed."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.ledger_metadata import NO_ENTRY, LedgerMetadata, LedgerState
from rhumbline.core.wire import v2
from rhumbline.core.wire.ledger_metadata import decode
from rhumbline.core.wire.v2 import Code
from rhumbline.core.wire.v3 import Status
from rhumbline.tests.unit.core.bookie.bookie_world import (
    Wire,
    entry,
    introduce,
    one_bookie,
    unavailable,
    until,
)
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

AT_ONCE = BookieConfig(log_file_bytes=1 << 20, metadata_copies_ms=0)


def copies(bookie: Bookie) -> Mapping[int, LedgerMetadata]:
    return {
        ledger_id: decode(ledger_id, data)
        for ledger_id, data in bookie.storage.states.copies.items()
    }


async def test_the_metadata_that_proves_a_ledger_is_durable_with_its_first_entry() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        assert await wire.fence(2) == Code.NO_ENTRY
        stored = {ledger_id: (await world.ledgers.read(ledger_id))[0] for ledger_id in (1, 2)}
        again = Storage(world.runtime, disk.copy(), AT_ONCE, bookie.bookie_id)
        await again.open(must_exist=True)
        kept = again.states.copies
        assert {ledger_id: decode(ledger_id, kept[ledger_id]) for ledger_id in kept} == stored
        await again.abandon()


async def test_copies_follow_the_metadata_until_the_ledger_is_closed_and_later_in_turn() -> None:
    async with one_bookie(AT_ONCE) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        assert copies(bookie)[1].state is LedgerState.OPEN
        metadata, version = await world.ledgers.read(1)
        version = await world.ledgers.write(metadata.closed(0, 5), version)
        await bookie.maintenance.step()
        assert (copies(bookie)[1].state, copies(bookie)[1].last_entry_id) == (LedgerState.CLOSED, 0)
        moved = replace(metadata.closed(0, 5), custom={"moved": b"yes"})
        await world.ledgers.write(moved, version)
        await bookie.maintenance.step()
        assert copies(bookie)[1] == moved
        refreshed = bookie.maintenance.copies.refreshed_count
        await bookie.maintenance.step()
        assert bookie.maintenance.copies.refreshed_count == refreshed == 2


async def test_a_ledger_that_only_has_recovery_adds_gets_its_copy_in_the_next_round() -> None:
    async with one_bookie(AT_ONCE) as (world, bookie, wire):
        assert await wire.add(entry(1, 0), v2.FLAG_RECOVERY_ADD) == Code.OK
        assert 1 not in copies(bookie)
        await bookie.maintenance.step()
        assert copies(bookie)[1] == (await world.ledgers.read(1))[0]
        await world.ledgers.delete(1)
        await bookie.maintenance.copies.refresh()
        assert copies(bookie)[1].last_entry_id == NO_ENTRY


async def test_a_repeated_introduction_renews_a_copy_durably_before_it_is_confirmed() -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        metadata, version = await world.ledgers.read(1)
        changed = replace(metadata, custom={"changed": b"yes"})
        await world.ledgers.write(changed, version)
        assert await introduce(wire, 1) == Status.OK
        again = Storage(world.runtime, disk.copy(), AT_ONCE, bookie.bookie_id)
        await again.open(must_exist=True)
        assert decode(1, again.states.copies[1]) == changed
        await again.abandon()


async def test_an_introduction_shares_no_read_that_began_before_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_bookie() as (world, bookie, wire):
        gate, read = asyncio.Event(), world.store.get
        reads: list[object] = []

        async def gated(path: str, *, stale_ok: bool = False) -> object:
            reads.append(found := await read(path, stale_ok=stale_ok))
            if len(reads) == 1:
                await gate.wait()
            return found

        monkeypatch.setattr(world.store, "get", gated)
        other = await Wire.connect(bookie)
        adding = asyncio.create_task(other.add(entry(1, 0)))
        await until(lambda: reads)
        metadata, version = await world.ledgers.read(1)
        changed = replace(metadata, custom={"changed": b"yes"})
        await world.ledgers.write(changed, version)
        introducing = asyncio.create_task(introduce(wire, 1))
        await until(lambda: bookie.service.membership.waiting_count == 2)
        gate.set()
        assert (await adding, await introducing) == (Code.OK, Status.OK)
        assert copies(bookie)[1] == changed
        await other.aclose()


async def test_an_introduction_is_not_confirmed_without_a_fresh_copy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with one_bookie() as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        before = copies(bookie)
        monkeypatch.setattr(world.store, "get", unavailable)
        assert await introduce(wire, 1) == Status.UNKNOWN_STATE
        assert copies(bookie) == before
        assert await wire.add(entry(1, 1)) == Code.OK, "its membership is proven as before"
        monkeypatch.undo()
        assert bookie.service.membership.waiting_count == 0
        assert await introduce(wire, 1) == Status.OK
