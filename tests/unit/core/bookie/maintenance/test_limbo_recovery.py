"""Limbo recovery restores lost entries from replicas, fences ledgers again, and ends limbo.

If a whole cluster loses power with torn ends, an open ledger is unavailable until an operator ends
limbo.
"""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.maintenance.limbo_recovery import end_limbo, ranges_of
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    NoSuchLedgerError,
    RecoveryIncompleteError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import v2
from rhumbline.core.wire.entry import Entry
from rhumbline.core.wire.v2 import Code
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import PASSWORD, Wire, World, entry
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import log_paths, tear_last_group, written_end

SMALL = BookieConfig(log_file_bytes=64 << 10, maintenance_ms=3_600_000)
OTHER = BookieId("other@00000001")
COUNT = 10
ACKNOWLEDGED = 20


class LossyBookie:
    """A bookie that holds entries 0 to 4 of ledgers 1 to 3 and lost the later ones in a crash."""

    def __init__(self) -> None:
        self.world = World()
        self.disk = MemoryDisk()

    async def start(self) -> tuple[Bookie, Wire]:
        world = self.world
        await world.start()
        while await world.ledgers.next_id() < COUNT:
            pass
        self.bookie_id = bookie_id = await world.format(self.disk)
        bookie = await world.open(self.disk, replace(SMALL, boot_id="one"))
        wire = await Wire.connect(bookie)
        for ledger_id in (1, 2, 3):
            await world.make_ledger(ledger_id, bookie_id)
            for number in range(5):
                assert await wire.add(entry(ledger_id, number)) == Code.OK
        torn = self.disk.copy()
        path = log_paths(torn)[-1]
        end = written_end(torn, path)
        torn.files[path][end : end + 100] = b"\x07" * 100  # the beginning of a lost group
        await wire.aclose()
        await bookie.aclose()
        bookie = await world.open(torn, replace(SMALL, boot_id="two"))
        assert bookie.storage.states.limbo.is_active
        await bookie.maintenance.step()
        assert bookie.storage.states.limbo.is_active
        return bookie, await Wire.connect(bookie)

    async def replace_bookie(self, ledger_id: int, at: int) -> None:
        metadata, version = await self.world.ledgers.read(ledger_id)
        await self.world.ledgers.write(metadata.with_fragment(at, (OTHER,)), version)

    async def close(self, ledger_id: int) -> None:
        metadata, version = await self.world.ledgers.read(ledger_id)
        await self.world.ledgers.write(metadata.closed(COUNT - 1, 50), version)


async def from_replica(ledger_id: int, entry_id: int) -> bytes | None:
    return entry(ledger_id, entry_id)


async def test_ledger_leaves_limbo_when_its_end_no_longer_depends_on_this_bookie() -> None:
    lossy = LossyBookie()
    bookie, wire = await lossy.start()
    bookie.scrubber.fetch = from_replica
    await lossy.close(1)
    await lossy.replace_bookie(2, 7)
    await bookie.maintenance.step()

    # Closed: complete and fenced again, since its fence may have been lost.
    assert await bookie.service.entry_ids(1) == list(range(COUNT))
    assert await wire.read(1, COUNT - 1) == (Code.OK, entry(1, COUNT - 1))
    assert await wire.add(entry(1, COUNT)) == Code.FENCED
    # Replaced at entry 7: complete up to there, and the writer may choose this bookie again.
    assert await bookie.service.entry_ids(2) == list(range(7))
    assert bookie.storage.states.ledgers[2].accepts_adds
    # Open with this bookie in its last fragment: unknown, whatever the replicas hold.
    assert (await wire.read(3, 5))[0] == Code.IO
    assert await wire.add(entry(3, 5)) == Code.IO
    assert bookie.limbo.restored_count == 5 + 2
    assert bookie.storage.states.limbo.is_active

    await lossy.close(3)
    await bookie.maintenance.step()
    assert await bookie.service.entry_ids(3) == list(range(COUNT))
    await bookie.maintenance.step()  # a pass that finds no ledger in limbo
    assert not bookie.storage.states.limbo.is_active
    await wire.aclose()
    await bookie.aclose()
    await lossy.world.aclose()


