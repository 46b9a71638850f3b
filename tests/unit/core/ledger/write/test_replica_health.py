"""Tests of a writer with failing bookies, missing replacements, limits, and without a store."""

import asyncio

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.ledger.write.under_replication import UnderReplication
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    BadVersionError,
    BookieUnavailableError,
    ConfigurationError,
    DeadlineExceededError,
    IllegalQuorumError,
    LimitExceededError,
    NotEnoughBookiesError,
    RecordTooLargeError,
    UnauthorizedError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.wire import v2
from rhumbline.tests.unit.core.ledger.world import (
    HOLD,
    FakeBookie,
    FakeLedgers,
    MetadataAwayError,
    Outcomes,
    Request,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

GEO = Quorum(3, 3, 2, 2)
ALL = Quorum(3, 3, 3, 2)
THREE_OF_FOUR = Quorum(4, 4, 3, 2)


def members(world: World, writer: LedgerWriter) -> list[FakeBookie]:
    return [world.by_id[bookie] for bookie in writer.metadata.last_fragment.bookies]


def hold_adds(request: Request) -> object:
    return HOLD if isinstance(request, v2.AddRequest) else None


async def test_lost_bookie_blocks_no_entry_and_is_used_again_after_its_return() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: len(done.acked) == 1)
        lost = members(world, writer)[2]
        lost.go_down()
        for i in range(1, 6):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(0.01)
        assert done.acked == list(range(6))
        assert writer.state.failed_mask == 0b100
        lost.come_up()
        for i in range(6, 26):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(0.1)
        assert done.acked == list(range(26))
        assert writer.state.failed_mask == 0
        assert 25 in lost.ids(writer.ledger_id)
        assert len(writer.metadata.fragments) == 1
        await writer.close()
        (hole,) = world.holes
        missing = [i for i in range(26) if i not in lost.ids(writer.ledger_id)]
        assert hole.bookie == lost.bookie
        assert missing
        for entry_id in missing:
            assert any(first <= entry_id <= last for first, last in hole.ranges)


async def test_bookie_that_fails_for_too_long_is_replaced() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        lost = members(world, writer)[0]
        lost.go_down()
        for i in range(20):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(1)
        assert len(writer.metadata.fragments) == 1
        for i in range(20, 40):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(1)
        assert len(writer.metadata.fragments) == 2
        assert lost not in members(world, writer)
        assert done.acked == list(range(40))
        start = writer.metadata.last_fragment.first_entry_id
        assert world.holes[0].bookie == lost.bookie
        assert world.holes[0].ranges == ((0, start - 1),)
        await writer.close()


async def test_read_only_bookie_is_replaced_at_once() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        full = members(world, writer)[0]
        full.script = lambda request: (
            v2.Code.READ_ONLY if isinstance(request, v2.AddRequest) else None
        )
        world.not_writable.append(full)
        writer.add(b"0", done)
        await until(
            lambda: len(writer.metadata.fragments) == 2 or full not in members(world, writer)
        )
        assert full not in members(world, writer)
        await until(lambda: done.acked == [0])
        await writer.close()


async def test_bookie_that_returns_read_only_is_replaced_at_once() -> None:
    """It had failed before, so that READ_ONLY was taken for one more failure."""
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        full = members(world, writer)[0]
        full.go_down()
        writer.add(b"0", done)
        await until(lambda: writer.state.failed_mask == 1)
        assert len(writer.metadata.fragments) == 1
        full.script = lambda request: (
            v2.Code.READ_ONLY if isinstance(request, v2.AddRequest) else None
        )
        world.not_writable.append(full)
        full.come_up()
        for i in range(1, 31):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(0.1)
            if full not in members(world, writer):
                break
        assert full not in members(world, writer)
        await until(lambda: writer.state.failed_mask == 0)
        await writer.close()


async def test_bookie_that_is_back_gets_all_entries_that_wait_for_it() -> None:
    """Its return is seen by one entry; the others wait in the queue and no timer is left."""
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        lost = members(world, writer)[1]
        lost.go_down()
        for i in range(5):
            writer.add(b"%d" % i, done)
        await asyncio.sleep(1)
        assert done.all == []
        lost.come_up()
        await until(lambda: done.acked == list(range(5)), 5)
        assert lost.ids(writer.ledger_id) == list(range(5))
        await writer.close()


