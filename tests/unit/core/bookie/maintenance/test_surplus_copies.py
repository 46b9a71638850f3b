"""Copies that the metadata no longer names are returned, their space is freed, nothing else is."""

from dataclasses import replace

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import UnknownStateError
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import PAYLOAD, SMALL, all_there, fill

OTHER = BookieId("b2@00000002")
AT_ONCE = replace(SMALL, surplus_ms=0)


async def move_away(world: World, ledger_id: int, last: int) -> None:
    """Close a ledger, and record another bookie for all of it, as repair does."""
    metadata, version = await world.ledgers.read(ledger_id)
    moved = metadata.closed(last, 1).with_bookies_of(0, (OTHER,))
    await world.ledgers.write(moved, version)


async def test_copies_that_were_moved_away_are_deleted_and_their_space_is_freed() -> None:
    disk = MemoryDisk()
    async with one_bookie(AT_ONCE, disk) as (world, bookie, wire):
        await fill(wire, 100)
        await bookie.maintenance.step()
        size = sum(len(content) for content in disk.files.values())
        for ledger_id in (2, 3):
            await move_away(world, ledger_id, 99)
        with recorded_log("rhumbline.core.bookie.maintenance.surplus_copies") as log:
            await bookie.maintenance.step()
        assert log.fields("surplus copies returned") == [
            {"bookie": bookie.bookie_id, "ledger": 2},
            {"bookie": bookie.bookie_id, "ledger": 3},
        ]
        assert bookie.statistics()["ledgers_returned"] == 2
        await wire.add(entry(1, 100))
        for _ in range(12):
            await bookie.maintenance.step()
        assert sum(len(content) for content in disk.files.values()) < size * 0.6
        await all_there(wire, (1,), 100)
        assert await wire.read(2, 0) == (Code.NO_LEDGER, b"")
        metadata, _ = await world.ledgers.read(2)
        assert metadata.return_count == 1


async def test_a_returned_ledger_takes_copies_again_also_after_a_restart_but_no_plain_adds() -> (
    None
):
    disk = MemoryDisk()
    async with one_bookie(AT_ONCE, disk) as (world, bookie, wire):
        await fill(wire, 3)
        await move_away(world, 2, 2)
        await bookie.maintenance.step()
        assert await wire.add(entry(2, 3)) != Code.OK
        copied = entry(2, 1, PAYLOAD)
        assert await wire.add(copied, v2.FLAG_RECOVERY_ADD) == Code.OK
        assert await wire.read(2, 1) == (Code.OK, copied)
        assert await wire.read(2, 0) == (Code.NO_ENTRY, b"")
        assert await wire.add(entry(2, 3)) == Code.FENCED
        image = disk.copy()
        await bookie.aclose()
        again = await world.open(image, SMALL)
        second = await Wire.connect(again)
        assert await second.read(2, 1) == (Code.OK, copied)
        assert await second.add(entry(2, 3)) == Code.FENCED
        await second.aclose()
        await again.aclose()


async def test_open_named_and_recently_moved_ledgers_are_kept() -> None:
    slow = replace(SMALL, surplus_ms=3_600_000)
    async with one_bookie(slow) as (world, bookie, wire):
        await fill(wire, 3)
        await move_away(world, 2, 2)
        metadata, version = await world.ledgers.read(3)
        await world.ledgers.write(metadata.with_bookies_of(0, (OTHER,)), version)
        for _ in range(3):
            await bookie.maintenance.step()
        await all_there(wire, (1, 2, 3), 3)
        figures = bookie.statistics()
        assert (figures["ledgers_returned"], figures["ledgers_surplus"]) == (0, 1)


class LateNaming(LedgerStore):
    """A store in which repair names the bookie just before the bookie's compare-and-set."""

    bookie: Bookie

    async def write(self, metadata: LedgerMetadata, expect: Version) -> Version:
        stored, version = await super().read(metadata.ledger_id)
        named = stored.with_bookies_of(0, (self.bookie.bookie_id,))
        await super().write(named, version)
        return await super().write(metadata, expect)


async def test_copies_that_are_named_again_in_the_last_moment_are_kept() -> None:
    async with one_bookie(AT_ONCE) as (world, bookie, wire):
        await fill(wire, 3)
        await move_away(world, 2, 2)
        late = LateNaming(world.store)
        late.bookie = bookie
        bookie.maintenance.surplus._stores._global = late
        bookie.maintenance.surplus._stores._by_number[0] = late
        await bookie.maintenance.step()
        await all_there(wire, (2,), 3)
        assert bookie.statistics()["ledgers_returned"] == 0
        assert not bookie.service.returning


async def test_while_copies_are_returned_they_are_neither_listed_nor_added() -> None:
    async with one_bookie(AT_ONCE) as (_, bookie, wire):
        await fill(wire, 3)
        bookie.service.returning[2] = None
        assert await wire.add(entry(2, 3), v2.FLAG_RECOVERY_ADD) != Code.OK
        try:
            await bookie.service.entry_ids(2)
        except UnknownStateError:
            pass
        else:
            raise AssertionError("the ledger was listed")
        del bookie.service.returning[2]
        assert await bookie.service.entry_ids(2) == [0, 1, 2]
