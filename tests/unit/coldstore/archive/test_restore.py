"""A restored stream has every record at its old DLSN, without any ledger."""

import asyncio

import pytest

from rhumbline.coldstore.archive.catalog import list_manifests
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.restore import restore_stream
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.namespace import create_namespace
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    CorruptionError,
    InvalidArgumentError,
    RhumblineError,
    StreamExistsError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld, in_world
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


@in_world
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


@in_world
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


@in_world
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


@in_world
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
