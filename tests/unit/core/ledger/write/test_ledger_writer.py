"""Ledger writers: entries as stored, room, callbacks, explicit LACs, traces and the end."""

import asyncio
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    BookieUnavailableError,
    ClosedError,
    DeadlineExceededError,
    LedgerClosedError,
    LedgerFencedError,
    LimitExceededError,
    MetadataUnavailableError,
    RecordTooLargeError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.tracing import TraceStep
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.entry import EntryDigest, decode_entry, decode_lac, master_key
from rhumbline.tests.unit.core.ledger.test_add_trace import FakeTracer
from rhumbline.tests.unit.core.ledger.world import (
    HOLD,
    FakeBookie,
    MetadataAwayError,
    Outcomes,
    Request,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

Q = Quorum(3, 3, 2, 1)
GEO = Quorum(3, 3, 2, 2)
ALL = Quorum(3, 3, 3, 1)


def members(world: World, writer: LedgerWriter) -> list[FakeBookie]:
    return [world.by_id[bookie] for bookie in writer.metadata.last_fragment.bookies]


def hold_adds(request: Request) -> object:
    return HOLD if isinstance(request, v2.AddRequest) else None


def hold_all(world: World) -> None:
    for bookie in world.bookies:
        bookie.script = hold_adds


def release_all(world: World) -> None:
    for bookie in world.bookies:
        bookie.script = None
        bookie.release()


def lac_writes(bookie: FakeBookie) -> list[pb.WriteLacRequest]:
    return [
        request.write_lac_request
        for request in bookie.requests
        if isinstance(request, pb.Request) and request.HasField("write_lac_request")
    ]


# --- entries ------------------------------------------------------------------------------------


async def test_stored_entries_carry_ids_lac_length_and_key() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q, password=b"secret")
        done = Outcomes()
        digest = EntryDigest(writer.metadata.digest_type, b"secret")
        lacs = []
        for payload in (b"a", b"", b"ccc"):
            lacs.append(writer.last_add_confirmed)
            writer.add(payload, done)
            await asyncio.sleep(0.01)
        lacs += [writer.last_add_confirmed] * 2
        assert [writer.add(b"dd", done), writer.add(b"e", done)] == [3, 4]
        assert (writer.last_add_pushed, writer.last_add_confirmed) == (4, 2)
        assert (writer.pending_count, writer.pending_bytes) == (2, 3)
        await until(lambda: len(done.acked) == 5)
        await asyncio.sleep(0.01)
        assert (writer.pending_count, writer.pending_bytes) == (0, 0)
        assert lacs == [-1, 0, 1, 2, 2]
        for bookie in world.bookies:
            found = [
                decode_entry(digest, writer.ledger_id, i, bookie.entries[writer.ledger_id, i])
                for i in range(5)
            ]
            assert [(e.lac, e.length, e.payload) for e in found] == [
                (-1, 1, b"a"),
                (0, 1, b""),
                (1, 4, b"ccc"),
                (2, 6, b"dd"),
                (2, 7, b"e"),
            ]
            adds = [r for r in bookie.requests if isinstance(r, v2.AddRequest)]
            assert {add.master_key for add in adds} == {master_key(b"secret")}
        closed = await writer.close()
        assert (closed.last_entry_id, closed.length) == (4, 7)
        assert await writer.close() == closed
        assert world.ledgers.writes == 1


async def test_entries_go_to_their_write_set_only() -> None:
    world = World("abcde")
    async with world.client() as client:
        quorum = Quorum(5, 3, 2, 1)
        writer = await client.create(quorum)
        done = Outcomes()
        for i in range(20):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 20)
        await asyncio.sleep(0.01)
        for index, bookie in enumerate(members(world, writer)):
            wanted = [i for i in range(20) if index in quorum.write_set(i)]
            assert bookie.ids(writer.ledger_id) == wanted
        await writer.close()


async def test_regions_of_an_entry_are_those_that_stored_it_by_its_acknowledgement() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        slow = members(world, writer)[1]
        slow.script = hold_adds
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        expected = tuple(str(b.region) for b in members(world, writer) if b is not slow)
        assert done.all[0][2] == expected
        slow.script = None
        slow.release()
        await asyncio.sleep(0.01)
        await writer.close()
        assert world.holes == []