async def test_lost_ledger_state_is_restored_from_the_metadata() -> None:
    lossy = LossyBookie()
    bookie, wire = await lossy.start()
    await lossy.world.make_ledger(5, lossy.bookie_id)
    await lossy.close(5)
    assert (await wire.read(5, 0))[0] == Code.IO
    bookie.scrubber.fetch = from_replica
    await bookie.maintenance.step()
    assert await bookie.service.entry_ids(5) == list(range(COUNT))
    assert await wire.read(5, 3) == (Code.OK, entry(5, 3))
    await wire.aclose()
    await bookie.aclose()
    await lossy.world.aclose()


async def test_ledger_stays_in_limbo_while_an_entry_is_missing() -> None:
    """It was released before, and then denied entries that this bookie had acknowledged."""
    lossy = LossyBookie()
    bookie, wire = await lossy.start()

    async def only_five(ledger_id: int, entry_id: int) -> bytes | None:
        if entry_id > 5:
            raise UnavailableError("no replica responds")
        return entry(ledger_id, entry_id)

    bookie.scrubber.fetch = only_five
    await lossy.close(1)
    for _ in range(2):
        await bookie.maintenance.step()
        assert bookie.storage.states.limbo.covers(1)
        assert await wire.read(1, 5) == (Code.OK, entry(1, 5))
        assert (await wire.read(1, 6))[0] == Code.IO
        assert await wire.fence(1, 6) == Code.IO
    assert (bookie.limbo.restored_count, bookie.limbo.missing_count) == (1, COUNT - 6)

    # Repair sees what is left, and its recovery adds end the limbo of the ledger.
    assert await bookie.service.entry_ids(1) == list(range(6))
    for number in range(6, COUNT):
        assert await wire.add(entry(1, number), v2.FLAG_RECOVERY_ADD) == Code.OK
    await bookie.maintenance.step()
    assert not bookie.storage.states.limbo.covers(1)
    assert bookie.limbo.missing_count == 0
    assert (await wire.read(1, COUNT))[0] == Code.NO_ENTRY  # beyond the end of the ledger
    await wire.aclose()
    await bookie.aclose()
    await lossy.world.aclose()


async def test_unknown_ledger_in_limbo_lists_what_is_left() -> None:
    """Repair needs the list to write the missing entries, also if the ledger's state was lost."""
    lossy = LossyBookie()
    bookie, wire = await lossy.start()
    assert await bookie.service.entry_ids(3) == list(range(5))
    assert await bookie.service.entry_ids(8) == []
    await end_limbo(bookie.storage)
    with pytest.raises(NoSuchLedgerError):
        await bookie.service.entry_ids(8)
    await wire.aclose()
    await bookie.aclose()
    await lossy.world.aclose()


@pytest.mark.parametrize("state", list(LedgerState))
def test_ranges_follow_the_striping_rule(state: LedgerState) -> None:
    me = BookieId("b2@00000002")
    first = tuple(BookieId(f"b{n}@0000000{n}") for n in range(4))
    second = (*first[:2], OTHER, first[3])
    quorum = Quorum(4, 2, 2)
    metadata = LedgerMetadata(
        1, 4, 2, 2, (Fragment(0, first), Fragment(9, second), Fragment(20, first)), state=state,
        last_entry_id=30 if state is LedgerState.CLOSED else -1,
    )  # fmt: skip
    last = 30 if state is LedgerState.CLOSED else 19
    expected = [
        entry_id
        for entry_id in range(last + 1)
        if me in [metadata.fragment_of(entry_id).bookies[i] for i in quorum.write_set(entry_id)]
    ]
    found = [
        entry_id
        for span in ranges_of(metadata, me)
        for entry_id in range(span.first, span.last + 1)
        if span.has(entry_id)
    ]
    assert found == expected


def ledger_client(world: World, *, recovery_timeout_ms: int = 30_000) -> LedgerClient:
    config = LedgerConfig(recovery_timeout_ms=recovery_timeout_ms, backoff_ms_max=50)
    return LedgerClient(
        world.runtime, world.ledgers, world.directory, RegionAwarePlacement(), config
    )


