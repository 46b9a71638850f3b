"""A start cuts a torn end, reports damage, and denies nothing that may have been lost."""

from dataclasses import replace

import pytest

from rhumbline.core.bookie.bookie import Bookie
from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.log.end_marker import END_MARKER_PATH
from rhumbline.core.bookie.log.log_format import FILE_HEADER_BYTES, GROUP_MAGIC
from rhumbline.core.bookie.maintenance.limbo_recovery import end_limbo
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.small_files import (
    SMALL,
    fill,
    log_paths,
    tear_last_group,
    withdraw_last_ack,
    written_end,
)


async def killed_and_closed(ledgers: int) -> tuple[World, MemoryDisk, MemoryDisk]:
    """Return a world, and the disks of its bookie after a kill and after an orderly shutdown.

    The bookie holds 5 entries of each ledger.
    """
    world = World()
    await world.start()
    while await world.ledgers.next_id() < ledgers + 9:
        pass
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    bookie = await world.open(disk, SMALL)
    wire = await Wire.connect(bookie)
    for ledger_id in range(1, ledgers + 1):
        await world.make_ledger(ledger_id, bookie_id)
        for number in range(5):
            assert await wire.add(entry(ledger_id, number)) == Code.OK
    killed = disk.copy()
    await wire.aclose()
    await bookie.aclose()
    return world, killed, disk


async def test_torn_end_is_cut_and_nothing_before_it_is_lost() -> None:
    world, killed, _ = await killed_and_closed(1)
    (path,) = log_paths(killed)
    content = bytes(killed.files[path][: written_end(killed, path)])
    last = content.rindex(GROUP_MAGIC)
    for end in range(last, len(content), 7):
        image = killed.copy()
        padding = bytes(end % 2 * 2_000)
        image.files[path] = bytearray(content[:end] + padding)
        withdraw_last_ack(image)
        bookie = await world.open(image, SMALL)
        assert bookie.storage.damages == []
        assert bookie.storage.last_entry(1) == 3
        assert not bookie.storage.states.limbo.is_active
        await bookie.aclose()
    await world.aclose()


@pytest.mark.parametrize("boot", ["boot-1", "boot-2", ""])
async def test_log_that_lost_acknowledged_groups_at_its_end_is_damaged(boot: str) -> None:
    """Within one boot a cut log used to be taken for a torn write.

    With another boot or none, a cut between two groups was never noticed.
    """
    world, killed, closed = await killed_and_closed(2)
    for disk in (killed, closed):
        (path,) = log_paths(disk)
        content = bytes(disk.files[path])
        groups = [at for at in range(len(content)) if content.startswith(GROUP_MAGIC, at)]
        for end in [FILE_HEADER_BYTES, *groups, *(at + 50 for at in groups)]:
            image = disk.copy()
            del image.files[path][end:]
            bookie = await world.open(image, replace(SMALL, boot_id=boot))
            assert bookie.storage.states.limbo.is_active, end
            assert bookie.storage.damages[0].number == 1
            await bookie.aclose()
    await world.aclose()


async def test_log_without_the_snapshot_at_its_beginning_is_damaged_even_without_a_marker() -> None:
    """A log of which only the header is left used to deny its entries."""
    world, killed, _ = await killed_and_closed(1)
    (first,) = log_paths(killed)
    bookie = await world.open(killed, SMALL)
    wire = await Wire.connect(bookie)
    assert await wire.add(entry(1, 5)) == Code.OK
    image = killed.copy()
    await wire.aclose()
    await bookie.aclose()
    newest = max(log_paths(image))
    assert newest != first
    for keep in (0, 100, FILE_HEADER_BYTES, FILE_HEADER_BYTES + 60):
        cut = image.copy()
        del cut.files[newest][keep:]
        del cut.files[END_MARKER_PATH]
        bookie = await world.open(cut, SMALL)
        assert bookie.storage.states.limbo.is_active, keep
        await bookie.aclose()
    await world.aclose()


TORN = (b"RHUMEND\0" + b"torn" * 126) * 2


