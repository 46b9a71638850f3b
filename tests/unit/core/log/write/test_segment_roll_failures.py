"""Tests that failures of ledgers, writers and stores neither lose nor duplicate records.

The rules are STR-9 and STR-10.
"""

import asyncio

import pytest

from rhumbline.core.log.config import WriterConfig
from rhumbline.core.log.metadata.stream_store import StreamStore
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    ClosedError,
    DeadlineExceededError,
    LedgerFencedError,
    NotEnoughBookiesError,
    RhumblineError,
    StreamLostError,
    UnavailableError,
)
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.lossy_store import LOST_REPLY, LOST_REQUEST, UNAVAILABLE
from rhumbline.tests.support.fakes.recorded_log import recorded_log


@pytest.mark.parametrize("keeps_unacked", [True, False])
@pytest.mark.parametrize("acked", [0, 1, 3, 5])
async def test_ledger_failure_neither_loses_nor_duplicates_records(
    world: LogWorld, acked: int, keeps_unacked: bool
) -> None:
    """Each record is stored once, whether or not recovery finds the unacknowledged entries."""
    world.ledgers.keeps_unacked = keeps_unacked
    world.ledgers.are_acks_held = True
    writer = await world.writer("s")
    tickets = []
    for n in range(5):
        tickets.append(writer.append(b"%d" % n))
        await asyncio.sleep(0)
    world.ledgers.release_acks(acked)
    world.ledgers.are_acks_held = False
    world.ledgers.fail_writers()
    tickets.append(writer.append(b"5"))
    results = [await ticket for ticket in tickets]
    dlsns = [result.dlsn for result in results]
    assert dlsns == sorted(set(dlsns))
    assert [r.dlsn.lssn for r in results[:acked]] == [1] * acked
    assert results[-1].dlsn.lssn == 2
    await writer.close()
    records = await world.read_all("s", 6)
    assert [r.payload for r in records] == [b"%d" % n for n in range(6)]
    assert [r.dlsn for r in records] == dlsns
    assert [r.sequence_id for r in records] == list(range(6))
    segments = await world.segments("s")
    assert [s.is_completed for s in segments] == [True, True]


async def test_failed_ledger_of_an_idle_stream_is_replaced_at_once(world: LogWorld) -> None:
    writer = await world.writer("s")
    await writer.append(b"a")
    await asyncio.sleep(1)
    world.ledgers.fail_writers()
    await asyncio.sleep(1)
    assert len(await world.segments("s")) == 2
    await writer.append(b"b")
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]


async def test_three_consecutive_ledger_failures_lose_nothing(world: LogWorld) -> None:
    writer = await world.writer("s")
    tickets = []
    for n in range(30):
        tickets.append(writer.append(b"%d" % n))
        if n % 10 == 9:
            await asyncio.sleep(0)
            world.ledgers.keeps_unacked = n == 19
            world.ledgers.fail_writers()
            await asyncio.sleep(0)
    assert [(await t).dlsn for t in tickets] == sorted({(await t).dlsn for t in tickets})
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 30)] == [b"%d" % n for n in range(30)]


async def test_recovery_timeout_makes_sent_records_unknown_and_fails_unsent_ones(
    world: LogWorld,
) -> None:
    writer = await world.writer("s", None, WriterConfig(failover_ms_max=5000))
    world.ledgers.are_acks_held = True
    sent = writer.append(b"sent")
    await asyncio.sleep(0)
    world.ledgers.is_recovery_refused = True
    world.ledgers.fail_writers()
    unsent = writer.append(b"unsent")
    with pytest.raises(AppendOutcomeUnknownError):
        await sent
    with pytest.raises(RhumblineError) as failure:
        await unsent
    assert not isinstance(failure.value, AppendOutcomeUnknownError)
    assert 5 <= asyncio.get_running_loop().time() <= 8
    with pytest.raises(RhumblineError):
        writer.append(b"more")
    with pytest.raises(RhumblineError):
        await writer.close()
    world.ledgers.is_recovery_refused = False
    world.ledgers.are_acks_held = False
    following = await world.writer("s")
    await following.append(b"after")
    await following.close()
    assert [r.payload for r in await world.read_all("s", 2)] == [b"sent", b"after"]


async def test_fenced_writer_loses_the_stream(world: LogWorld) -> None:
    first = await world.writer("s", StreamPolicy(flush=FlushPolicy(period_ms=10)))
    await first.append(b"a")
    world.ledgers.are_acks_held = True
    sent = first.append(b"sent")
    await asyncio.sleep(0.02)
    second = await world.writer("s")
    buffered = first.append(b"buffered")
    world.ledgers.are_acks_held = False
    world.ledgers.release_acks()
    assert (await sent).dlsn == (1, 1, 0)  # the closed ledger contains it
    with pytest.raises(StreamLostError):
        await buffered
    with pytest.raises(StreamLostError):
        first.append(b"late")
    with pytest.raises(StreamLostError):
        await first.flush()
    with pytest.raises(StreamLostError):
        await first.close()
    await second.append(b"b")
    await second.close()
    assert [r.payload for r in await world.read_all("s", 3)] == [b"a", b"sent", b"b"]


