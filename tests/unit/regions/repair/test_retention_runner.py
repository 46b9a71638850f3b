"""The elected process runs retention for all streams of all namespaces (rule RPR-20)."""

import asyncio

import pytest

from rhumbline.core.log.metadata.retention import MaintenanceResult
from rhumbline.core.log.namespace import Namespace, create_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.errors import MetadataUnavailableError, UnavailableError
from rhumbline.regions.all_streams import STREAMS_AT_ONCE
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.retention_runner import RetentionRunner
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

HOUR_MS = 3_600_000
TTL = StreamPolicy(retention_ms=1, purge_grace_ms=HOUR_MS)


async def fill(namespace: Namespace, name: str, policy: StreamPolicy, segments: int = 3) -> None:
    """Create a stream with segments of one record each."""
    await namespace.create_stream(name, policy)
    for n in range(segments):
        writer = await namespace.open_writer(name)
        await writer.append(b"%d" % n)
        await writer.close()


async def namespaces(world: LogWorld) -> dict[str, Namespace]:
    """Return two namespaces with one stream each that has a TTL, and one without."""
    found = {}
    for name in ("one", "two"):
        await create_namespace(world.store, world.runtime, name, StreamPolicy())
        found[name] = Namespace(world.runtime, world.store, world.ledgers.client(), name)
        await fill(found[name], "old", TTL)
        await fill(found[name], "kept", StreamPolicy())
    return found


def runner(world: LogWorld, found: dict[str, Namespace]) -> RetentionRunner:
    config = RepairConfig(retention_interval_ms=60_000, archive_expiry_interval_ms=HOUR_MS)
    return RetentionRunner(world.store, lambda name: found.get(name, world.namespace), config)


async def test_all_streams_of_all_namespaces_are_purged_without_a_cold_store(
    world: LogWorld,
) -> None:
    found = await namespaces(world)
    retention = runner(world, found)
    world.clock.now_ms += HOUR_MS
    await retention.run_once()
    assert retention.counts.purged == 0
    world.clock.now_ms += HOUR_MS
    await retention.run_once()
    assert (retention.counts.passes, retention.counts.streams, retention.counts.purged) == (2, 4, 4)
    for namespace in found.values():
        assert [s.lssn for s in (await namespace.describe("old")).segments] == [3]
        assert [s.lssn for s in (await namespace.describe("kept")).segments] == [1, 2, 3]
    assert retention.counts.overdue_ms == 0


async def test_only_the_elected_process_works_and_stops_when_it_loses_the_role(
    world: LogWorld,
) -> None:
    found = await namespaces(world)
    retention = runner(world, found)
    is_elected = False
    running = asyncio.ensure_future(retention.run(lambda: is_elected))
    await asyncio.sleep(200)
    assert retention.counts.passes == 0
    is_elected = True
    await asyncio.sleep(200)
    assert retention.counts.passes >= 3
    running.cancel()
    await asyncio.wait([running])
    answers = iter([True, True, False])
    passes = retention.counts.passes
    await retention.run_once(lambda: next(answers))
    assert retention.counts.passes == passes, "it stopped before the third stream"


async def test_a_stream_that_fails_does_not_stop_the_others(world: LogWorld) -> None:
    found = await namespaces(world)
    delete = found["one"]._ledgers.delete

    async def failing(ledger_id: int) -> None:
        raise UnavailableError("no bookie responds")

    world.clock.now_ms += HOUR_MS
    retention = runner(world, found)
    await retention.run_once()
    world.clock.now_ms += 3 * HOUR_MS
    found["one"]._ledgers.delete = failing  # type: ignore[method-assign]
    with recorded_log("rhumbline.regions") as log:
        await retention.run_once()
    assert [line["stream"] for line in log.fields("retention failed")] == ["old"]
    assert (retention.counts.failures, retention.counts.purged) == (1, 2)
    found["one"]._ledgers.delete = delete  # type: ignore[method-assign]
    await retention.run_once()
    assert retention.counts.purged == 4


async def test_a_pass_ends_when_the_metadata_store_is_gone_and_the_next_one_works(
    world: LogWorld,
) -> None:
    found = await namespaces(world)
    retention = runner(world, found)
    children = world.store.children

    async def unavailable(*_: object, **__: object) -> list[str]:
        raise MetadataUnavailableError("no leader")

    world.store.children = unavailable  # type: ignore[method-assign]
    with recorded_log("rhumbline.regions") as log:
        running = asyncio.ensure_future(retention.run(lambda: True))
        await asyncio.sleep(90)
        world.store.children = children  # type: ignore[method-assign]
        await asyncio.sleep(60)
    running.cancel()
    await asyncio.wait([running])
    assert len(log.fields("retention failed")) == 2
    assert retention.counts.passes == 1


async def test_data_that_should_be_gone_is_reported_with_its_age(world: LogWorld) -> None:
    found = await namespaces(world)
    namespace = found["one"]
    assert await namespace.find_overdue("kept") is None
    assert await namespace.find_overdue("old") is None
    world.clock.now_ms += 5 * HOUR_MS
    overdue = await namespace.find_overdue("old")
    assert overdue is not None
    assert (overdue.lssn, overdue.overdue_ms, overdue.reason) == (1, 4 * HOUR_MS - 1, "retention")
    retention = runner(world, {"two": found["two"], "one": world.open_namespace()})
    await retention.run_once()
    assert retention.counts.overdue_ms == 4 * HOUR_MS - 1, "the grace period has only begun"
    await namespace.truncate("kept", (await namespace.describe("kept")).segments[-1].first_dlsn)
    world.clock.now_ms += HOUR_MS + 7
    overdue = await namespace.find_overdue("kept")
    assert overdue is not None
    assert (overdue.overdue_ms, overdue.reason) == (7, "truncation")
    await fill(namespace, "hot", StreamPolicy(hot_retention_ms=HOUR_MS))
    world.clock.now_ms += 2 * HOUR_MS
    overdue = await namespace.find_overdue("hot")
    assert overdue is not None
    assert (overdue.lssn, overdue.overdue_ms) == (1, HOUR_MS)
    assert "not archived" in overdue.reason


async def test_streams_wait_for_a_distant_metadata_store_at_the_same_time(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass took a round trip after the other: with 100,000 streams, hours."""
    at_once = at_once_max = 0
    maintain = Namespace.maintain

    async def far(
        self: Namespace, name: str, *, expires_archives: bool = True
    ) -> MaintenanceResult:
        nonlocal at_once, at_once_max
        at_once += 1
        at_once_max = max(at_once_max, at_once)
        await asyncio.sleep(0.1)
        at_once -= 1
        return await maintain(self, name, expires_archives=expires_archives)

    monkeypatch.setattr(Namespace, "maintain", far)
    for number in range(160):
        await world.namespace.create_stream(f"s{number}", StreamPolicy())
    retention = runner(world, {})
    began_s = asyncio.get_running_loop().time()
    await retention.run_once()
    assert retention.counts.streams == 160
    assert asyncio.get_running_loop().time() - began_s < 160 / STREAMS_AT_ONCE * 0.1 + 0.05
    assert at_once_max == STREAMS_AT_ONCE