async def test_payload_is_bounded_exactly_and_the_bound_is_named() -> None:
    world = World("abc", LedgerConfig(entry_bytes_max=136))
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        assert writer.add(b"x" * 100, done) == 0
        with pytest.raises(RecordTooLargeError, match=r"101 bytes; the limit is 100$"):
            writer.add(b"x" * 101, done)
        assert writer.last_add_pushed == 0
        await writer.close()


# --- room ---------------------------------------------------------------------------------------


async def test_pending_bytes_are_bounded_and_half_of_them_is_room() -> None:
    world = World("abc", LedgerConfig(pending_bytes_max=100))
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        hold_all(world)
        for _ in range(2):
            writer.add(b"x" * 49, done)
            assert writer.has_room
        writer.add(b"xx", done)
        assert not writer.has_room
        with pytest.raises(LimitExceededError, match="3 entries of 100 bytes wait"):
            writer.add(b"", done)
        notified: list[int] = []
        writer.on_room(lambda: notified.append(writer.pending_bytes))
        await asyncio.sleep(0.01)
        assert notified == []
        for bookie in world.bookies:
            bookie.script = None
            bookie.held.pop(0)()  # the first entry only
        await until(lambda: done.acked == [0])
        assert writer.pending_bytes == 51
        await asyncio.sleep(0.01)
        assert notified == []
        assert writer.has_room
        release_all(world)
        await until(lambda: len(done.acked) == 3)
        assert len(notified) == 1
        await writer.close()


@pytest.mark.parametrize(("left", "is_notified"), [(5, True), (6, False)])
async def test_room_is_notified_when_half_of_the_entries_are_left(
    left: int, is_notified: bool
) -> None:
    world = World("abc", LedgerConfig(pending_entries_max=10))
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        hold_all(world)
        for i in range(10):
            assert writer.has_room
            writer.add(b"%d" % i, done)
        assert not writer.has_room
        notified: list[int] = []
        writer.on_room(lambda: notified.append(writer.pending_count))
        for bookie in world.bookies:
            await until(lambda b=bookie: len(b.held) == 10)  # type: ignore[misc]
            for _ in range(10 - left):
                bookie.held.pop(0)()
        await until(lambda: len(done.acked) == 10 - left)
        await asyncio.sleep(0.01)
        assert bool(notified) == is_notified
        release_all(world)
        await until(lambda: len(done.acked) == 10)
        assert len(notified) == 1
        await writer.close()


async def test_room_that_exists_is_notified_soon_but_not_inside_the_call() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        notified: list[str] = []
        writer.on_room(lambda: notified.append("room"))
        assert notified == []
        await asyncio.sleep(0)
        assert notified == ["room"]
        await writer.close()
        await asyncio.sleep(0.01)
        writer.on_room(lambda: notified.append("failed"))
        await asyncio.sleep(0)
        assert notified == ["room", "failed"]


async def test_failure_notifies_those_who_wait_for_room() -> None:
    world = World("abc", LedgerConfig(pending_entries_max=2))
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        hold_all(world)
        writer.add(b"0", done)
        writer.add(b"1", done)
        notified: list[bool] = []
        writer.on_room(lambda: notified.append(writer.is_failed))
        writer.abandon()
        assert notified == []
        await asyncio.sleep(0)
        assert notified == [True]
        assert (writer.pending_count, writer.pending_bytes) == (0, 0)


# --- callbacks and failures ---------------------------------------------------------------------


async def test_error_in_a_callback_is_reported_and_disturbs_no_other_entry() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()

        def fails(*_: object) -> None:
            raise ValueError("bad callback")

        writer.add(b"0", done)
        writer.add(b"1", fails)
        writer.add(b"2", done)
        await until(lambda: done.acked == [0, 2])
        (failure,) = world.loop.failures
        assert isinstance(failure["exception"], ValueError)
        assert failure["message"] == "callback of entry 1 raised"
        world.loop.failures.clear()
        await writer.close()


