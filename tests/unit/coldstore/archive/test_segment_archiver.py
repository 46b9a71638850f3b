"""A segment is archived completely or not at all, despite crashes, races and damage."""

import asyncio
from datetime import UTC, datetime

import pyarrow as pa
import pytest

from rhumbline.coldstore.archive.catalog import list_manifests, read_manifest
from rhumbline.coldstore.archive.part_file import PartFile
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.coldstore.config import ArchiveConfig
from rhumbline.coldstore.proof.verify import verify_segment
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    NoSuchObjectError,
    UnavailableError,
    UnknownOutcomeError,
)
from rhumbline.core.protocol.segments import Residence
from rhumbline.core.runtime.cold_store import ObjectStat
from rhumbline.tests.support.fakes.log_world import LogWorld


class MemoryColdStore:
    """A cold store in a dict whose call number ``fail_at`` fails or loses its reply."""

    uri = "memory:"

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.calls = 0
        self.fail_at: int | None = None
        self.lose_reply_at: int | None = None

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        self._step()
        await asyncio.sleep(0)
        is_new = self.objects.setdefault(key, data) is data
        if self.calls == self.lose_reply_at:
            raise UnknownOutcomeError("the reply was lost")
        return is_new

    async def get(self, key: str, offset: int = 0, length: int | None = None) -> bytes:
        self._step()
        if key not in self.objects:
            raise NoSuchObjectError(key)
        end = None if length is None else offset + length
        return self.objects[key][offset:end]

    async def stat(self, key: str) -> ObjectStat:
        return ObjectStat(len(await self.get(key)), None)

    async def list(self, prefix: str = "") -> list[str]:
        return sorted(key for key in self.objects if key.startswith(prefix))

    async def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    async def close(self) -> None:
        self.objects.clear()

    def _step(self) -> None:
        self.calls += 1
        if self.calls == self.fail_at:
            raise UnavailableError("simulated crash")


async def write_stream(world: LogWorld, segments: int = 2, records: int = 40) -> StreamStore:
    """Fill stream "s" with ``segments`` completed segments and an open one."""
    policy = StreamPolicy(roll_bytes=1 << 40)
    for number in range(segments + 1):
        writer = await world.writer("s", policy if number == 0 else None)
        for n in range(records):
            writer.append(f"segment {number} record {n}".encode())
            if n % 7 == 0:
                await writer.flush()
        await writer.flush()
        if number < segments:
            await writer.close()
    return StreamStore(world.store, "test")


def archiver(
    world: LogWorld,
    cold: MemoryColdStore,
    streams: StreamStore,
    config: ArchiveConfig | None = None,
) -> SegmentArchiver:
    return SegmentArchiver(world.runtime, cold, world.ledgers.client(), streams, config=config)


async def test_archived_segments_form_a_chain(world: LogWorld) -> None:
    streams, cold = await write_stream(world), MemoryColdStore()
    first = await archiver(world, cold, streams).archive("s", 1)
    second = await archiver(world, cold, streams).archive("s", 2)
    assert second.follows(first)
    assert first.record_count == 40
    for manifest in (first, second):
        await verify_segment(cold, manifest)
        stored = await streams.segment("s", manifest.lssn, manifest.stream_id)
        assert stored is not None
        assert stored.segment.residence is Residence.HOT_AND_ARCHIVE
    assert await archiver(world, cold, streams).archive("s", 1) == first, "a repeat changes nothing"


async def test_open_missing_and_out_of_order_segments_are_refused(world: LogWorld) -> None:
    streams, cold = await write_stream(world), MemoryColdStore()
    for lssn, message in (
        (3, "not completed"),
        (9, "not completed"),
        (2, "must be archived before"),
    ):
        with pytest.raises(InvalidArgumentError, match=message):
            await archiver(world, cold, streams).archive("s", lssn)


