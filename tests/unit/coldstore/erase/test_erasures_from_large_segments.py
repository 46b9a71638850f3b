"""Segments that exceed one file are written to several files (rule ARC-71)."""

import random

import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder
from rhumbline.coldstore.archive.catalog import scan_manifests
from rhumbline.coldstore.compact.compactor import MIB, ArchiveCompactor, CompactionConfig
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.erase.eraser import ArchiveEraser
from rhumbline.coldstore.erase.proofs import proofs
from rhumbline.coldstore.proof.erasure_chain import stored_relocations
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import InvalidArgumentError, UnavailableError
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    comparable,
    read_records,
)
from rhumbline.tests.unit.coldstore.compact.compaction_world import CrashingStore
from rhumbline.tests.unit.coldstore.erase.test_eraser import (
    BY_KEY,
    ERASURE,
    KEY,
    LATE_MS,
    faults,
    reopen,
    settle,
    stored_keys,
)

OBJECT_BYTES = 24_000
FILE_BYTES = 12_000
PARTS = ArchiveConfig(part_bytes=6000, row_group_bytes=3000)


class LimitedStore(CrashingStore):
    """A cold store that refuses large objects, as every real one does."""

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        if key.endswith(".parquet") and len(data) > OBJECT_BYTES:
            raise InvalidArgumentError(f"{key}: {len(data)} bytes are more than {OBJECT_BYTES}")
        return await super().put_if_absent(key, data)


async def archived(world: LogWorld, cold: DictColdStore) -> ArchiveFolder:
    """Archive a segment of about 40 kB between two small ones."""
    source = random.Random(7)
    for number, records in enumerate((5, 40, 5)):
        writer = await world.writer("s", StreamPolicy(roll_bytes=1 << 40, hot_retention_ms=0))
        for n in range(records):
            writer.append(
                source.randbytes(1000), 1 + 100 * number + n, key=KEY if n % 9 == 4 else b"%d" % n
            )
            await writer.flush()
        await writer.close()
    manifests = await archive_segments(world, cold, config=PARTS)
    world.clock.now_ms += 10_000
    await world.namespace.maintain("s")
    assert [len(one.parts) > 1 for one in manifests] == [False, True, False]
    return manifests[0].folder


async def erase(cold: DictColdStore) -> None:
    def wall_ms() -> int:
        return LATE_MS

    eraser = ArchiveEraser(cold, BY_KEY, wall_ms=wall_ms, file_bytes=FILE_BYTES)
    listing = await scan_manifests(cold)
    for folder in sorted(listing.folders):
        groups = eraser.groups(listing, folder)
        written = [await eraser.write(group, number) for number, group in enumerate(groups)]
        moves = [one for one in written if one is not None]
        if moves:
            await eraser.commit(moves, ERASURE)


def sizes(cold: DictColdStore) -> list[int]:
    return [len(data) for key, data in cold.objects.items() if key.endswith(".parquet")]


async def test_records_are_erased_from_a_segment_that_exceeds_a_file(world: LogWorld) -> None:
    cold = LimitedStore()
    folder = await archived(world, cold)
    truth = comparable(await read_records(world))
    kept = [one for one in truth if one[6] != KEY]
    assert 0 < len(kept) < len(truth)
    await erase(cold)
    assert await faults(cold) == []
    assert comparable(await read_records(world)) == kept
    counts = [len(one.parts) for one in (await scan_manifests(cold)).manifests]
    assert counts[0] == counts[2] == 1 < counts[1]
    await settle(cold)
    reopen(world, cold)
    assert comparable(await read_records(world)) == kept
    assert await faults(cold) == []
    assert KEY not in stored_keys(cold)
    assert len(sizes(cold)) == sum(counts), "one file for each part"
    assert max(sizes(cold)) < OBJECT_BYTES
    (proof,) = proofs(await stored_relocations(cold, folder))
    assert sum(proof.records.values()) == len(truth) - len(kept)
    for start in kept[::7]:
        assert comparable(await read_records(world, start[0])) == kept[kept.index(start) :]  # type: ignore[arg-type]


async def test_records_can_be_erased_again_from_several_files(world: LogWorld) -> None:
    cold = LimitedStore()
    await archived(world, cold)
    truth = comparable(await read_records(world))
    await erase(cold)
    middle = await scan_manifests(cold)
    await erase(cold)
    assert await scan_manifests(cold) == middle, "nothing is left to erase"
    await settle(cold)
    assert comparable(await read_records(world)) == [one for one in truth if one[6] != KEY]


@pytest.mark.long
async def test_an_erasure_from_several_files_is_finished_after_any_kill(world: LogWorld) -> None:
    original = LimitedStore()
    await archived(world, original)
    truth = comparable(await read_records(world))
    kept = [one for one in truth if one[6] != KEY]
    counting = LimitedStore()
    counting.objects = dict(original.objects)
    await erase(counting)
    await settle(counting)
    for step in range(1, counting.changes + 1):
        cold = LimitedStore()
        cold.objects, cold.crash_at = dict(original.objects), step
        reopen(world, cold)
        with pytest.raises(UnavailableError, match="killed"):
            await erase(cold)
            await settle(cold)
        assert comparable(await read_records(world)) in (truth, kept), step
        assert await faults(cold) == [], step
        cold.crash_at = None
        await erase(cold)
        await settle(cold, LATE_MS + 48 * 3_600_000)
        assert comparable(await read_records(world)) == kept, step
        assert KEY not in stored_keys(cold), step
        assert await faults(cold) == [], step


async def test_a_compaction_to_files_that_stores_refuse_is_refused() -> None:
    CompactionConfig(file_bytes=192 * MIB)
    with pytest.raises(InvalidArgumentError, match="193 MiB are not of 1 to 192 MiB"):
        ArchiveCompactor(DictColdStore(), CompactionConfig(file_bytes=193 * MIB), wall_ms=lambda: 1)