async def test_entry_that_a_callback_adds_is_confirmed_later_and_in_order() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        order: list[int] = []

        def add_another(entry_id: int, *_: object) -> None:
            order.append(entry_id)
            if entry_id < 5:
                writer.add(b"more", add_another)

        writer.add(b"first", add_another)
        await until(lambda: order == list(range(6)))
        await writer.close()


async def test_failure_is_reported_once_and_ends_every_entry() -> None:
    world = World("abc", LedgerConfig(quorum_timeout_ms=1_000))
    async with world.client() as client:
        writer = await client.create(Q)
        failures: list[RhumblineError] = []
        writer.on_failure = failures.append
        done = Outcomes()
        assert writer.failure is None
        assert not writer.is_failed
        hold_all(world)
        for i in range(3):
            writer.add(b"%d" % i, done)
        await until(lambda: writer.is_failed)
        assert failures == [writer.failure]
        assert isinstance(writer.failure, DeadlineExceededError)
        assert [entry_id for entry_id, _, _ in done.all] == [0, 1, 2]
        for _, error, regions in done.all:
            assert isinstance(error, AppendOutcomeUnknownError)
            assert error.__cause__ is writer.failure
            assert regions == ()
        with pytest.raises(DeadlineExceededError):
            writer.add(b"3", done)
        release_all(world)
        await asyncio.sleep(0.01)
        assert len(done.all) == 3
        writer.abandon()
        assert len(failures) == 1
        closed = await writer.close()
        assert (closed.last_entry_id, closed.length) == (-1, 0)
        assert client.writers() == []


async def test_entry_that_was_sent_to_no_bookie_has_certainly_failed() -> None:
    world = World("abc", LedgerConfig(backoff_ms_min=60_000, backoff_ms_max=60_000))
    async with world.client() as client:
        writer = await client.create(Q)
        for bookie in world.bookies:
            bookie.go_down()
        await asyncio.sleep(0.1)
        done = Outcomes()
        writer.add(b"0", done)
        writer.abandon()
        ((_, error, _),) = done.all
        assert error is writer.failure
        assert str(error) == f"the writer of ledger {writer.ledger_id} was stopped"


async def test_end_by_its_owner_is_no_failure_to_report() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        failures: list[RhumblineError] = []
        writer.on_failure = failures.append
        await writer.close()
        assert isinstance(writer.failure, ClosedError)
        assert failures == []


async def test_drain_is_requested_from_the_owner_while_the_writer_lives() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        writer.request_drain()
        requested: list[str] = []
        writer.on_drain_requested = lambda: requested.append("drain")
        writer.request_drain()
        assert requested == ["drain"]
        assert not writer.is_failed
        await writer.close()
        writer.request_drain()
        assert requested == ["drain"]


async def test_latency_of_adds_is_counted() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        hold_all(world)
        writer.add(b"0", done)
        await asyncio.sleep(0.1)
        writer.add(b"1", done)
        await asyncio.sleep(0.1)
        release_all(world)
        await until(lambda: len(done.acked) == 2)
        adds = client.statistics()["adds"]
        assert adds["count"] == 2
        assert 200 <= adds["max_ms"] <= 202
        await writer.close()


# --- explicit LACs ------------------------------------------------------------------------------


async def test_explicit_lac_reaches_every_bookie_of_the_ensemble() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q, password=b"secret")
        outcomes: list[bool] = []
        assert not writer.send_explicit_lac(outcomes.append)
        done = Outcomes()
        for i in range(3):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 3)
        assert writer.send_explicit_lac(outcomes.append)
        assert outcomes == []
        await asyncio.sleep(0.01)
        assert outcomes == [True]
        digest = EntryDigest(writer.metadata.digest_type, b"secret")
        for bookie in world.bookies:
            (sent,) = lac_writes(bookie)
            assert (sent.ledger_id, sent.lac) == (writer.ledger_id, 2)
            assert sent.master_key == master_key(b"secret")
            assert decode_lac(digest, writer.ledger_id, bytes(sent.body)) == 2
        await writer.close()
        assert not writer.send_explicit_lac(outcomes.append)
        await writer.publish_lac()
        assert outcomes == [True]