async def test_fenced_writer_reports_absent_records_as_not_appended(
    world: LogWorld,
) -> None:
    first = await world.writer("s")
    world.ledgers.are_acks_held = True
    sent = first.append(b"sent")
    await asyncio.sleep(0.01)
    world.ledgers.keeps_unacked = False
    await (await world.writer("s")).close()
    world.ledgers.release_acks()
    with pytest.raises(StreamLostError):
        await sent
    await first.abort()


async def test_fenced_writer_reports_unknown_while_recovery_fails(
    world: LogWorld,
) -> None:
    first = await world.writer("s", None, WriterConfig(failover_ms_max=5000))
    world.ledgers.are_acks_held = True
    sent = first.append(b"sent")
    await asyncio.sleep(0.01)
    world.ledgers.is_recovery_refused = True
    world.ledgers.fail_writers(LedgerFencedError("by another writer"))
    with pytest.raises(AppendOutcomeUnknownError):
        await sent
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=2.5)
    await first.abort()


async def test_writer_that_loses_its_claim_during_a_roll_sends_nothing_more(
    world: LogWorld,
) -> None:
    first = await world.writer("s", StreamPolicy(roll_bytes=1))
    await StreamStore(world.store, "test").claim("s", "another writer, that then died")
    ticket = first.append(b"a")
    with recorded_log("rhumbline.core.log.write") as log:
        await ticket
        await asyncio.sleep(1)
    [failed] = log.fields("stream writer failed")
    assert (failed["namespace"], failed["stream"]) == ("test", "s")
    assert failed["error"].startswith("StreamLostError: ")
    assert "-> FAILED by FAIL (StreamLostError: " in failed["story"].split("; ")[-1]
    with pytest.raises(StreamLostError):
        first.append(b"b")
    with pytest.raises(StreamLostError):
        await first.close()
    assert len(world.ledgers.ledgers) == 1, "the unpublished ledger is deleted"
    second = await world.writer("s")
    await second.close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"a"]


async def test_fenced_writer_never_acknowledges(world: LogWorld) -> None:
    """A process pauses and resumes; both writers believe that they own the stream (G17)."""
    first = await world.writer("s")
    world.ledgers.keeps_unacked = False
    second = await world.writer("s")
    stale = first.append(b"stale")
    await second.append(b"fresh")
    with pytest.raises(RhumblineError):
        await stale
    await second.close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"fresh"]


async def test_takeover_completes_both_segments_of_an_interrupted_roll(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    world.ledgers.are_acks_held = True
    ticket = writer.append(b"a")
    await asyncio.sleep(1)
    segments = await world.segments("s")
    assert [s.is_completed for s in segments] == [False, False], "two in progress during a roll"
    await writer.abort()
    assert world.ledgers.open_writers() == [], "the published segment was released too"
    following = await world.writer("s")
    segments = await world.segments("s")
    assert [s.is_completed for s in segments] == [True, True, False]
    assert [s.record_count for s in segments] == [1, 0, 0]
    assert segments[1].is_empty
    world.ledgers.are_acks_held = False
    await following.append(b"b")
    await following.close()
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]
    world.ledgers.release_acks()
    with pytest.raises(RhumblineError):
        await ticket


async def test_appends_continue_while_the_metadata_store_is_unavailable(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=100))
    world.store.inner.disconnect()  # type: ignore[attr-defined]
    for n in range(100):
        await writer.append(b"%d" % n)
    world.store.inner.reconnect()  # type: ignore[attr-defined]
    await asyncio.sleep(5)
    await writer.append(b"100")
    assert len(await world.segments("s")) >= 2
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 101)] == [b"%d" % n for n in range(101)]


async def test_old_segment_stays_in_use_while_no_bookies_are_available(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=100))
    world.ledgers.create_error = NotEnoughBookiesError("the test says so")
    for n in range(50):
        await writer.append(b"%d" % n)
    await asyncio.sleep(60)
    assert len(await world.segments("s")) == 1
    world.ledgers.create_error = None
    await asyncio.sleep(3)
    await writer.append(b"50")
    segments = await world.segments("s")
    assert len(segments) >= 2
    await writer.close()
    assert [r.payload for r in await world.read_all("s", 51)] == [b"%d" % n for n in range(51)]


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST, UNAVAILABLE])
@pytest.mark.parametrize("at", range(8))
async def test_roll_survives_any_lost_request_or_reply(
    world: LogWorld, outcome: str, at: int
) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=200))
    world.store.outcomes = ["ok"] * at + [outcome, outcome]
    for n in range(100):
        await writer.append(b"%d" % n)
        await asyncio.sleep(0.01)
    await writer.close()
    assert not world.store.outcomes
    records = await world.read_all("s", 100)
    assert [r.payload for r in records] == [b"%d" % n for n in range(100)]
    segments = await world.segments("s")
    assert [s.lssn for s in segments] == list(range(1, len(segments) + 1))
    assert all(s.is_completed for s in segments)
    assert len({s.ledger_id for s in segments}) == len(segments) == len(world.ledgers.ledgers)