async def test_hung_bookie_delays_no_acknowledgement_that_p_allows() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        members(world, writer)[1].is_hung = True
        for i in range(50):
            started = asyncio.get_running_loop().time()
            writer.add(b"%d" % i, done)
            await until(lambda n=i + 1: len(done.acked) == n)  # type: ignore[misc]
            assert asyncio.get_running_loop().time() - started < 0.03
            await asyncio.sleep(0.2)
        await writer.close()


async def test_hung_bookie_that_p_needs_is_replaced_after_the_time_out() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        members(world, writer)[1].is_hung = True
        started = asyncio.get_running_loop().time()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        assert 5 <= asyncio.get_running_loop().time() - started < 7
        await writer.close()


async def test_backlog_of_one_bookie_is_bounded() -> None:
    config = LedgerConfig(replica_backlog_bytes_max=10_000)
    world = World("abc", config)
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        slow = members(world, writer)[2]
        slow.script = hold_adds
        for _ in range(40):
            writer.add(b"x" * 1000, done)
            await asyncio.sleep(0.01)
        assert done.acked == list(range(40))
        assert writer.state.failed_mask == 0b100
        assert len(slow.requests) < 15
        slow.script = None
        slow.release()
        for _ in range(20):
            writer.add(b"x" * 1000, done)
            await asyncio.sleep(0.05)
        assert writer.state.failed_mask == 0
        await writer.close()
        await asyncio.sleep(0.1)
        holes = [hole for hole in world.holes if hole.bookie == slow.bookie]
        missing = [i for i in range(60) if i not in slow.ids(writer.ledger_id)]
        assert missing
        for entry_id in missing:
            assert any(a <= entry_id <= b for hole in holes for a, b in hole.ranges)


async def test_without_replacement_failed_bookies_are_retried_for_a_while() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        two = members(world, writer)[:2]
        for bookie in two:
            bookie.go_down()
        writer.add(b"0", done)
        await asyncio.sleep(5)
        assert done.all == []
        two[0].come_up()
        await until(lambda: done.acked == [0], 5)
        assert not writer.is_failed
        await writer.close()


async def test_without_replacement_the_ledger_fails_within_a_bounded_time() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        for bookie in members(world, writer)[:2]:
            bookie.go_down()
        writer.add(b"0", done)
        await until(lambda: writer.is_failed, 15)
        assert isinstance(writer.failure, NotEnoughBookiesError)
        assert isinstance(done.all[0][1], AppendOutcomeUnknownError)
        closed = await writer.close()
        assert closed.last_entry_id == -1


async def test_policy_close_fails_the_ledger_at_the_first_lost_bookie() -> None:
    world = World("abcabc")
    async with world.client(config=LedgerConfig(on_bookie_failure="close")) as client:
        writer = await client.create(GEO)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        members(world, writer)[1].go_down()
        writer.add(b"1", done)
        await until(lambda: writer.is_failed)
        assert isinstance(writer.failure, BookieUnavailableError)
        closed = await writer.close()
        assert closed.last_entry_id == writer.last_add_confirmed
        assert len(closed.fragments) == 1


async def test_unauthorized_fails_the_ledger_at_once() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        members(world, writer)[1].script = lambda request: v2.Code.UNAUTHORIZED
        writer.add(b"0", done)
        await until(lambda: writer.is_failed)
        assert isinstance(writer.failure, UnauthorizedError)


@pytest.mark.parametrize("limit", ["fragments", "bytes"])
async def test_ledger_with_too_many_changes_fails(limit: str) -> None:
    config = (
        LedgerConfig(change_mode="eager", fragments_max=3)
        if limit == "fragments"
        else LedgerConfig(change_mode="eager", metadata_bytes_max=1024)
    )
    world = World("abcabc", config)
    async with world.client() as client:
        writer = await client.create(ALL, custom={"filler": b"x" * 700})
        done = Outcomes()
        for i in range(20):
            gone = members(world, writer)[i % 3]
            gone.go_down()
            before = len(done.all)
            writer.add(b"%d" % i, done)
            await until(lambda n=before: len(done.all) > n or writer.is_failed)  # type: ignore[misc]
            gone.come_up()
            if writer.is_failed:
                break
        assert isinstance(writer.failure, LimitExceededError)
        closed = await writer.close()
        assert len(closed.fragments) <= 6
        assert closed.last_entry_id == max(done.acked)