@pytest.mark.parametrize("boot_id", ["one", "two"])
@pytest.mark.parametrize("content", [None, b"", b"rot" * 100, TORN[:1_000], bytes(1_024), TORN])
async def test_unreadable_marker_is_damage_unless_a_crash_of_the_machine_explains_it(
    boot_id: str, content: bytes | None
) -> None:
    """The log may be cut anywhere, and look like one that a killed process left."""
    is_damage = boot_id == "one" or content != TORN
    world = World()
    await world.start()
    disk = MemoryDisk()
    bookie_id = await world.format(disk)
    bookie = await world.open(disk, replace(SMALL, boot_id="one"))
    await world.make_ledger(1, bookie_id)
    wire = await Wire.connect(bookie)
    for number in range(5):
        assert await wire.add(entry(1, number)) == Code.OK
    killed = disk.copy()
    await wire.aclose()
    await bookie.aclose()
    if content is None:
        del killed.files[END_MARKER_PATH]
    else:
        killed.files[END_MARKER_PATH][:] = content
    bookie = await world.open(killed, replace(SMALL, boot_id=boot_id))
    assert bookie.storage.states.limbo.is_active is is_damage
    assert ("the end marker is damaged" in bookie.limbo_reason) is is_damage
    await bookie.aclose()
    del disk.files[END_MARKER_PATH]
    bookie = await world.open(disk, replace(SMALL, boot_id=boot_id))
    assert not bookie.storage.states.limbo.is_active, "the orderly shutdown is in the log"
    await bookie.aclose()
    await world.aclose()


async def test_missing_newest_log_is_noticed_by_its_marker_if_the_seal_is_lost_too() -> None:
    world, killed, _ = await killed_and_closed(1)
    bookie = await world.open(killed, SMALL)
    image = killed.copy()
    await bookie.aclose()
    sealed, newest = log_paths(image)
    del image.files[newest]
    content = image.files[sealed]
    del content[content.rindex(GROUP_MAGIC) :]
    bookie = await world.open(image, SMALL)
    assert bookie.storage.states.limbo.is_active
    assert [damage.reason for damage in bookie.storage.damages] == ["log 2 is missing"]
    await bookie.aclose()
    await world.aclose()


@pytest.mark.parametrize("which", [4, -1])
async def test_corrupt_group_is_damage_and_lost_entries_are_unknown(which: int) -> None:
    world, image, _ = await killed_and_closed(2)
    (path,) = log_paths(image)
    content = image.files[path]
    offsets = range(FILE_HEADER_BYTES, len(content))
    heads = [at for at in offsets if content.startswith(GROUP_MAGIC, at)]
    content[heads[which] + 60] ^= 0x10
    bookie = await world.open(image, SMALL)
    assert len(bookie.storage.damages) == 1
    wire = await Wire.connect(bookie)
    assert await wire.read(1, 0) == (Code.OK, entry(1, 0))
    assert (await wire.read(2, 77))[0] == Code.IO
    assert await wire.add(entry(2, 5)) == Code.IO
    assert await wire.fence(2, 77) == Code.IO
    assert await wire.fence(8) == Code.IO
    assert await wire.add(entry(2, 5), v2.FLAG_RECOVERY_ADD) == Code.OK
    await check_leaving_limbo(world, bookie, wire)
    await wire.aclose()
    await bookie.aclose()
    await world.aclose()


async def check_leaving_limbo(world: World, bookie: Bookie, wire: Wire) -> None:
    """New ledgers are not in limbo, and a closed ledger leaves it when it is complete."""

    async def fetch(ledger_id: int, entry_id: int) -> bytes | None:
        return entry(ledger_id, entry_id)

    await bookie.maintenance.step()
    bound = bookie.storage.states.limbo.bounds[0]
    new = await world.ledgers.next_id()
    assert new >= bound
    await world.make_ledger(new, bookie.bookie_id)
    assert await wire.add(entry(new, 0)) == Code.OK
    assert await wire.fence(new, 1) == Code.NO_ENTRY
    assert (await wire.read(2, 77))[0] == Code.IO
    metadata, version = await world.ledgers.read(2)
    if metadata.last_entry_id < 0:
        await world.ledgers.write(metadata.closed(4, 25), version)
    bookie.scrubber.fetch = fetch
    await bookie.maintenance.step()
    assert (await wire.read(2, 77))[0] == Code.NO_ENTRY
    assert (await wire.read(1, 77))[0] == Code.IO