@pytest.mark.parametrize(("refusals", "is_stored"), [(1, True), (2, False), (3, False)])
async def test_explicit_lac_is_stored_if_p_of_the_bookies_stored_it(
    refusals: int, is_stored: bool
) -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        for bookie in members(world, writer)[:refusals]:
            bookie.script = lambda _: v3.Status.IO
        outcomes: list[bool] = []
        assert writer.send_explicit_lac(outcomes.append)
        await asyncio.sleep(0.1)
        assert outcomes == [is_stored]
        assert not writer.is_failed
        await writer.close()


async def test_publishing_waits_for_p_and_not_for_the_slowest_bookie() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        members(world, writer)[0].is_hung = True
        began = loop.time()
        await writer.publish_lac()
        assert loop.time() - began < 0.01
        members(world, writer)[1].is_hung = True
        began = loop.time()
        await writer.publish_lac()
        assert 5 <= loop.time() - began < 7
        writer.abandon()


async def test_fenced_explicit_lac_fails_the_writer() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        members(world, writer)[2].script = lambda _: v3.Status.FENCED
        await writer.publish_lac()
        await until(lambda: writer.is_failed)
        assert isinstance(writer.failure, LedgerFencedError)


async def test_explicit_lac_that_no_bookie_can_take_is_not_sent() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        for bookie in world.bookies:
            bookie.go_down()
        await asyncio.sleep(0.001)
        outcomes: list[bool] = []
        assert not writer.send_explicit_lac(outcomes.append)
        await asyncio.sleep(0.01)
        assert outcomes == []
        writer.abandon()


async def test_introduction_tells_the_bookies_of_the_ledger() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        await writer.introduce()
        await asyncio.sleep(0.01)
        digest = EntryDigest(writer.metadata.digest_type)
        for bookie in world.bookies:
            (sent,) = lac_writes(bookie)
            assert (sent.ledger_id, sent.lac) == (writer.ledger_id, -1)
            assert decode_lac(digest, writer.ledger_id, bytes(sent.body)) == -1
        await writer.close()
        await writer.introduce()
        assert all(len(lac_writes(bookie)) == 1 for bookie in world.bookies)


async def test_introduction_waits_a_second_at_most() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(Q)
        for bookie in world.bookies:
            bookie.is_hung = True
        began = loop.time()
        await writer.introduce()
        assert loop.time() - began == pytest.approx(1, abs=0.002)
        for bookie in world.bookies:
            bookie.is_hung = False
            bookie.script = lambda _: v3.Status.IO
        began = loop.time()
        await writer.introduce()
        assert loop.time() - began < 0.01
        assert not writer.is_failed
        await asyncio.sleep(10)
        await writer.close()


# --- traces -------------------------------------------------------------------------------------


async def test_traced_entry_has_spans_of_the_add_and_of_each_bookie() -> None:
    world = World("abc")
    async with world.client() as client:
        untraced = await client.create(Q)
        done = Outcomes()
        untraced.add(b"0", done, ["parent"])
        await until(lambda: done.acked == [0])
    tracer = FakeTracer()
    world.runtime = replace(world.runtime, tracer=tracer)
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        writer.add(b"000", done)
        writer.add(b"111", done, ["parent"])
        await until(lambda: done.acked == [0, 1])
        await asyncio.sleep(0.01)
        add, *stores = tracer.spans
        assert (add.step, add.parents) == (TraceStep.ADD, ["parent"])
        assert add.attributes == {
            "ledger_id": writer.ledger_id,
            "entry_id": 1,
            "size_bytes": 3,
        }
        assert add.ends == [(None, {"regions": done.all[1][2]})]
        assert {span.attributes["bookie"] for span in stores} == {b.bookie for b in world.bookies}
        assert [span.ends for span in stores] == [[(None, {})]] * 3
        hold_all(world)
        writer.add(b"2", done, ["parent"])
        writer.abandon()
        failed = tracer.spans[4]
        assert isinstance(failed.ends[0][0], AppendOutcomeUnknownError)


# --- closing ------------------------------------------------------------------------------------


SHORT = LedgerConfig(metadata_timeout_ms=1_000, backoff_ms_min=10, backoff_ms_max=50)


