"""Formatting, damaged identity files, and storage that belongs elsewhere."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import pytest

from rhumbline.core.bookie.identity import (
    IDENTITY_FILE,
    Identity,
    check_identity,
    cookie_of,
    decode_identity,
    encode_identity,
    read_identity,
    repair_identity,
    write_identity,
)
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    ConfigurationError,
    CorruptionError,
    ForeignDataError,
    RhumblineError,
    WrongClusterError,
)
from rhumbline.core.wire.cookie import Cookie, encode
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import World, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk
from rhumbline.tests.unit.core.bookie.recording_disk import RecordingDisk

ME = Identity(BookieId("b1@00c0ffee"), "cluster", Region("eu"), Region("r1"))


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
        ({"version": 3}, ForeignDataError, "format version 3"),
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


def test_identity_file_has_two_copies_of_a_fixed_text() -> None:
    line = (
        b'{"bookie_id": "b1@00c0ffee", "instance_id": "cluster", "previous_token": "", '
        b'"rack": "r1", "region": "eu", "start": 0, "token": "", "version": 1, '
        b'"was_opened": false}'
    )
    copy = (line + b"\n886c4e40\n").ljust(4096, b"\n")
    assert encode_identity(ME) == copy + copy
    assert decode_identity(copy) == ME


def test_cookie_names_the_folders_of_the_storage() -> None:
    assert cookie_of(ME) == Cookie(ME.bookie_id, "log", ("sorted",), "cluster", ("index",))


async def test_folder_of_the_file_system_does_not_make_a_directory_foreign() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    await disk.make_directory("lost+found")
    with pytest.raises(ForeignDataError, match="never formatted"):
        await read_identity(disk)
    await world.format(disk)
    await world.aclose()


async def test_identity_is_written_beside_the_old_one_which_it_replaces() -> None:
    disk = RecordingDisk()
    disk.files[f"{IDENTITY_FILE}.new"] = bytearray(b"{half")
    await write_identity(disk, ME)
    assert disk.taken() == [
        ("remove", "identity.new"),
        ("create", "identity.new", 0),
        ("write_durable", "identity.new", 0),
        ("close", "identity.new"),
        ("rename", "identity.new", "identity"),
        ("sync_directory", ""),
    ]
    await write_identity(disk, replace(ME, start=1))
    assert disk.taken()[0] == ("create", "identity.new", 0)


async def test_identity_is_read_with_a_bound_and_written_only_if_it_is_damaged() -> None:
    disk = RecordingDisk()
    await write_identity(disk, ME)
    disk.taken()
    reading = [("read", "identity", 0, 65536), ("close", "identity")]
    assert await read_identity(disk) == ME
    assert disk.taken() == reading
    await repair_identity(disk, ME)
    assert disk.taken() == reading
    disk.files[IDENTITY_FILE][4096] ^= 1
    await repair_identity(disk, ME)
    assert disk.taken()[:3] == [*reading, ("create", "identity.new", 0)]
    assert bytes(disk.files[IDENTITY_FILE]) == encode_identity(ME)
    disk.files[IDENTITY_FILE][:] = b"photo"
    disk.taken()
    with pytest.raises(ForeignDataError, match="is not the identity file"):
        await read_identity(disk)
    assert disk.taken() == reading


@pytest.mark.parametrize("at", [0, 4096])
def test_damaged_copy_tells_more_than_one_that_is_no_identity(at: int) -> None:
    data = bytearray(encode_identity(ME))
    data[at + 5] ^= 1
    data[4096 - at] = 0
    with pytest.raises(CorruptionError):
        decode_identity(bytes(data))


@pytest.mark.parametrize("change", [{"bookie_id": "b 1"}, {"region": "e u"}, {"bookie_id": 7}])
def test_identity_with_a_valid_checksum_and_invalid_names_is_corrupt(
    change: Mapping[str, object],
) -> None:
    changed = replace(ME, **change)  # type: ignore[arg-type]
    with pytest.raises(CorruptionError, match="'identity' is damaged"):
        decode_identity(encode_identity(changed))


async def test_cookie_of_another_bookie_is_refused() -> None:
    world = World()
    await world.start()
    disk = MemoryDisk()
    await world.format(disk)
    identity = await read_identity(disk)
    await check_identity(identity, world.directory)
    own, path = cookie_of(identity), Paths().cookie(identity.bookie_id)
    for cookie in (
        replace(own, bookie_id=BookieId("b2@00000002")),
        replace(own, instance_id="other"),
    ):
        await world.store.put(path, encode(cookie))
        with pytest.raises(WrongClusterError, match="belongs to another bookie"):
            await check_identity(identity, world.directory)
    await world.aclose()