async def append_to_all(writer: LedgerWriter, bookies: list[Bookie], payload: bytes) -> int:
    """Appends an entry and returns its id when it is durable on every bookie."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_done(entry_id: int, error: RhumblineError | None, regions: tuple[str, ...]) -> None:
        assert error is None
        done.set_result(None)

    entry_id = writer.add(payload, on_done)
    await done
    for _ in range(5_000):
        if all(bookie.storage.last_entry(writer.ledger_id) >= entry_id for bookie in bookies):
            return entry_id
        await asyncio.sleep(0.001)
    raise TimeoutError(f"entry {entry_id} is not on every bookie")


async def serve_all(world: World, disks: list[MemoryDisk], boot_id: str) -> list[Bookie]:
    return [await world.open(disk, replace(SMALL, boot_id=boot_id)) for disk in disks]


async def cluster_after_power_loss(world: World) -> tuple[list[MemoryDisk], int]:
    """Return the disks of three bookies after a common power loss, and a ledger on them.

    The power fails while each bookie writes the group with entry 20. The writer fails too.
    """
    disks = [MemoryDisk() for _ in range(3)]
    for number, disk in enumerate(disks):
        await world.format(disk, f"b{number}")
    bookies = await serve_all(world, disks, "one")
    async with ledger_client(world) as client:
        writer = await client.create(Quorum(3, 3, 2), password=PASSWORD)
        for number in range(ACKNOWLEDGED):
            await append_to_all(writer, bookies, b"entry %d" % number)
        await append_to_all(writer, bookies, b"the power fails")
        torn = [disk.copy() for disk in disks]
        writer.abandon()
    for image in torn:
        tear_last_group(image)
    for bookie in bookies:
        await bookie.aclose()
    return torn, writer.ledger_id


async def run_maintenance(bookies: list[Bookie]) -> None:
    for bookie in bookies:
        await bookie.maintenance.step()


async def test_cluster_after_power_loss_recovers_only_by_an_operators_command() -> None:
    world = World()
    await world.start()
    disks, ledger_id = await cluster_after_power_loss(world)
    bookies = await serve_all(world, disks, "two")
    async with ledger_client(world, recovery_timeout_ms=1_000) as client:
        for _ in range(2):
            await run_maintenance(bookies)
            with pytest.raises(RecoveryIncompleteError):
                await client.recover(ledger_id, PASSWORD)
        assert all(bookie.storage.states.limbo.covers(ledger_id) for bookie in bookies)
        metadata, _ = await world.ledgers.read(ledger_id)
        assert metadata.state is LedgerState.IN_RECOVERY

    for bookie in bookies:  # the operator knows that these disks are honest
        await bookie.aclose()
    bookies = await serve_all(world, disks, "two")
    for bookie in bookies:
        await end_limbo(bookie.storage)
    async with ledger_client(world) as client:
        closed = await client.recover(ledger_id, PASSWORD)
        assert closed.last_entry_id == ACKNOWLEDGED - 1
        reader = await client.open(ledger_id, PASSWORD)
        entries: list[Entry] = []
        while len(entries) < ACKNOWLEDGED:
            entries += await reader.read(len(entries), ACKNOWLEDGED - 1)
        assert [item.payload for item in entries] == [
            b"entry %d" % number for number in range(ACKNOWLEDGED)
        ]
        writer = await client.create(Quorum(3, 3, 2), password=PASSWORD)
        assert await append_to_all(writer, bookies, b"the log goes on") == 0
        await writer.close()
    for bookie in bookies:
        await bookie.aclose()
    await world.aclose()


async def test_one_bookie_that_lost_power_leaves_limbo_by_itself() -> None:
    world = World()
    await world.start()
    disks, ledger_id = await cluster_after_power_loss(world)
    with recorded_log() as log:
        bookies = await serve_all(world, disks[:1], "two")
        bookies += await serve_all(world, disks[1:], "one")
        await run_maintenance(bookies)
    [began] = log.fields("limbo began")
    assert began["story"].endswith("s: STARTING -> WRITABLE by ADMIT_ALL")
    assert (began["bookie"], began["reason"]) == (bookies[0].bookie_id, bookies[0].limbo_reason)
    assert [bookie.storage.states.limbo.is_active for bookie in bookies] == [True, False, False]
    async with ledger_client(world) as client:
        closed = await client.recover(ledger_id, PASSWORD)
    assert closed.last_entry_id == ACKNOWLEDGED - 1
    with recorded_log() as log:
        await run_maintenance(bookies)
        await run_maintenance(bookies)
    assert [ended["bookie"] for ended in log.fields("limbo ended")] == [bookies[0].bookie_id]
    assert not bookies[0].storage.states.limbo.is_active
    for bookie in bookies:
        await bookie.aclose()
    await world.aclose()