async def test_close_is_retried_until_the_store_responds_or_the_deadline() -> None:
    world = World("abc", SHORT)
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        world.ledgers.is_away = True
        began = loop.time()
        with pytest.raises(UnavailableError):
            await writer.close()
        assert 1.0 <= loop.time() - began < 1.2
        loop.call_later(0.5, setattr, world.ledgers, "is_away", False)
        closed = await writer.close()
        assert (closed.state, closed.last_entry_id) == (LedgerState.CLOSED, 0)
        assert world.closed(writer.ledger_id) == closed == writer.metadata


async def test_close_waits_for_a_change_under_way_until_the_deadline() -> None:
    world = World("abcabc", LedgerConfig(metadata_timeout_ms=1_000, change_mode="eager"))
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(ALL)
        world.ledgers.gate = gate = asyncio.Event()
        members(world, writer)[0].go_down()
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: writer.changer.is_running)
        await asyncio.sleep(0.1)
        began = loop.time()
        with pytest.raises(MetadataUnavailableError):
            await writer.close()
        assert loop.time() - began == pytest.approx(1, abs=0.01)
        gate.set()
        closed = await writer.close()
        assert closed.last_entry_id == -1


async def test_ledger_that_another_closed_elsewhere_is_not_closed_again() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        for i in range(3):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 3)
        stored = world.ledgers.now(writer.ledger_id)
        world.ledgers.set(stored.closed(1, 2))
        with pytest.raises(LedgerClosedError, match=r"at entry 1, not at 2$"):
            await writer.close()
        world.ledgers.set(stored.closed(2, 2))
        with pytest.raises(LedgerClosedError):
            await writer.close()
        world.ledgers.set(stored.closed(2, 3))
        closed = await writer.close()
        assert (closed.last_entry_id, closed.length) == (2, 3)


@pytest.mark.parametrize(
    ("first_of_new_fragment", "may_close"), [(None, True), (2, True), (3, True), (4, False)]
)
async def test_open_ledger_with_an_unknown_fragment_is_closed_if_it_begins_by_its_end(
    first_of_new_fragment: int | None, may_close: bool
) -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        for i in range(3):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 3)
        stored = world.ledgers.now(writer.ledger_id)
        others = tuple(
            b.bookie for b in world.bookies if b.bookie not in stored.last_fragment.bookies
        )
        if first_of_new_fragment is not None:
            stored = stored.with_fragment(first_of_new_fragment, others)
        world.ledgers.set(stored)
        if may_close:
            assert (await writer.close()).last_entry_id == 2
            return
        with pytest.raises(LedgerFencedError):
            await writer.close()
        assert world.ledgers.now(writer.ledger_id) == stored


async def test_ledger_whose_recovery_changed_its_ensemble_is_left_to_the_recovery() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(Q)
        stored = world.ledgers.now(writer.ledger_id).in_recovery()
        others = tuple(
            b.bookie for b in world.bookies if b.bookie not in stored.last_fragment.bookies
        )
        world.ledgers.set(stored.with_bookies_of(0, others))
        with pytest.raises(LedgerFencedError):
            await writer.close()
        world.ledgers.set(stored)
        assert (await writer.close()).state is LedgerState.CLOSED


async def test_fenced_writer_adopts_only_a_ledger_that_was_closed_at_its_end() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        for bookie in world.bookies:
            bookie.fenced[writer.ledger_id] = None
        writer.add(b"1", done)
        await until(lambda: writer.is_failed)
        stored = world.ledgers.now(writer.ledger_id)
        with pytest.raises(LedgerFencedError):
            await writer.close()
        assert world.ledgers.now(writer.ledger_id) == stored
        world.ledgers.fail_next("read", MetadataAwayError("away"))
        world.ledgers.set(stored.in_recovery().closed(0, 1))
        assert (await writer.close()).last_entry_id == 0


# --- failed replicas ----------------------------------------------------------------------------


