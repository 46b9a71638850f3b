"""The service archives each segment once, skips claimed streams, and continues after faults."""

import asyncio

import pytest

from rhumbline.coldstore.archive.archive_folder import ArchiveFolder, part_name
from rhumbline.coldstore.archive.archive_service import (
    ArchivePass,
    ArchiveService,
    ArchiveServiceConfig,
    check_archives_exist,
)
from rhumbline.coldstore.archive.catalog import archived_segments, stored_parts
from rhumbline.coldstore.archive.cold_archives import ColdArchives
from rhumbline.coldstore.archive.segment_archiver import SegmentArchiver
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.protocol.errors import InvalidArgumentError, UnavailableError
from rhumbline.core.protocol.segments import Residence
from rhumbline.core.runtime.cold_store import ColdStore
from rhumbline.core.runtime.primitives.rate_limiter import RateLimiter
from rhumbline.tests.support.fakes.log_world import LogWorld, ManualClock
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.coldstore.archive.archive_world import (
    DictColdStore,
    archive_segments,
    comparable,
    fill_stream,
    read_records,
)


def service(
    world: LogWorld,
    cold: ColdStore,
    passes: list[ArchivePass] | None = None,
    rate_limiter: RateLimiter | None = None,
) -> ArchiveService:
    world.archives = ColdArchives(cold, "test")
    world.namespace = world.open_namespace()
    streams = StreamStore(world.store, "test")
    return ArchiveService(
        world.runtime,
        world.store,
        world.namespace,
        SegmentArchiver(
            world.runtime, cold, world.ledgers.client(), streams, rate_limiter=rate_limiter
        ),
        config=ArchiveServiceConfig(pause_ms=1000, session_ttl_ms=5000),
        on_pass=None if passes is None else passes.append,
    )


class RefusingColdStore(DictColdStore):
    """Refuses keys that begin with ``stream``, unless it is empty."""

    stream = "test/s/"

    async def put_if_absent(self, key: str, data: bytes) -> bool:
        if self.stream and key.startswith(self.stream):
            raise UnavailableError("no route to the store")
        return await super().put_if_absent(key, data)


async def test_segments_are_archived_and_retired_once(world: LogWorld) -> None:
    await fill_stream(world)
    before = comparable(await read_records(world))
    passes: list[ArchivePass] = []
    with (
        recorded_log("rhumbline.coldstore") as log,
        recorded_log("rhumbline.core.log.metadata") as retention_log,
    ):
        running = asyncio.ensure_future(service(world, DictColdStore(), passes).run())
        await asyncio.sleep(2.5)
        running.cancel()
        await asyncio.wait([running])
    ids = {"namespace": "test", "stream": "s"}
    assert log.fields("segment archived") == [{**ids, "segment": n} for n in (1, 2, 3, 4)]
    assert len(log.events()) == 4
    assert retention_log.fields("ledgers retired") == [{**ids, "segments": (1, 2, 3, 4)}]
    assert len(retention_log.events()) == 1
    assert [(one.archived, one.retired) for one in passes] == [(4, 4), (0, 0), (0, 0)]
    assert comparable(await read_records(world)) == before
    assert world.ledgers.ledgers == {}


async def test_statistics_show_how_far_the_archive_is_behind(world: LogWorld) -> None:
    await fill_stream(world)
    found = await world.namespace.describe("s")
    cold = RefusingColdStore()
    archiving = service(world, cold)
    assert archiving.statistics()["behind_ms"] == 0, "nothing is known before the first pass"
    running = asyncio.ensure_future(archiving.run())
    await asyncio.sleep(2.5)
    behind = archiving.statistics()
    assert (behind["waiting_segments"], behind["archived"]) == (4, 0)
    assert behind["failures"] == behind["passes"] == 3
    assert isinstance(world.runtime.clock, ManualClock)
    world.runtime.clock.now_ms = found.segments[0].completed_ms + 7_000
    assert archiving.statistics()["behind_ms"] == 7_000
    cold.stream = ""
    await asyncio.sleep(2.5)
    done = archiving.statistics()
    assert (done["waiting_segments"], done["behind_ms"], done["archived"]) == (0, 0, 4)
    running.cancel()
    await asyncio.wait([running])


async def test_a_claimed_stream_is_skipped(world: LogWorld) -> None:
    await fill_stream(world)
    first, second = service(world, DictColdStore()), service(world, DictColdStore())
    own_session, other_session = await world.store.session(5000), await world.store.session(5000)
    assert await first._claim(own_session, "s")
    assert (await second.run_once(other_session)).archived == 0
    await own_session.close()
    assert (await second.run_once(other_session)).archived == 4
    await other_session.close()


