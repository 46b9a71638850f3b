"""Entries that are close together are read with one disk read and verified one by one."""

import asyncio
from random import Random

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.index import contiguous_read
from rhumbline.core.bookie.index.ledger_entries import Location
from rhumbline.core.bookie.log.log_format import OFFSET_BITS, encode_record
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire import v2
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import Wire, entry, one_bookie
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ALL = 1 << 30
CONFIG = BookieConfig(log_file_bytes=64 << 20, tail_cache_bytes=0)


def locations_of(sizes: list[int], gaps: list[int], start: int = 1000) -> list[Location]:
    """Return locations of entries with these sizes, and gaps before their headers."""
    locations = []
    at = start
    for size, gap in zip(sizes, gaps, strict=True):
        at += gap + 8
        locations.append(Location(at, size))
        at += size
    return locations


def run_length(locations: list[Location], count_max: int = ALL, bytes_max: int = ALL) -> int:
    found = contiguous_read.run_from(
        locations[0],
        lambda at: locations[at] if at < len(locations) else None,
        count_max,
        bytes_max,
    )
    assert found == locations[: len(found)]
    return len(found)


def test_run_ends_at_a_gap_a_limit_or_another_file() -> None:
    largest = contiguous_read.GAP_BYTES_MAX - 8  # a header follows
    locations = locations_of([100] * 6, [0, 0, 44, largest, largest + 1, 0])
    assert run_length(locations) == 4
    assert run_length(locations, count_max=3) == 3
    assert run_length(locations, bytes_max=299) == 2
    assert run_length(locations, bytes_max=1) == 1
    assert (
        run_length(locations_of([contiguous_read.SPAN_BYTES_MAX // 4] * 5, [0] * 5)) == 3
    )  # headers count
    assert run_length(locations_of([contiguous_read.SPAN_BYTES_MAX + 1, 10], [0, 0])) == 1
    assert run_length(locations_of([10] * 300, [0] * 300)) == contiguous_read.RUN_ENTRIES_MAX
    other = [Location((1 << OFFSET_BITS) + 512, 100), Location((2 << OFFSET_BITS) + 520, 100)]
    assert run_length(other) == 1
    assert run_length([Location(9_000, 100), Location(2_000, 100)]) == 1  # rewritten, out of order


def test_entries_of_mixed_sizes_are_read_back() -> None:
    random = Random(4)
    for sparse in (False, True):
        sizes = [random.choice((0, 1, 7, 100, 5_000)) for _ in range(60)]
        entries = [entry(7, 5 + at, random.randbytes(size)) for at, size in enumerate(sizes)]
        gaps = [random.randrange(2_000 if sparse else 20) for _ in entries]
        locations = locations_of([len(item) for item in entries], gaps)
        start, _ = contiguous_read.span_of(locations)
        data = b"".join(
            bytes(gap) + encode_record(item) for gap, item in zip(gaps, entries, strict=True)
        )[gaps[0] :]
        assert start == locations[0].position - 8
        found = contiguous_read.entries_in(data, 7, 5, locations)
        assert found == entries
        is_sparse = 2 * sum(map(len, entries)) < len(data)
        assert all(isinstance(item, bytes) == is_sparse for item in found), (
            "views keep little other data"
        )


def test_bad_entry_ends_the_run_or_raises_if_it_is_the_first() -> None:
    entries = [entry(7, at, bytes(100)) for at in range(4)]
    locations = locations_of([len(item) for item in entries], [0] * 4)
    good = b"".join(map(encode_record, entries))
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 4
        number = at // len(encode_record(entries[0]))
        if number:
            assert contiguous_read.entries_in(bytes(bad), 7, 0, locations) == entries[:number]
        else:
            with pytest.raises(CorruptionError):
                contiguous_read.entries_in(bytes(bad), 7, 0, locations)
    for kept in range(0, len(good), 37):
        if kept < len(encode_record(entries[0])):
            with pytest.raises(CorruptionError):
                contiguous_read.entries_in(good[:kept], 7, 0, locations)
        else:
            count = kept // len(encode_record(entries[0]))
            assert contiguous_read.entries_in(good[:kept], 7, 0, locations) == entries[:count]
    with pytest.raises(CorruptionError, match="another entry"):
        contiguous_read.entries_in(good, 8, 0, locations)
    with pytest.raises(CorruptionError, match="another entry"):
        contiguous_read.entries_in(good, 7, 1, locations)


async def batch(wire: Wire, first: int, count: int = 0, size: int = 0) -> tuple[int, list[bytes]]:
    response = await wire.request(
        v2.encode_batch_read(1, first, 9, count_max=count, bytes_max=size)
    )
    assert isinstance(response, v2.BatchReadResponse)
    return response.code, [bytes(item) for item in response.entries]


async def test_batch_read_of_adjacent_entries_is_one_disk_read() -> None:
    disk = MemoryDisk()
    sizes = [10, 70_000, 3, 5_000, 200_000, 0, 40]
    stored = [entry(1, at, bytes([at]) * size) for at, size in enumerate(sizes)]
    async with one_bookie(CONFIG, disk) as (_, _, wire):
        for item in stored:
            assert await wire.add(item) == Code.OK
        before = disk.read_count
        assert await batch(wire, 0) == (Code.OK, stored)
        assert disk.read_count == before + 1
        assert await batch(wire, 2, count=3) == (Code.OK, stored[2:5])
        assert disk.read_count == before + 2
        limit = 40 + sum(4 + len(item) for item in stored[:3])
        assert await batch(wire, 0, size=limit) == (Code.OK, stored[:3])
        assert await batch(wire, 0, size=limit - 1) == (Code.OK, stored[:2])
        before = disk.read_count  # an entry that does not fit is not read
        assert await batch(wire, 0, size=limit - 20) == (Code.OK, stored[:2])
        assert disk.read_count == before + 1


async def test_corrupt_entry_in_a_run_is_neither_served_nor_denied() -> None:
    disk = MemoryDisk()
    stored = [entry(1, at, bytes([at]) * 3_000) for at in range(8)]
    async with one_bookie(CONFIG, disk) as (_, _, wire):
        for item in stored:
            assert await wire.add(item) == Code.OK
        (log,) = [path for path in disk.files if path.startswith("log/")]
        at = disk.files[log].index(stored[3]) + 1_000
        disk.files[log][at] ^= 1
        assert await batch(wire, 0) == (Code.OK, stored[:3])
        assert await batch(wire, 3) == (Code.IO, [])
        assert await batch(wire, 4) == (Code.OK, stored[4:])


async def test_entries_that_moved_to_another_file_are_found() -> None:
    disk = MemoryDisk()
    config = BookieConfig(
        log_file_bytes=20_000, tail_cache_bytes=0, sealed_logs_kept=0, maintenance_ms=3_600_000
    )
    stored = [entry(1, at, bytes([at]) * 3_000) for at in range(30)]
    async with one_bookie(config, disk) as (_, bookie, wire):
        for item in stored:
            assert await wire.add(item) == Code.OK
        disk.read_s = 0.01
        asked = asyncio.gather(*(batch_of(bookie.port, first) for first in range(0, 30, 3)))
        await asyncio.sleep(0.005)
        await bookie.maintenance.step()
        for first, found in zip(range(0, 30, 3), await asked, strict=True):
            assert found
            assert found == stored[first : first + len(found)]


async def batch_of(port: int, first: int) -> list[bytes]:
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    code, found = await batch(wire, first)
    wire.writer.close()
    assert code == Code.OK
    return found