async def test_failed_bookie_gets_one_probe_at_a_time_and_then_everything() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        slow = members(world, writer)[2]
        writer.add(b"first", done)
        await until(lambda: done.acked == [0])
        slow.script = lambda request: v2.Code.IO if isinstance(request, v2.AddRequest) else None
        writer.add(b"0", done)
        await until(lambda: writer.state.failed_mask == 0b100)
        await asyncio.sleep(0.01)
        slow.script = hold_adds
        slow.requests.clear()
        for i in range(10):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(0.01)
        assert len(slow.requests) == 1
        assert len(done.acked) == 12
        slow.script = None
        slow.release()
        await until(lambda: writer.state.failed_mask == 0)
        slow.requests.clear()
        for i in range(5):
            writer.add(b"%d" % i, done)
        await asyncio.sleep(0.01)
        assert len(slow.requests) == 5
        await writer.close()
        missing = [i for i in range(17) if i not in slow.ids(writer.ledger_id)]
        (hole,) = world.holes
        assert (hole.ledger_id, hole.fragment_first_entry_id) == (writer.ledger_id, 0)
        assert missing
        assert all(any(a <= i <= b for a, b in hole.ranges) for i in missing)


async def test_waiting_entries_probe_a_failed_bookie_without_further_adds() -> None:
    world = World("abc", LedgerConfig(backoff_ms_min=10, backoff_ms_max=100))
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        refused: list[float] = []
        loop = asyncio.get_running_loop()
        failed = members(world, writer)[1]

        def refuse(request: Request) -> object:
            if isinstance(request, v2.AddRequest):
                refused.append(loop.time())
            return v2.Code.IO

        failed.script = refuse
        writer.add(b"0", done)
        await asyncio.sleep(2)
        assert done.all == []
        pauses = [b - a for a, b in pairwise(refused)]
        assert len(pauses) >= 10
        assert all(0.05 <= pause <= 0.16 for pause in pauses)
        failed.script = None
        await until(lambda: done.acked == [0], 0.2)
        await writer.close()


async def test_unavailable_bookies_and_lost_connections_are_avoided_lately() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        lost = members(world, writer)[2]
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        assert client.statistics()["failed_lately"] == []
        lost.go_down()
        writer.add(b"1", done)
        await until(lambda: writer.state.failed_mask == 0b100)
        assert client.statistics()["failed_lately"] == [lost.bookie]
        assert isinstance(writer.replicas[2].error, BookieUnavailableError)
        assert writer.replicas[2].failed_since is not None
        lost.come_up()
        for i in range(40):
            writer.add(b"%d" % i, done)
            await asyncio.sleep(0.1)
        assert writer.state.failed_mask == 0
        assert writer.replicas[2].error is None
        assert writer.replicas[2].failed_since is None
        await writer.close()


async def test_quorum_time_out_counts_from_the_oldest_entry() -> None:
    world = World("abc", LedgerConfig(quorum_timeout_ms=2_000, request_timeout_ms=60_000))
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        for _ in range(20):  # entries that are confirmed cause no time-out
            writer.add(b"x", done)
            await asyncio.sleep(0.3)
        assert not writer.is_failed
        hold_all(world)
        began = loop.time()
        writer.add(b"x", done)
        await until(lambda: writer.is_failed)
        assert 2 < loop.time() - began < 2.3
        text = str(writer.failure)
        assert "entry 20 has no quorum after 2" in text
        assert "(quorum_timeout_ms is 2000)" in text
        await writer.close()


async def test_bookie_that_failed_for_too_long_is_replaced_in_time() -> None:
    config = LedgerConfig(underreplicated_ms_max=2_000, backoff_ms_min=10, backoff_ms_max=100)
    world = World("abcabc", config)
    loop: Any = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        lost = members(world, writer)[1]
        lost.go_down()
        writer.add(b"0", done)
        await until(lambda: writer.state.failed_mask == 0b010)
        began = loop.time()
        await until(lambda: lost not in members(world, writer))
        assert 2 < loop.time() - began < 2.3
        assert writer.state.failed_mask == 0
        await writer.close()
        assert [(hole.bookie, hole.ranges) for hole in world.holes] == [(lost.bookie, ((0, 0),))]


