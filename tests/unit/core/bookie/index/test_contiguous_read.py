"""Entries that stand close together come with one read of the disk, and are checked one by one."""

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


def laid_out(sizes: list[int], gaps: list[int], start: int = 1000) -> list[Location]:
    """Entries of these sizes, with so many other bytes before the header of each."""
    places = []
    at = start
    for size, gap in zip(sizes, gaps, strict=True):
        at += gap + 8
        places.append(Location(at, size))
        at += size
    return places


def run_of(places: list[Location], count_max: int = ALL, bytes_max: int = ALL) -> int:
    found = contiguous_read.run_from(
        places[0], lambda at: places[at] if at < len(places) else None, count_max, bytes_max
    )
    assert found == places[: len(found)]
    return len(found)


def test_run_ends_at_a_gap_a_limit_or_another_file() -> None:
    places = laid_out([100] * 6, [0, 0, 44, 4088, 4089, 0])
    assert run_of(places) == 4
    assert run_of(places, count_max=3) == 3
    assert run_of(places, bytes_max=299) == 2
    assert run_of(places, bytes_max=1) == 1
    assert (
        run_of(laid_out([contiguous_read.SPAN_BYTES_MAX // 4] * 5, [0] * 5)) == 3
    )  # headers count
    assert run_of(laid_out([contiguous_read.SPAN_BYTES_MAX + 1, 10], [0, 0])) == 1
    other = [Location((1 << OFFSET_BITS) + 512, 100), Location((2 << OFFSET_BITS) + 520, 100)]
    assert run_of(other) == 1
    assert run_of([Location(9_000, 100), Location(2_000, 100)]) == 1  # rewritten, out of order


def test_mixed_sizes_come_out_as_they_went_in() -> None:
    random = Random(4)
    for sparse in (False, True):
        sizes = [random.choice((0, 1, 7, 100, 5_000)) for _ in range(60)]
        whole = [entry(7, 5 + at, random.randbytes(size)) for at, size in enumerate(sizes)]
        gaps = [random.randrange(2_000 if sparse else 20) for _ in whole]
        places = laid_out([len(one) for one in whole], gaps)
        start, _ = contiguous_read.span_of(places)
        data = b"".join(
            bytes(gap) + encode_record(one) for gap, one in zip(gaps, whole, strict=True)
        )[gaps[0] :]
        assert start == places[0].position - 8
        found = contiguous_read.entries_in(data, 7, 5, places)
        assert found == whole
        is_sparse = 2 * sum(map(len, whole)) < len(data)
        assert all(isinstance(one, bytes) == is_sparse for one in found), "views keep little else"


def test_bad_entry_ends_what_is_given_and_is_an_error_at_the_start() -> None:
    whole = [entry(7, at, bytes(100)) for at in range(4)]
    places = laid_out([len(one) for one in whole], [0] * 4)
    good = b"".join(map(encode_record, whole))
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 4
        number = at // len(encode_record(whole[0]))
        if number:
            assert contiguous_read.entries_in(bytes(bad), 7, 0, places) == whole[:number]
        else:
            with pytest.raises(CorruptionError):
                contiguous_read.entries_in(bytes(bad), 7, 0, places)
    for kept in range(0, len(good), 37):
        if kept < len(encode_record(whole[0])):
            with pytest.raises(CorruptionError):
                contiguous_read.entries_in(good[:kept], 7, 0, places)
        else:
            count = kept // len(encode_record(whole[0]))
            assert contiguous_read.entries_in(good[:kept], 7, 0, places) == whole[:count]
    with pytest.raises(CorruptionError, match="another entry"):
        contiguous_read.entries_in(good, 8, 0, places)
    with pytest.raises(CorruptionError, match="another entry"):
        contiguous_read.entries_in(good, 7, 1, places)


async def batch(wire: Wire, first: int, count: int = 0, size: int = 0) -> tuple[int, list[bytes]]:
    answer = await wire.ask(v2.encode_batch_read(1, first, 9, count_max=count, bytes_max=size))
    assert isinstance(answer, v2.BatchReadResponse)
    return answer.code, [bytes(one) for one in answer.entries]


def test_batch_read_of_neighbours_is_one_read_of_the_disk() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        sizes = [10, 70_000, 3, 5_000, 200_000, 0, 40]
        stored = [entry(1, at, bytes([at]) * size) for at, size in enumerate(sizes)]
        async with one_bookie(CONFIG, disk) as (_, _, wire):
            for one in stored:
                assert await wire.add(one) == Code.OK
            before = disk.read_count
            assert await batch(wire, 0) == (Code.OK, stored)
            assert disk.read_count == before + 1
            assert await batch(wire, 2, count=3) == (Code.OK, stored[2:5])
            assert disk.read_count == before + 2
            limit = 40 + sum(4 + len(one) for one in stored[:3])
            assert await batch(wire, 0, size=limit) == (Code.OK, stored[:3])
            assert await batch(wire, 0, size=limit - 1) == (Code.OK, stored[:2])
            before = disk.read_count  # what does not fit is not read in vain
            assert await batch(wire, 0, size=limit - 20) == (Code.OK, stored[:2])
            assert disk.read_count == before + 1

    asyncio.run(main())


def test_rot_within_a_run_is_never_served_nor_denied() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        stored = [entry(1, at, bytes([at]) * 3_000) for at in range(8)]
        async with one_bookie(CONFIG, disk) as (_, _, wire):
            for one in stored:
                assert await wire.add(one) == Code.OK
            (log,) = [path for path in disk.files if path.startswith("log/")]
            at = disk.files[log].index(stored[3]) + 1_000
            disk.files[log][at] ^= 1
            assert await batch(wire, 0) == (Code.OK, stored[:3])
            assert await batch(wire, 3) == (Code.IO, [])
            assert await batch(wire, 4) == (Code.OK, stored[4:])

    asyncio.run(main())


def test_entries_that_moved_to_another_file_are_found_there() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        config = BookieConfig(
            log_file_bytes=20_000, tail_cache_bytes=0, sealed_logs_kept=0, maintenance_ms=3_600_000
        )
        stored = [entry(1, at, bytes([at]) * 3_000) for at in range(30)]
        async with one_bookie(config, disk) as (_, bookie, wire):
            for one in stored:
                assert await wire.add(one) == Code.OK
            disk.read_s = 0.01
            asked = asyncio.gather(*(batch_of(bookie.port, first) for first in range(0, 30, 3)))
            await asyncio.sleep(0.005)
            await bookie.maintenance.step()
            for first, found in zip(range(0, 30, 3), await asked, strict=True):
                assert found
                assert found == stored[first : first + len(found)]

    asyncio.run(main())


async def batch_of(port: int, first: int) -> list[bytes]:
    wire = Wire(*await asyncio.open_connection("127.0.0.1", port))
    code, found = await batch(wire, first)
    wire.writer.close()
    assert code == Code.OK
    return found
