"""Formatting, damaged identity files, and storage that belongs elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from rhumbline.core.bookie.identity import (
    IDENTITY_FILE,
    decode_identity,
    encode_identity,
    read_identity,
    repair_identity,
)
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    RhumblineError,
    WrongClusterError,
)
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk


async def test_interrupted_format_can_be_repeated() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    disk.files[f"{IDENTITY_FILE}.new"] = bytearray(b"{half")
    with pytest.raises(ForeignDataError, match="never formatted"):
        await world.open(disk)
    await world.format(disk)
    bookie = await world.open(disk)
    await bookie.aclose()


async def test_identity_file_that_is_lost_during_a_start_is_written_again() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    await world.format(disk)
    identity = await read_identity(disk)
    await disk.remove(IDENTITY_FILE)
    await repair_identity(disk, identity)
    assert await read_identity(disk) == identity


async def test_wrong_storage_is_refused_with_a_clear_error() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    with pytest.raises(ForeignDataError, match="never formatted"):
        await world.open(disk)
    await world.format(disk)
    with pytest.raises(ForeignDataError, match="already holds a bookie's storage"):
        await world.format(disk)
    foreign = MemoryDisk()
    foreign.files["photo.jpg"] = bytearray(b"x")
    with pytest.raises(ForeignDataError, match=r"not empty .*photo"):
        await world.format(foreign)
    with pytest.raises(ForeignDataError, match="not a bookie's storage"):
        await world.open(foreign)
    bookie = await world.open(disk)
    with pytest.raises(ConfigurationError, match="cannot listen"):
        await bookie.serve("127.0.0.1", bookie.port)
    await bookie.aclose()
    for change, error, words in (
        ({"instance_id": "other"}, WrongClusterError, "belongs to cluster other"),
        ({"version": 2}, ForeignDataError, "format version 2"),
        ({"region": "west"}, WrongClusterError, "is in region west"),
        ({"bookie_id": "b1@00000000"}, WrongClusterError, "no cookie"),
    ):
        await refuses(world, disk, change, error, words)
    corrupt = disk.copy()
    corrupt.files[IDENTITY_FILE][5] ^= 1
    corrupt.files[IDENTITY_FILE][4096 + 5] ^= 1
    with pytest.raises(CorruptionError, match="decommission the bookie"):
        await world.open(corrupt)
    emptied = disk.copy()
    for path in [path for path in emptied.files if path.startswith("log/")]:
        del emptied.files[path]
    with pytest.raises(CorruptionError, match="log of this bookie is missing"):
        await world.open(emptied)
    await world.aclose()


@pytest.mark.parametrize("number", range(8))
async def test_identity_file_is_repaired_after_a_flipped_bit_or_a_lost_block(
    number: int,
) -> None:
    disk = MemoryDisk()
    async with one_bookie(disk=disk) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        await bookie.aclose()
        original = decode_identity(bytes(disk.files[IDENTITY_FILE]))
        random = Random(number)
        corrupt = disk.copy()
        if number < 6:
            at = random.randrange(200) + 4096 * (number % 2)
            corrupt.files[IDENTITY_FILE][at] ^= 1 << random.randrange(8)
        else:
            start = 4096 * (number % 2)
            corrupt.files[IDENTITY_FILE][start : start + 4096] = bytes(4096)
        again = await world.open(corrupt)
        assert again.bookie_id == bookie.bookie_id
        assert not again.storage.states.limbo.is_active
        await again.aclose()
        repaired = bytes(corrupt.files[IDENTITY_FILE])
        assert repaired[:4096] == repaired[4096:]
        assert decode_identity(repaired).start == original.start + 1


async def refuses(
    world: World,
    disk: MemoryDisk,
    change: Mapping[str, object],
    error: type[RhumblineError],
    words: str,
) -> None:
    """Opening the storage with a changed identity raises this error."""
    other = disk.copy()
    identity = decode_identity(bytes(other.files[IDENTITY_FILE]))
    changed = encode_identity(replace(identity, **change))  # type: ignore[arg-type]
    other.files[IDENTITY_FILE] = bytearray(changed)
    with pytest.raises(error, match=words):
        await world.open(other)