async def test_missing_entries_are_reported_once_the_last_response_has_come() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        slow = members(world, writer)[1]
        slow.script = hold_adds
        done = Outcomes()
        for i in range(3):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 3)
        await until(lambda: len(slow.held) == 3)
        await writer.close()
        assert world.holes == []
        pipe, adds = slow.pipes[0], [r for r in slow.requests if isinstance(r, v2.AddRequest)]
        slow.serve(pipe, adds[0], v2.Code.IO)
        slow.serve(pipe, adds[1], None)
        await asyncio.sleep(0.01)
        assert world.holes == []
        slow.serve(pipe, adds[2], v2.Code.IO)
        await asyncio.sleep(0.01)
        found = [(hole.ledger_id, hole.bookie, hole.ranges) for hole in world.holes]
        assert len(found) == 1
        assert found[0][:2] == (writer.ledger_id, slow.bookie)
        assert all(any(a <= i <= b for a, b in found[0][2]) for i in (0, 2))


async def test_bookie_that_stays_in_the_ensemble_is_watched_after_a_change() -> None:
    world = World("abcabc", LedgerConfig(change_mode="eager"))
    async with world.client() as client:
        writer = await client.create(Q)
        stays, leaves = members(world, writer)[:2]
        stays.script = hold_adds
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        leaves.go_down()
        writer.add(b"1", done)
        await until(lambda: leaves not in members(world, writer))
        assert stays in members(world, writer)
        stays.go_down()
        await until(lambda: stays not in members(world, writer), 1)
        await writer.close()
        assert {hole.bookie for hole in world.holes} >= {stays.bookie}


async def test_change_of_r_leaves_failed_bookies_that_p_does_not_need() -> None:
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        lost = members(world, writer)[2]
        lost.go_down()
        writer.add(b"0", done)
        await until(lambda: writer.state.failed_mask == 0b100)
        writer.set_min_regions(1)
        await until(lambda: writer.view.quorum.min_regions == 1)
        await asyncio.sleep(1)
        assert lost in members(world, writer)
        assert writer.state.failed_mask == 0b100
        writer.set_min_regions(1)
        await asyncio.sleep(0.1)
        assert world.ledgers.writes == 1
        await writer.close()


async def test_a_lowered_r_frees_a_writer_although_nothing_replaces_the_lost_bookies() -> None:
    world = World("aabb")
    async with world.client() as client:
        writer = await client.create(Quorum(4, 4, 2, 2))
        done = Outcomes()
        for bookie in world.bookies:
            if bookie.region == "b":
                bookie.go_down()
        writer.add(b"0", done)
        await until(lambda: writer.changer.is_running and writer.state.failed_mask.bit_count() == 2)
        await asyncio.sleep(0.5)
        assert done.acked == []
        before = writer.metadata.last_fragment.bookies
        writer.set_min_regions(1)
        await until(lambda: done.acked == [0], 5)
        assert (writer.view.quorum.min_regions, writer.metadata.r_ranges()) == (1, ((0, 1),))
        assert writer.metadata.last_fragment.bookies == before
        await asyncio.sleep(30)
        assert not writer.is_failed, "P needs no other bookies any more"
        await writer.close()


async def test_a_lowered_r_counts_only_bookies_that_have_read_it() -> None:
    world = World("aab")
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        refusing, _ = (bookie for bookie in world.bookies if bookie.region == "a")
        (away,) = (bookie for bookie in world.bookies if bookie.region == "b")
        away.is_hung = True
        writer.add(b"0", done)
        await until(lambda: writer.state.queue[0].acks.bit_count() == 2)
        refusing.script = lambda request: (
            None if isinstance(request, v2.AddRequest) else v3.Status.UNKNOWN_STATE
        )
        writer.set_min_regions(1)
        await until(lambda: writer.view.quorum.min_regions == 1, 5)
        assert [write.lac for bookie in world.bookies for write in lac_writes(bookie)] == [-1] * 3
        assert done.acked == [], "one of the two copies is on a bookie that may not know of R = 1"
        refusing.script = None
        await until(lambda: done.acked == [0], 30)
        assert len(lac_writes(refusing)) > 1
        adds = [at for at, one in enumerate(refusing.requests) if isinstance(one, v2.AddRequest)]
        assert isinstance(refusing.requests[adds[-1] - 1], pb.Request), "asked before the add"
        await writer.close()