@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST])
@pytest.mark.parametrize("at", range(4))
async def test_open_survives_any_lost_request_or_reply(
    world: LogWorld, outcome: str, at: int
) -> None:
    first = await world.writer("s")
    await first.append(b"a")
    await first.abort()
    world.store.outcomes = ["ok"] * at + [outcome, outcome]
    second = await world.writer("s")
    await second.append(b"b")
    await second.close()
    assert [r.payload for r in await world.read_all("s", 2)] == [b"a", b"b"]
    assert len(world.ledgers.ledgers) == 2


async def test_failed_open_leaves_no_ledger_and_can_be_repeated(world: LogWorld) -> None:
    first = await world.writer("s")
    await first.append(b"a")
    world.ledgers.is_recovery_refused = True
    with pytest.raises(RhumblineError) as failure:
        await world.writer("s")
    assert failure.value.retryable
    assert len(world.ledgers.ledgers) == 1
    assert world.ledgers.open_writers() == [1], "only that of the first writer"
    world.ledgers.is_recovery_refused = False
    second = await world.writer("s")
    await second.close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"a"]
    await first.abort()
    assert world.ledgers.open_writers() == []


async def test_open_that_cannot_read_the_producers_releases_its_segment(world: LogWorld) -> None:
    async with await world.writer("s") as first:
        await first.append_numbered(b"p" * 16, 0, [b"a"])
    world.ledgers.read_error = UnavailableError("no bookie responds")
    with pytest.raises(UnavailableError):
        await world.writer("s")
    assert world.ledgers.open_writers() == []
    world.ledgers.read_error = None
    await (await world.writer("s")).close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"a"]


async def test_end_of_stream_survives_a_ledger_failure(world: LogWorld) -> None:
    for keeps in (True, False):
        world.ledgers.keeps_unacked = keeps
        name = f"s{keeps}"
        writer = await world.writer(name)
        await writer.append(b"a")
        world.ledgers.are_acks_held = True
        ending = asyncio.ensure_future(writer.end_stream())
        await asyncio.sleep(0.1)
        world.ledgers.are_acks_held = False
        world.ledgers.fail_writers()
        await ending
        reader = await world.namespace.open_reader(name, (await world.read_all(name, 1))[0].dlsn)
        assert [r.payload async for r in reader] == [b"a"]
        await reader.aclose()
        assert (await world.namespace.describe(name)).is_ended


async def test_writer_of_a_deleted_stream_fails(world: LogWorld) -> None:
    writer = await world.writer("s", StreamPolicy(roll_bytes=1))
    await world.namespace.delete_stream("s")
    writer.append(b"x")
    await asyncio.sleep(1)
    with pytest.raises(RhumblineError):
        writer.append(b"y")
    with pytest.raises(RhumblineError):
        await writer.close()
    assert not world.ledgers.ledgers
    assert await world.namespace.streams() == []


async def test_close_times_out(world: LogWorld) -> None:
    writer = await world.writer("s", None, WriterConfig(close_ms_max=5000))
    world.ledgers.are_acks_held = True
    ticket = writer.append(b"a")
    with pytest.raises(DeadlineExceededError):
        await writer.close()
    assert asyncio.get_running_loop().time() == pytest.approx(5, abs=0.1)
    with pytest.raises(AppendOutcomeUnknownError):
        await ticket
    world.ledgers.release_acks()  # too late, the writer has stopped
    world.ledgers.are_acks_held = False
    await (await world.writer("s")).close()
    assert [r.payload for r in await world.read_all("s", 1)] == [b"a"]


async def test_abort_settles_every_append(world: LogWorld) -> None:
    writer = await world.writer("s")
    world.ledgers.are_acks_held = True
    sent = writer.append(b"sent")
    await asyncio.sleep(0.01)
    buffered = writer.append(b"buffered")
    assert world.ledgers.open_writers() == [1]
    await writer.abort()
    assert world.ledgers.open_writers() == [], "the ledger client kept the writers of lost streams"
    with pytest.raises(AppendOutcomeUnknownError):
        await sent
    with pytest.raises(ClosedError):
        await buffered