async def test_entry_that_exceeds_the_quorum_time_out_fails_the_ledger() -> None:
    world = World("abc", LedgerConfig(quorum_timeout_ms=1_500))
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        for bookie in world.bookies[:2]:
            bookie.script = hold_adds
        writer.add(b"0", done)
        await until(lambda: writer.is_failed, 3)
        assert isinstance(writer.failure, DeadlineExceededError)


async def test_room_is_bounded_and_its_return_is_notified() -> None:
    world = World("abc", LedgerConfig(pending_entries_max=10, entry_bytes_max=2_000))
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        for bookie in world.bookies:
            bookie.script = hold_adds
        for i in range(10):
            writer.add(b"%d" % i, done)
        assert not writer.has_room
        with pytest.raises(LimitExceededError):
            writer.add(b"10", done)
        with pytest.raises(RecordTooLargeError):
            writer.add(b"x" * 2_000, done)
        notified: list[int] = []
        writer.on_room(lambda: notified.append(writer.pending_count))
        await asyncio.sleep(0.05)
        assert notified == []
        for bookie in world.bookies:
            bookie.script = None
            bookie.release()
        await until(lambda: len(done.acked) == 10)
        assert len(notified) == 1
        assert notified[0] <= 5
        await writer.close()


async def test_change_of_r_adds_a_fragment_and_holds_for_pending_entries() -> None:
    world = World("aabc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        gone = [b for b in world.bookies if str(b.region) != "a"]
        for bookie in gone:
            bookie.go_down()
        writer.add(b"1", done)
        await asyncio.sleep(1)
        assert done.acked == [0]
        with pytest.raises(IllegalQuorumError):
            writer.set_min_regions(3)
        gone[0].come_up()
        gone[0].is_hung = True  # registered as writable, but does not respond
        writer.set_min_regions(1)
        await until(lambda: done.acked == [0, 1])
        stored = world.ledgers.now(writer.ledger_id)
        assert stored.r_ranges() == ((0, 2), (1, 1))
        assert done.all[1][2] == ("a",)
        await writer.close()


async def test_raised_r_replaces_a_bookie_that_is_down_and_is_needed_now() -> None:
    """The present ensemble is legal under the new R, but its region c is down."""
    world = World("aabcc")
    world.not_writable.append(world.bookies[4])
    async with world.client() as client:
        writer = await client.create(THREE_OF_FOUR)
        world.not_writable.clear()
        done = Outcomes()
        (lost,) = [b for b in members(world, writer) if str(b.region) == "c"]
        lost.go_down()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        assert len(writer.metadata.fragments) == 1
        writer.set_min_regions(3)
        await until(lambda: writer.view.quorum.min_regions == 3, 2)
        writer.add(b"1", done)
        await until(lambda: done.acked == [0, 1], 2)
        assert lost not in members(world, writer)
        assert done.all[1][2] == ("a", "b", "c")
        await writer.close()


async def test_bookie_that_fails_while_r_is_raised_is_replaced_after_it() -> None:
    """P did not need it when it failed; the change that was under way makes it needed."""
    world = World("aabcc")
    world.not_writable.append(world.bookies[4])
    async with world.client() as client:
        writer = await client.create(THREE_OF_FOUR)
        world.not_writable.clear()
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        (lost,) = [b for b in members(world, writer) if str(b.region) == "c"]
        world.ledgers.gate = gate = asyncio.Event()
        writer.set_min_regions(3)
        await asyncio.sleep(0.05)
        lost.go_down()
        writer.add(b"1", done)
        await until(lambda: writer.state.failed_mask > 0)
        gate.set()
        await until(lambda: done.acked == [0, 1], 2)
        assert lost not in members(world, writer)
        await writer.close()


async def test_closing_the_client_fails_its_writers() -> None:
    world = World("abc")
    client = world.client()
    writer = await client.create(GEO)
    done = Outcomes()
    for bookie in world.bookies:
        bookie.is_hung = True
    writer.add(b"0", done)
    await asyncio.sleep(0.1)
    await client.aclose()
    assert done.failed == [0]
    await client.aclose()


def test_configuration_reports_every_fault() -> None:
    with pytest.raises(ConfigurationError) as caught:
        LedgerConfig(request_timeout_ms=0, change_mode="never", backoff_ms_min=3_000)  # type: ignore[arg-type]
    for fault in ("request_timeout_ms", "change_mode", "backoff_ms_min"):
        assert fault in str(caught.value)


def test_missing_ranges_are_merged_but_never_omitted() -> None:
    holes = UnderReplication(1)
    bookie = BookieId("b@00000000")
    for i in range(0, 4000, 4):
        holes.add(0, bookie, i, stride=3)
    for i in (10, 11, 12, 5):
        holes.add(100, bookie, i, stride=1)
    many, few = holes.take()
    assert len(many.ranges) <= 256
    assert all(any(a <= i <= b for a, b in many.ranges) for i in range(0, 4000, 4))
    assert few.ranges == ((5, 5), (10, 12))
    assert holes.take() == []


class ReadableLedgers(FakeLedgers):
    """A store that serves reads; while it is stuck, writes fail after a second."""

    is_stuck = False

    async def write(self, metadata: LedgerMetadata, expect: Version) -> Version:
        if self.is_stuck:
            await asyncio.sleep(1)
            raise MetadataAwayError("the store takes no writes")
        return await super().write(metadata, expect)


async def test_store_that_accepts_reads_only_delays_appends_once() -> None:
    """Callbacks stop for a change only if the store is known to accept writes."""
    world = World("abcabc")
    ledgers = world.ledgers = ReadableLedgers()
    async with world.client(config=LedgerConfig(change_mode="eager")) as client:
        loop = asyncio.get_running_loop()
        writer = await client.create(GEO)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: len(done.acked) == 1)
        ledgers.is_stuck = True
        members(world, writer)[2].go_down()
        slow_at = []
        for number in range(1, 200):
            began = loop.time()
            writer.add(b"%d" % number, done)
            await until(lambda: len(done.acked) == writer.last_add_pushed + 1)
            if loop.time() - began > 0.1:
                slow_at.append(number)
            await asyncio.sleep(0.05)
        assert len(slow_at) <= 1
        ledgers.is_stuck = False
        await until(lambda: len(writer.metadata.fragments) == 2)
        assert await writer.close() == ledgers.now(writer.ledger_id)


