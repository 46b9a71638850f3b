"""Tests of truncation by age and by subscriptions, and of purging (rule STR-21)."""

import asyncio
from collections.abc import Sequence

import pytest

from rhumbline.core.log.config import ReaderConfig
from rhumbline.core.log.ledger_interface import ReadableLedger
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.core.protocol.errors import (
    InvalidArgumentError,
    NoSuchLedgerError,
    NoSuchSubscriptionError,
    RhumblineError,
    TruncatedError,
)
from rhumbline.core.protocol.segments import Residence, Segment
from rhumbline.core.protocol.start import EARLIEST
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

HOUR_MS = 3_600_000


async def write_records(world: LogWorld, policy: StreamPolicy, segments: int = 6) -> list[Dlsn]:
    """Write one record per segment and one segment per hour; all segments are completed."""
    dlsns = []
    for n in range(segments):
        writer = await world.writer("s", policy)
        dlsns.append((await writer.append(b"%d" % n)).dlsn)
        await writer.close()
        world.clock.now_ms += HOUR_MS
    return dlsns


async def assert_records(world: LogWorld, first: int, last: int) -> None:
    records = await world.read_all("s", last - first + 1)
    assert [r.payload for r in records] == [b"%d" % n for n in range(first, last + 1)]


async def test_segments_are_truncated_by_age_and_purged_after_the_grace(world: LogWorld) -> None:
    await write_records(world, StreamPolicy(retention_ms=3 * HOUR_MS + 1, purge_grace_ms=HOUR_MS))
    done = await world.namespace.maintain("s")
    assert (done.start, done.purged) == (Dlsn(4, 0, 0), ())
    await assert_records(world, 3, 5)
    world.clock.now_ms += HOUR_MS - 1
    assert (await world.namespace.maintain("s")).purged == ()
    assert len(world.ledgers.ledgers) == 6
    world.clock.now_ms += 1
    with recorded_log("rhumbline.core.log.metadata") as log:
        done = await world.namespace.maintain("s")
    assert (done.start, done.purged) == (Dlsn(5, 0, 0), (1, 2, 3))
    assert log.events() == ["segments purged"]
    assert log.fields("segments purged") == [
        {"namespace": "test", "stream": "s", "segments": (1, 2, 3)}
    ]
    assert sorted(world.ledgers.ledgers) == [4, 5, 6]
    assert [s.lssn for s in await world.segments("s")] == [4, 5, 6]
    await assert_records(world, 4, 5)
    with pytest.raises(TruncatedError):
        await world.namespace.open_reader("s", Dlsn(2, 0, 0))


async def test_numbers_continue_after_everything_was_purged(world: LogWorld) -> None:
    await write_records(world, StreamPolicy(retention_ms=1, purge_grace_ms=0))
    for _ in range(3):
        world.clock.now_ms += HOUR_MS
        done = await world.namespace.maintain("s")
    assert done.start == Dlsn(7, 0, 0)
    assert [s.lssn for s in await world.segments("s")] == [6], (
        "the newest completed segment is kept"
    )
    writer = await world.writer("s")
    assert (await writer.append(b"6")).dlsn == Dlsn(7, 0, 0)
    await writer.close()
    (record,) = await world.read_all("s", 1)
    assert (record.payload, record.sequence_id) == (b"6", 6)


async def test_without_retention_nothing_is_purged(world: LogWorld) -> None:
    await write_records(world, StreamPolicy(purge_grace_ms=0))
    world.clock.now_ms += 1000 * HOUR_MS
    for _ in range(3):
        assert (await world.namespace.maintain("s")).purged == ()
    await assert_records(world, 0, 5)


async def test_truncation_inside_a_segment_keeps_the_segment(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(purge_grace_ms=0))
    dlsns = [(await writer.append(b"%d" % n)).dlsn for n in range(5)]
    await writer.close()
    assert await world.namespace.truncate("s", dlsns[2]) == dlsns[2]
    for _ in range(2):
        assert (await world.namespace.maintain("s")).purged == ()
    await assert_records(world, 2, 4)


async def test_slowest_subscription_truncates(world: LogWorld) -> None:
    policy = StreamPolicy(truncates_by_subscriptions=True, purge_grace_ms=0)
    dlsns = await write_records(world, policy)
    await world.namespace.maintain("s")
    await assert_records(world, 0, 5)
    store = world.namespace.subscriptions
    fast = await store.create("s", "fast", Dlsn(1, 0, 0))
    slow = await store.create("s", "slow", Dlsn(1, 0, 0))
    fast = await store.commit(fast, "s", dlsns[5])
    slow = await store.commit(slow, "s", dlsns[3])
    assert (await world.namespace.maintain("s")).start == dlsns[3]
    assert (await world.namespace.maintain("s")).purged == (1, 2, 3)
    await assert_records(world, 3, 5)
    await store.delete("s", "slow")
    assert (await world.namespace.maintain("s")).start == dlsns[5]
    assert fast.position == dlsns[5]