@pytest.mark.parametrize("kind", ["log", "sorted"])
async def test_lost_file_is_reported_once_and_the_others_are_compacted(kind: str) -> None:
    async def start(config: BookieConfig) -> Bookie:
        return await world.open(disk, config)

    kept = replace(SMALL, sealed_logs_kept=4)
    disk = MemoryDisk()
    async with one_bookie(kept, disk) as (world, first, _):
        await first.aclose()
        bookie = await start(kept)
        wire = await Wire.connect(bookie)
        await fill(wire, 200)
        await bookie.maintenance.step()
        assert len(bookie.storage.sorted) > 1
        await wire.aclose()
        await bookie.aclose()

        del disk.files[min(path for path in disk.files if path.startswith(f"{kind}/"))]
        bookie = await start(kept)
        assert [damage.start for damage in bookie.storage.damages] == [0]
        wire = await Wire.connect(bookie)
        responses = [(await wire.read(2, number))[0] for number in range(200)]
        assert set(responses) == {Code.OK, Code.IO}
        await bookie.maintenance.step()
        await end_limbo(bookie.storage)  # as an operator's command does
        await wire.aclose()
        await bookie.aclose()

        again = await start(SMALL)
        assert again.storage.damages == []
        assert not again.storage.states.limbo.is_active
        wire = await Wire.connect(again)
        codes = [(await wire.read(2, number))[0] for number in range(200)]
        lost = [number for number, code in enumerate(codes) if code != Code.OK]
        assert lost == [number for number, code in enumerate(responses) if code != Code.OK]
        assert {codes[number] for number in lost} == {Code.NO_ENTRY}, (
            "repair can list the missing entries"
        )
        await again.maintenance.step()
        assert again.statistics()["sealed_logs"] == 0
        assert again.statistics()["maintenance_failures"] == 0
        assert [(await wire.read(2, number))[0] for number in range(200)] == codes
        await wire.aclose()
        await again.aclose()


async def test_torn_end_after_an_operating_system_crash_begins_limbo() -> None:
    world, killed, closed = await killed_and_closed(1)
    torn = killed.copy()
    tear_last_group(torn)
    for image, boot, in_limbo in (
        (torn, "boot-1", False),
        (torn, "boot-2", True),
        (torn, "", False),
        (killed, "boot-2", False),
        (closed, "boot-2", False),
    ):
        bookie = await world.open(image.copy(), replace(SMALL, boot_id=boot))
        assert bookie.storage.states.limbo.is_active == in_limbo, boot
        if in_limbo:
            await end_limbo(bookie.storage)
            assert bookie.storage.states.ledgers[1].accepts_adds
        await bookie.aclose()
    await world.aclose()


async def test_limbo_survives_restarts() -> None:
    world, killed, _ = await killed_and_closed(1)
    (path,) = log_paths(killed)
    killed.files[path][written_end(killed, path) - 1] ^= 1
    bookie = await world.open(killed, SMALL)
    assert bookie.storage.states.limbo.is_active
    await bookie.aclose()
    again = await world.open(killed, SMALL)
    assert again.storage.states.limbo.is_active
    wire = await Wire.connect(again)
    assert (await wire.read(1, 77))[0] == Code.IO
    await wire.aclose()
    await again.aclose()
    await world.aclose()


async def test_only_log_without_a_header_is_a_missing_log() -> None:
    world, killed, _ = await killed_and_closed(1)
    (path,) = log_paths(killed)
    killed.files[path][:FILE_HEADER_BYTES] = bytes(FILE_HEADER_BYTES)
    with pytest.raises(CorruptionError, match="the write log of this bookie is missing"):
        await world.open(killed, SMALL)
    assert path in killed.files
    await world.aclose()