async def test_timer_is_started_once() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(ALL)
        writer._health.start_timer()
        timer = writer._health._timer
        assert timer is not None
        writer._health.start_timer()
        assert writer._health._timer is timer
        await writer.close()
        writer._health.start_timer()
        assert writer._health._timer is None, "a writer that has ended probes nothing"


async def test_quorum_times_out_after_its_milliseconds() -> None:
    config = LedgerConfig(quorum_timeout_ms=100_000, request_timeout_ms=600_000)
    world = World("abc", config)
    async with world.client() as client:
        writer = await client.create(ALL)
        for bookie in world.bookies:
            bookie.script = hold_adds
        writer._health.stop()
        writer.add(b"x", Outcomes())
        writer._health.stop()
        await asyncio.sleep(99.95)
        assert not writer._health._has_quorum_timed_out()
        await asyncio.sleep(0.1)
        assert writer._health._has_quorum_timed_out()
        assert isinstance(writer.failure, DeadlineExceededError)


async def test_backlog_of_a_bookie_ends_with_its_last_response() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        slow = members(world, writer)[2]
        slow.script = hold_adds
        for _ in range(3):
            writer.add(b"x" * 100, done)
        await until(lambda: len(done.acked) == 3)
        assert writer.state.replicas[2].lag_bytes == 300
        slow.script = None
        slow.release()
        await until(lambda: not writer._lag.is_waiting)
        assert writer.state.replicas[2].lag_bytes == 0
        await writer.close()


async def test_change_is_written_again_if_the_store_refused_it_without_a_newer_version() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        lost = members(world, writer)[0]
        lost.go_down()
        world.ledgers.fail_next("write", BadVersionError("a late write of this process"))
        writer.add(b"x", done)
        await until(lambda: done.acked == [0], 1)
        assert lost not in members(world, writer)
        assert world.ledgers.writes == 2
        await writer.close()