async def test_subscriptions_only_move_forward_unless_reset(world: LogWorld) -> None:
    await write_records(world, StreamPolicy())
    store = world.namespace.subscriptions
    mine = await store.create("s", "app", Dlsn(1, 0, 0))
    assert await store.create("s", "app", Dlsn(3, 0, 0)) == mine, (
        "creating it twice returns the same subscription"
    )
    await store.commit(mine, "s", Dlsn(4, 0, 0))
    assert (await store.commit(mine, "s", Dlsn(2, 0, 0))).position == Dlsn(4, 0, 0)
    await store.reset("s", "app", Dlsn(1, 0, 0))
    with pytest.raises(InvalidArgumentError, match="was reset to 1:0:0"):
        await store.commit(mine, "s", Dlsn(5, 0, 0))
    again = await store.read("s", "app")
    assert (await store.commit(again, "s", Dlsn(5, 0, 0))).position == Dlsn(5, 0, 0)
    assert await store.names("s") == ["app"]
    with pytest.raises(NoSuchSubscriptionError):
        await store.read("s", "other")


async def test_interrupted_purge_continues_at_any_step(world: LogWorld) -> None:
    from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, UNAVAILABLE

    await write_records(world, StreamPolicy(retention_ms=1, purge_grace_ms=0), segments=8)
    for outcome in (UNAVAILABLE, LOST_REPLY, LOST_REQUEST):
        for at in range(3):
            world.store.outcomes = ["ok"] * at + [outcome]
            try:
                await world.namespace.maintain("s")
            except RhumblineError as error:
                assert error.retryable
    world.store.outcomes = []
    await world.namespace.maintain("s")
    assert [s.lssn for s in await world.segments("s")] == [8]
    assert sorted(world.ledgers.ledgers) == [8]


class ListedArchives:
    """A fake archive that records the calls that delete archives."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, int, int]] = []

    async def open(self, stream: str, segment: Segment) -> ReadableLedger:
        raise NoSuchLedgerError(f"{stream} segment {segment.lssn}")

    async def check(self, stream: str, segment: Segment) -> None:
        raise AssertionError("no ledger is retired in this test")

    async def expire(
        self, stream: str, identity: str, *, below: int, completed_by_ms: int
    ) -> Sequence[int]:
        self.calls.append((stream, identity, below, completed_by_ms))
        return [1, 2]


async def test_archived_segment_is_purged_without_access_to_its_archive(world: LogWorld) -> None:
    await write_records(world, StreamPolicy(retention_ms=1, purge_grace_ms=0))
    streams = world.namespace._streams
    stream_id = (await world.namespace.describe("s")).stream_id
    stored = await streams.segment("s", 1, stream_id)
    assert stored is not None
    moved = stored.segment.with_residence(Residence.HOT_AND_ARCHIVE)
    assert await streams.replace_segment("s", stored, moved)
    await world.namespace.maintain("s")
    assert (await world.namespace.maintain("s")).purged == (1, 2, 3, 4, 5)
    assert sorted(world.ledgers.ledgers) == [6]


async def test_archives_of_purged_segments_have_a_retention_of_their_own(world: LogWorld) -> None:
    policy = StreamPolicy(retention_ms=1, purge_grace_ms=0, archive_retention_ms=7 * HOUR_MS)
    await write_records(world, policy)
    world.archives = archives = ListedArchives()
    namespace = world.open_namespace()
    assert (await namespace.maintain("s", expires_archives=False)).expired == ()
    assert archives.calls == []
    with recorded_log("rhumbline.core.log.metadata") as log:
        assert (await namespace.maintain("s")).expired == (1, 2)
    assert log.fields("archives expired") == [
        {"namespace": "test", "stream": "s", "segments": (1, 2)}
    ]
    identity = (await namespace.describe("s")).identity
    assert archives.calls == [("s", identity, 1, world.clock.now_ms - 7 * HOUR_MS)], (
        "the first segment that was left when the pass began"
    )
    await namespace.set_stream_policy("s", StreamPolicy(retention_ms=1))
    assert (await namespace.maintain("s")).expired == ()
    assert len(archives.calls) == 1


async def test_reader_in_a_purged_segment_gets_truncated_error(world: LogWorld) -> None:
    await write_records(world, StreamPolicy(retention_ms=2 * HOUR_MS, purge_grace_ms=0))
    # With the default, the reader would have read the other segments before they are truncated.
    hardly_ahead = world.open_namespace(reader_config=ReaderConfig(read_ahead_bytes_max=1))
    reader = await hardly_ahead.open_reader("s", EARLIEST)
    assert (await anext(reader)).payload == b"0"
    for _ in range(2):
        await world.namespace.maintain("s")
    with pytest.raises(TruncatedError) as failure:
        for _ in range(6):
            await asyncio.wait_for(anext(reader), 60)
    assert isinstance(failure.value.first_active, Dlsn)
    await reader.aclose()


async def test_reader_of_an_ended_stream_ends_after_everything_was_truncated(
    world: LogWorld,
) -> None:
    """Regression: it waited for ever (simulator plan streams, seed 4, with elected retention)."""
    writer = await world.writer("s", StreamPolicy(retention_ms=1, purge_grace_ms=0))
    await writer.append(b"0")
    await writer.end_stream()
    world.clock.now_ms += HOUR_MS
    assert (await world.namespace.maintain("s")).start == Dlsn(2, 0, 0)
    async with await world.namespace.open_reader("s", EARLIEST) as reader:
        assert await asyncio.wait_for(reader.next_batch(), 60) is None