async def test_a_crash_at_any_step_leaves_no_archive_or_a_complete_one(world: LogWorld) -> None:
    streams = await write_stream(world)
    outcomes = set()
    for step in range(1, 12):
        cold = MemoryColdStore()
        cold.fail_at = step
        try:
            await archiver(world, cold, streams).archive("s", 1)
        except UnavailableError:
            cold.fail_at = None
            left = await list_manifests(cold)
            outcomes.add("complete" if left else "none")
            for manifest in left:
                await verify_segment(cold, manifest)
        cold.fail_at = None
        await verify_segment(cold, await archiver(world, cold, streams).archive("s", 1))
    assert "none" in outcomes


async def test_a_lost_reply_does_not_fail_the_archiver(world: LogWorld) -> None:
    streams = await write_stream(world)
    for step in range(1, 8):
        cold = MemoryColdStore()
        cold.lose_reply_at = step
        manifest = await archiver(world, cold, streams).archive("s", 1)
        await verify_segment(cold, manifest)


async def test_concurrent_archivers_make_one_archive(world: LogWorld) -> None:
    streams, cold = await write_stream(world), MemoryColdStore()
    attempts = [archiver(world, cold, streams).archive("s", 1) for _ in range(4)]
    found = [await task for task in [asyncio.ensure_future(attempt) for attempt in attempts]]
    assert len({manifest.parts for manifest in found}) == 1
    assert len(await cold.list("test/s")) == 2 + len(found[0].parts), (
        "parts of other attempts are deleted"
    )
    await verify_segment(cold, found[0])


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "swap"])
async def test_a_damaged_part_is_detected(world: LogWorld, damage: str) -> None:
    streams, cold = await write_stream(world), MemoryColdStore()
    manifest = await archiver(world, cold, streams).archive("s", 1)
    other = await archiver(world, cold, streams).archive("s", 2)
    key = next(k for k in cold.objects if k.endswith(manifest.parts[0].name))
    data = cold.objects[key]
    if damage == "flip":
        cold.objects[key] = data[:200] + bytes([data[200] ^ 1]) + data[201:]
    elif damage == "cut":
        cold.objects[key] = data[:-1]
    elif damage == "remove":
        del cold.objects[key]
    else:
        cold.objects[key] = next(
            v for k, v in cold.objects.items() if k.endswith(other.parts[0].name)
        )
    with pytest.raises(CorruptionError):
        await verify_segment(cold, manifest)


async def test_a_manifest_of_another_segment_is_refused(world: LogWorld) -> None:
    streams, cold = await write_stream(world), MemoryColdStore()
    manifest = await archiver(world, cold, streams).archive("s", 1)
    cold.objects[manifest.folder.manifest(2)] = cold.objects[manifest.key]
    with pytest.raises(CorruptionError, match="another segment"):
        await read_manifest(cold, manifest.folder, 2)


async def test_a_large_segment_has_several_parts(world: LogWorld) -> None:
    streams, cold = await write_stream(world), MemoryColdStore()
    small = ArchiveConfig(part_bytes=1, row_group_bytes=100)
    manifest = await archiver(world, cold, streams, small).archive("s", 1)
    assert len(manifest.parts) > 2
    await verify_segment(cold, manifest)


async def test_every_part_has_the_columns_of_attributes(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"plain")
    await writer.append(b"keyed", key=b"k", headers={"h": b"v"}, event_time=5)
    await writer.append(b"plain again")
    await writer.close()
    cold, streams = MemoryColdStore(), StreamStore(world.store, "test")
    small = ArchiveConfig(part_bytes=1, row_group_bytes=1)
    manifest = await archiver(world, cold, streams, small).archive("s", 1)
    await verify_segment(cold, manifest)
    tables = []
    for part in manifest.parts:
        file = await PartFile.open(cold, manifest.part_key(part), part)
        tables.append(await file.read(0, ["key", "headers", "event_time"]))
    assert pa.concat_tables(tables).to_pydict() == {
        "key": [None, b"k", None],
        "headers": [None, [("h", b"v")], None],
        "event_time": [None, datetime(1970, 1, 1, 0, 0, 0, 5000, UTC), None],
    }
