"""A restored stream has every record at its old DLSN, without any ledger."""

import asyncio
from dataclasses import replace

import pytest

from rhumbline.coldstore.archive.catalog import list_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.manifest import Manifest
from rhumbline.coldstore.restore.copy_archive import copy_archive
from rhumbline.coldstore.restore.restore import (
    archived_policy,
    check_chain,
    check_name_is_free,
    restore_stream,
)
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    RhumblineError,
    StreamExistsError,
    UnavailableError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    comparable,
    fill_stream,
    read_records,
)


async def empty_cluster(cold: DictColdStore) -> LogWorld:
    """Return another cluster that has nothing but the archive."""
    world = LogWorld()
    await create_namespace(world.store, world.runtime, "test", world.policy)
    world.archives = ColdArchives(cold, "test")
    world.namespace = world.open_namespace()
    return world


async def test_restored_records_keep_their_positions(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    await archive_segments(world, cold)
    before = comparable(await read_records(world))
    other = await empty_cluster(cold)
    manifests = await list_manifests(cold, "test")
    await restore_stream(other.store, StreamStore(other.store, "test"), manifests)
    assert comparable(await read_records(other)) == before
    writer = await other.writer("s")
    receipt = await writer.append(b"continued", txid=1000)
    assert receipt.dlsn == Dlsn(5, 0, 0)
    await writer.close()
    records = await read_records(other)
    assert (len(records), records[-1].sequence_id) == (121, 120)
    assert (await other.namespace.maintain("s")).retired == ()
    await other.namespace.delete_stream("s")
    assert await other.namespace.streams() == []


async def test_an_archive_without_its_oldest_segments_is_restored(
    world: LogWorld,
) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    manifests = await archive_segments(world, cold)
    before = comparable(await read_records(world))
    other = await empty_cluster(cold)
    await restore_stream(other.store, StreamStore(other.store, "test"), manifests[2:])
    assert comparable(await read_records(other)) == before[60:]


async def test_gaps_and_existing_streams_are_refused(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    manifests = await archive_segments(world, cold)
    other = await empty_cluster(cold)
    known = StreamStore(other.store, "test")
    with pytest.raises(CorruptionError, match="does not follow"):
        await restore_stream(other.store, known, [manifests[0], manifests[2]])
    with pytest.raises(InvalidArgumentError, match="namespace"):
        await restore_stream(other.store, StreamStore(other.store, "else"), manifests)
    await restore_stream(other.store, known, manifests)
    with pytest.raises(StreamExistsError):
        await restore_stream(other.store, known, manifests)


async def test_a_restore_continues_after_a_crash_at_any_step(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    manifests = await archive_segments(world, cold)
    before = comparable(await read_records(world))
    for steps in range(1, 12):
        other = await empty_cluster(cold)
        known = StreamStore(other.store, "test")
        task = asyncio.ensure_future(restore_stream(other.store, known, manifests))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled():
            assert task.exception() is None
            break
        try:
            await restore_stream(other.store, known, manifests)
        except StreamExistsError:
            pass  # the last step had been completed
        except RhumblineError as error:
            raise AssertionError(f"after {steps} steps") from error
        assert comparable(await read_records(other)) == before


# --- under another name -------------------------------------------------------------------------


async def copied(
    world: LogWorld, cold: DictColdStore, name: str, segments: slice
) -> list[Manifest]:
    """Copy archived segments of stream "s" and restore them as ``name``."""
    source = [m for m in await list_manifests(cold, "test") if m.stream == "s"][segments]
    manifests = await copy_archive(cold, source, stream=name, identity=f"{name:0<32}")
    known = StreamStore(world.store, "test")
    await restore_stream(world.store, known, manifests, archived_policy(manifests))
    return manifests


async def test_purged_range_comes_back_as_a_new_stream_with_its_policy(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    before = comparable(await read_records(world))
    policy = replace(
        (await world.namespace.describe("s")).policy, retention_ms=1, record_bytes_max=7
    )
    await world.namespace.set_stream_policy("s", policy)
    await archive_segments(world, cold)
    for _ in range(2):
        world.clock.now_ms += 3_600_000
        await world.namespace.maintain("s")
    assert [s.lssn for s in await world.segments("s")] == [4]
    await copied(world, cold, "back", slice(1, 3))
    assert comparable(await read_records(world, stream="back")) == before[30:90]
    found = await world.namespace.describe("back")
    assert found.policy == replace(policy, retention_ms=None)
    assert not found.follows_namespace
    await world.namespace.maintain("back")
    check_chain([m for m in await list_manifests(cold, "test/back")])

    await world.namespace.set_stream_policy("s", replace(policy, archive_retention_ms=0))
    assert (await world.namespace.maintain("s")).expired == (1, 2, 3)
    assert comparable(await read_records(world, stream="back")) == before[30:90]
    writer = await world.writer("back")
    assert (await writer.append(b"more")).dlsn == Dlsn(4, 0, 0)
    await writer.close()


async def test_deleted_stream_comes_back_beside_the_next_stream_of_its_name(
    world: LogWorld,
) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    await archive_segments(world, cold)
    before = comparable(await read_records(world))
    await world.namespace.delete_stream("s")
    await world.namespace.create_stream("s")
    await copied(world, cold, "old", slice(None))
    assert comparable(await read_records(world, stream="old")) == before
    with pytest.raises(StreamExistsError):
        await check_name_is_free(StreamStore(world.store, "test"), "old")
    await check_name_is_free(StreamStore(world.store, "test"), "other")


async def test_copy_continues_after_an_error_at_any_step(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    source = await archive_segments(world, cold)
    put, steps, left = cold.put_if_absent, 0, 0
    known = dict(cold.objects)

    async def failing(key: str, data: bytes) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            raise UnavailableError("the store is gone")
        return await put(key, data)

    while steps < 100:
        steps += 1
        cold.objects, left = dict(known), steps
        cold.put_if_absent = failing  # type: ignore[method-assign]
        try:
            await copy_archive(cold, source, stream="new", identity="first")
            break
        except UnavailableError:
            cold.put_if_absent = put  # type: ignore[method-assign]
            again = await copy_archive(cold, source, stream="new", identity="second")
            assert len({m.stream_identity for m in again}) == 1
            assert [m.lssn for m in await list_manifests(cold, "test/new")] == [1, 2, 3, 4]
            check_chain(again)
    assert steps > 8


async def test_copy_refuses_a_name_with_other_archives_and_damaged_parts(world: LogWorld) -> None:
    await fill_stream(world)
    cold = DictColdStore()
    source = await archive_segments(world, cold)
    await copy_archive(cold, source[2:], stream="new", identity="a")
    with pytest.raises(InvalidArgumentError, match="archives of test/new, such as segment 3"):
        await copy_archive(cold, source[:2], stream="new", identity="b")
    part = next(
        key for key in cold.objects if "/segment-0000000000000000002-" in key and "/s/" in key
    )
    cold.objects[part] = cold.objects[part][:-1]
    with pytest.raises(CorruptionError, match="SHA-256 differs"):
        await copy_archive(cold, source, stream="another", identity="c")
    del cold.objects[part]
    with pytest.raises(CorruptionError, match="the part is missing"):
        await copy_archive(cold, source, stream="another", identity="c")


def test_manifest_without_a_policy_gives_none() -> None:
    assert archived_policy([]) is None