async def test_a_fault_of_one_stream_does_not_stop_others(world: LogWorld) -> None:
    await fill_stream(world)
    writer = await world.writer("t")
    await writer.append(b"x")
    await writer.close()
    cold = RefusingColdStore()
    session = await world.store.session(5000)
    archiver = service(world, cold)
    done = await archiver.run_once(session)
    assert (done.archived, list(done.faults)) == (1, ["s"])
    cold.stream = ""
    assert (await archiver.run_once(session)).archived == 4
    await session.close()


async def test_failures_are_logged_at_most_once_in_ten_seconds(world: LogWorld) -> None:
    await fill_stream(world)
    archiver = service(world, RefusingColdStore())
    with recorded_log("rhumbline.coldstore") as log:
        running = asyncio.ensure_future(archiver.run())
        await asyncio.sleep(15)
        running.cancel()
        await asyncio.wait([running])
    failed = {"namespace": "test", "stream": "s", "error": "no route to the store"}
    assert log.fields("archiving failed") == [failed, {**failed, "dropped": 9}]


async def test_bandwidth_is_bounded(world: LogWorld) -> None:
    await fill_stream(world, segments=3)
    loop = asyncio.get_running_loop()
    cold = DictColdStore()
    session = await world.store.session(500_000)
    begin = loop.time()
    await service(world, cold, rate_limiter=RateLimiter(1000, burst=1000)).run_once(session)
    parts = [len(data) for key, data in cold.objects.items() if key.endswith(".parquet")]
    due_s = (2 * sum(parts) - max(parts)) / 1000 - 1  # written and read back, the last on credit
    assert loop.time() - begin >= due_s
    await session.close()


async def test_parts_of_other_attempts_are_deleted(world: LogWorld) -> None:
    await fill_stream(world, segments=1)
    cold = DictColdStore()
    segment = (await world.segments("s"))[0]
    folder = ArchiveFolder("test", "s", segment.stream_id)
    cold.objects[folder.part(part_name(1, 0, "0" * 16))] = b"left by a crash"
    cold.objects[folder.part(part_name(2, 0, "0" * 16))] = b"not committed"
    session = await world.store.session(5000)
    await service(world, cold).run_once(session)
    names = await stored_parts(cold, folder)
    assert {lssn: len(found) for lssn, found in names.items()} == {1: 1, 2: 1}
    assert part_name(1, 0, "0" * 16) not in names[1]
    segment = (await world.segments("s"))[0]
    assert segment.residence is Residence.ARCHIVE
    await session.close()


async def test_a_recreated_stream_is_archived_beside_the_old_one(world: LogWorld) -> None:
    """It could never be archived, and the archiver of all streams ended with an error."""
    await fill_stream(world, segments=2)
    cold = DictColdStore()
    old = await archive_segments(world, cold)
    await world.namespace.delete_stream("s")
    for stream, count in (("s", 3), ("t", 1)):
        for _ in range(count):
            writer = await world.writer(stream)
            await writer.append(b"new " + stream.encode())
            await writer.close()
    session = await world.store.session(5000)
    done = await service(world, cold).run_once(session)
    await session.close()
    assert (done.archived, done.faults) == (4, {})
    found = await archived_segments(cold, "test", "s")
    identity = (await world.namespace.describe("s")).identity
    assert found == {
        old[0].folder: [1, 2],
        ArchiveFolder("test", "s", identity[:12]): [1, 2, 3],
    }
    assert [record.payload for record in await read_records(world)] == [b"new s"] * 3


async def test_a_stream_that_is_recreated_while_it_is_archived_is_reported(
    world: LogWorld,
) -> None:
    """The service skipped the stream without a word."""
    await fill_stream(world, segments=1)

    class RecreatingColdStore(DictColdStore):
        recreates = True

        async def put_if_absent(self, key: str, data: bytes) -> bool:
            if self.recreates:
                self.recreates = False
                await world.namespace.delete_stream("s")
                await world.namespace.create_stream("s")
            return await super().put_if_absent(key, data)

    session = await world.store.session(5000)
    done = await service(world, RecreatingColdStore()).run_once(session)
    await session.close()
    assert done.faults == {"s": "stream s was deleted while it was archived"}


async def test_a_cold_store_without_the_earlier_archives_is_named(world: LogWorld) -> None:
    """``archive run --cold OTHER`` said that nothing was left to archive over an empty store."""
    await fill_stream(world)
    cold = DictColdStore()
    manifests = await archive_segments(world, cold, upto=4)
    await check_archives_exist(world.namespace, cold, ["s"])
    other = DictColdStore()
    other.uri = "memory:other"
    with pytest.raises(
        InvalidArgumentError,
        match=r"memory:other lacks 3 segments .* first is segment 1 of test/s: give",
    ):
        await check_archives_exist(world.namespace, other, ["s"])
    await cold.delete(manifests[1].key)
    with pytest.raises(InvalidArgumentError, match=r"lacks 1 segments .* first is segment 2"):
        await check_archives_exist(world.namespace, cold, ["s"])