async def test_failed_bookie_is_replaced_under_the_present_r_if_the_wanted_one_is_impossible() -> (
    None
):
    world = World("aabbab", LedgerConfig(change_mode="eager"))
    async with world.client() as client:
        writer = await client.create(Quorum(4, 4, 3, 2))
        done = Outcomes()
        world.ledgers.gate = gate = asyncio.Event()
        first, second = members(world, writer)[:2]
        first.go_down()
        writer.add(b"0", done)
        await until(lambda: writer.changer.is_running)
        await asyncio.sleep(0.1)
        second.go_down()
        writer.add(b"1", done)
        await until(lambda: writer.state.failed_mask == 0b11)
        writer.set_min_regions(3)
        gate.set()
        await until(lambda: writer.state.failed_mask == 0, 5)
        assert not {first.bookie, second.bookie} & set(writer.metadata.last_fragment.bookies)
        assert writer.view.quorum.min_regions == 2
        writer.add(b"2", done)
        await until(lambda: done.acked == [0, 1, 2])
        await writer.close()


@pytest.mark.parametrize(("fragments", "is_failed"), [(2, False), (1, True)])
async def test_number_of_fragments_is_bounded_exactly(fragments: int, is_failed: bool) -> None:
    world = World("abcabc", LedgerConfig(change_mode="eager", fragments_max=fragments))
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        writer.add(b"0", done)
        await until(lambda: done.acked == [0])
        members(world, writer)[0].go_down()
        writer.add(b"1", done)
        await until(lambda: len(done.all) == 2)
        assert writer.is_failed == is_failed
        if is_failed:
            assert isinstance(writer.failure, LimitExceededError)
            assert "2 fragments, " in str(writer.failure)
            assert "the limits are 1 and 32768" in str(writer.failure)
        await writer.close()


async def test_replacement_that_cannot_be_found_fails_the_ledger_in_time() -> None:
    config = LedgerConfig(replacement_wait_ms_max=2_000, backoff_ms_min=10, backoff_ms_max=100)
    world = World("abc", config)
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        members(world, writer)[0].go_down()
        began = loop.time()
        writer.add(b"0", done)
        await until(lambda: writer.is_failed)
        assert 2 <= loop.time() - began < 2.3
        await writer.close()


@pytest.mark.parametrize("mode", ["delayed", "eager"])
async def test_failed_bookie_is_replaced_at_once_only_in_eager_mode(mode: Any) -> None:  # noqa: ANN401
    world = World("abcabc", LedgerConfig(change_mode=mode))
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        lost = members(world, writer)[0]
        lost.go_down()
        writer.add(b"0", done)
        await asyncio.sleep(1)
        assert done.acked == [0]
        assert (lost in members(world, writer)) == (mode == "delayed")
        await writer.close()


async def test_entry_that_completes_during_a_callback_is_called_back_after_it() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(ALL)
        hold_all(world)
        calls: list[str] = []

        def on_first(entry_id: int, *_: object) -> None:
            calls.append("first begins")
            for replica in writer.state.replicas:
                writer.on_added(second, replica, None)
            calls.append("first ends")

        writer.add(b"a", on_first)
        writer.add(b"b", lambda *_: calls.append("second"))
        first, second = writer.state.queue
        for replica in writer.state.replicas:
            writer.on_added(first, replica, None)
        assert calls == ["first begins", "first ends", "second"]
        assert writer.last_add_confirmed == 1
        await writer.close()


async def test_copies_that_a_replaced_bookie_never_confirmed_are_reported() -> None:
    world = World("aabbcc", LedgerConfig(replica_backlog_bytes_max=2_000, change_mode="eager"))
    async with world.client() as client:
        writer = await client.create(GEO)
        done = Outcomes()
        slow = members(world, writer)[2]
        slow.script = hold_adds
        for _ in range(40):
            writer.add(b"x" * 500, done)
            await asyncio.sleep(0.05)
        assert slow not in members(world, writer)
        count = writer.metadata.last_fragment.first_entry_id
        assert count > 3
        slow.go_down()  # what it had not confirmed is lost
        await asyncio.sleep(0.1)
        await writer.close()
        lost = {
            entry_id
            for hole in world.holes
            if hole.bookie == slow.bookie
            for first, last in hole.ranges
            for entry_id in range(first, last + 1)
        }
        assert lost == set(range(count))
