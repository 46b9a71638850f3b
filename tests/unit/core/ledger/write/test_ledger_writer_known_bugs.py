"""Known bugs of writers of this protocol; each test is named after the bug's number."""

import asyncio
from collections.abc import Callable

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import (
    AppendOutcomeUnknownError,
    BadVersionError,
    ClosedError,
    IndeterminateError,
    LedgerClosedError,
    LedgerFencedError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import v2
from rhumbline.tests.unit.core.ledger.world import (
    HOLD,
    FakeBookie,
    Outcomes,
    Request,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

Q = Quorum(3, 3, 2, 1)
ALL = Quorum(3, 3, 3, 1)  # no entry is acknowledged without every bookie
EAGER = LedgerConfig(change_mode="eager")


def members(world: World, writer: LedgerWriter) -> list[FakeBookie]:
    """Returns the fake bookies of the writer's current ensemble, by index."""
    return [world.by_id[bookie] for bookie in writer.metadata.last_fragment.bookies]


def hold_adds(request: Request) -> object:
    return HOLD if isinstance(request, v2.AddRequest) else None


def refuse_adds(code: v2.Code) -> Callable[[Request], object]:
    return lambda request: code if isinstance(request, v2.AddRequest) else None


async def started(world: World, writer: LedgerWriter, done: Outcomes, count: int = 3) -> None:
    """Adds entries 0 to count-1 and waits until all replicas have stored them."""
    for i in range(count):
        writer.add(b"%d" % i, done)
    await until(lambda: len(done.acked) == count)
    await asyncio.sleep(0.01)


def assert_holders(world: World, metadata: LedgerMetadata, acked: list[int]) -> None:
    """Checks that the recorded bookies of every acknowledged entry satisfy P (invariant L3)."""
    for entry_id in acked:
        fragment = metadata.fragment_of(entry_id)
        quorum = metadata.quorum_at(entry_id)
        holders = [
            index
            for index in quorum.write_set(entry_id)
            if (metadata.ledger_id, entry_id) in world.by_id[fragment.bookies[index]].entries
        ]
        regions = [world.by_id[fragment.bookies[index]].region for index in holders]
        assert len(holders) >= quorum.ack_quorum, (entry_id, fragment)
        assert len(dict.fromkeys(regions)) >= quorum.min_regions, (entry_id, fragment)


async def test_b4_change_is_evaluated_again_on_the_stored_metadata() -> None:
    """Repair replaced a bookie of an older fragment meanwhile: the change preserves that."""
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        members(world, writer)[0].go_down()
        writer.add(b"3", done)
        await until(lambda: len(writer.metadata.fragments) == 2)
        spare = [b for b in world.bookies if b not in members(world, writer) and not b.is_down]
        old = writer.metadata.fragments[0]
        repaired = writer.metadata.with_bookies_of(0, (spare[0].bookie, *old.bookies[1:]))
        world.ledgers.set(repaired)
        members(world, writer)[1].go_down()
        writer.add(b"4", done)
        await until(lambda: len(writer.metadata.fragments) == 3)
        assert world.ledgers.now(writer.ledger_id).fragments[0] == repaired.fragments[0]
        await until(lambda: done.acked == [0, 1, 2, 3, 4])


async def test_b5_second_failure_during_a_change_is_merged_and_handled_after_it() -> None:
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        first, second, _ = members(world, writer)
        world.ledgers.gate = asyncio.Event()
        first.go_down()
        writer.add(b"3", done)
        await asyncio.sleep(0.05)
        assert writer.changer.is_running
        second.go_down()
        writer.add(b"4", done)
        await asyncio.sleep(0.05)
        assert world.ledgers.writes == 0
        world.ledgers.gate.set()
        await until(lambda: len(done.acked) == 5)
        now = [b.bookie for b in members(world, writer)]
        assert first.bookie not in now
        assert second.bookie not in now
        assert_holders(world, world.ledgers.now(writer.ledger_id), done.acked)


async def test_b6_nothing_is_sent_to_a_bookie_that_the_stored_metadata_does_not_name() -> None:
    world = World("abca")
    async with world.client(config=EAGER) as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await started(world, writer, done)
        (spare,) = [b for b in world.bookies if b not in members(world, writer)]
        world.ledgers.gate = asyncio.Event()
        members(world, writer)[0].go_down()
        for i in range(3, 8):
            writer.add(b"%d" % i, done)
        await asyncio.sleep(0.2)
        assert spare.requests == []
        assert done.acked == [0, 1, 2]
        world.ledgers.gate.set()
        await until(lambda: len(done.acked) == 8)
        assert spare.ids(writer.ledger_id) == [3, 4, 5, 6, 7]


async def test_b7_callbacks_stop_while_the_new_fragments_start_is_being_committed() -> None:
    """Entries that the old ensemble acknowledges meanwhile would be recorded under the new one."""
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        failing, *others = members(world, writer)
        for bookie in others:
            bookie.script = hold_adds
        for i in range(3, 6):
            writer.add(b"%d" % i, done)
        await asyncio.sleep(0.01)
        world.ledgers.gate = asyncio.Event()
        failing.go_down()
        writer.add(b"6", done)
        await asyncio.sleep(0.05)
        assert writer.changer.is_running
        for bookie in others:
            bookie.script = None
            bookie.release()
        await asyncio.sleep(0.05)
        assert done.acked == [0, 1, 2], "the start of the new fragment is being written"
        world.ledgers.gate.set()
        await until(lambda: len(done.acked) == 7)
        stored = world.ledgers.now(writer.ledger_id)
        assert stored.last_fragment.first_entry_id == 3
        assert_holders(world, stored, done.acked)


async def test_b8_all_acks_of_a_replaced_bookie_are_dropped_before_anything_completes() -> None:
    """Entry 4 was complete with the replaced bookie, so it must wait for the new one."""
    world = World("abcabc")
    async with world.client() as client:
        writer = await client.create(Quorum(3, 3, 2, 1))
        done = Outcomes()
        await started(world, writer, done)
        gone, slow, failing = members(world, writer)
        # 3: stored by `gone` alone; 4: by `gone` and `failing` (complete, but behind 3).
        slow.script = hold_adds
        failing.script = lambda request: (
            HOLD if isinstance(request, v2.AddRequest) and request.entry_id == 3 else None
        )
        writer.add(b"3", done)
        writer.add(b"4", done)
        await asyncio.sleep(0.02)
        assert done.acked == [0, 1, 2]
        spares = [b for b in world.bookies if b not in (gone, slow, failing)]
        for spare in spares:
            spare.script = hold_adds
        gone.go_down()
        failing.go_down()
        writer.add(b"5", done)  # detects the failure
        await until(lambda: len(writer.metadata.fragments) == 2)
        await asyncio.sleep(0.02)
        assert done.acked == [0, 1, 2]
        slow.script = None
        slow.release()
        await asyncio.sleep(0.02)
        assert done.acked == [0, 1, 2], "one copy is not a quorum"
        for spare in spares:
            spare.script = None
            spare.release()
        await until(lambda: done.acked == [0, 1, 2, 3, 4, 5])
        assert_holders(world, world.ledgers.now(writer.ledger_id), done.acked)


async def test_b9_complete_entries_are_called_back_after_a_change_that_dropped_no_acks() -> None:
    """Striped ledger: the head's write set lacks the replaced index and completed meanwhile."""
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Quorum(3, 2, 2, 1))
        done = Outcomes()
        await started(world, writer, done)
        bookies = members(world, writer)
        world.ledgers.gate = asyncio.Event()
        assert writer.view.quorum.write_set(3) == (0, 1)
        bookies[2].script = refuse_adds(v2.Code.READ_ONLY)
        bookies[0].script = bookies[1].script = hold_adds
        writer.add(b"3", done)
        writer.add(b"4", done)  # sent to 1 and 2, and refused by 2
        await until(lambda: writer.changer.is_running)
        await asyncio.sleep(0.02)
        bookies[0].script = bookies[1].script = None
        bookies[0].release()
        bookies[1].release()
        await asyncio.sleep(0.05)
        assert done.acked == [0, 1, 2]
        world.ledgers.gate.set()
        await until(lambda: done.acked == [0, 1, 2, 3, 4])


async def test_b9_callbacks_resume_after_a_change_that_was_not_committed() -> None:
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        failing = members(world, writer)[0]
        world.ledgers.is_away = True
        failing.go_down()
        for i in range(3, 6):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 6)  # P holds without the metadata store
        world.ledgers.is_away = False
        await until(lambda: len(writer.metadata.fragments) == 2)
        assert_holders(world, world.ledgers.now(writer.ledger_id), done.acked)


async def test_b19_change_is_triggered_by_the_predicate_not_by_a_count() -> None:
    """Both bookies of region b fail: WQ - AQ = 2 of 4, but P cannot be satisfied."""
    world = World("aabbbb")
    async with world.client() as client:
        world.not_writable = world.bookies[4:]
        writer = await client.create(Quorum(4, 4, 2, 2))
        world.not_writable = []
        done = Outcomes()
        await started(world, writer, done)
        for bookie in members(world, writer):
            if str(bookie.region) == "b":
                bookie.script = refuse_adds(v2.Code.IO)
        writer.add(b"3", done)
        await until(lambda: len(done.acked) == 4, 1)
        assert len(writer.metadata.fragments) == 2
        assert_holders(world, world.ledgers.now(writer.ledger_id), done.acked)


async def test_b20_regions_are_those_of_the_ensemble_when_the_entry_is_called_back() -> None:
    """The same indices acknowledge before and after, but one of them has another bookie."""
    world = World("abbb")
    async with world.client("b", EAGER) as client:
        world.not_writable = world.bookies[3:]
        writer = await client.create(Quorum(3, 3, 2, 1))
        world.not_writable = []
        done = Outcomes()
        in_a = next(b for b in members(world, writer) if str(b.region) == "a")
        silent = next(b for b in members(world, writer) if str(b.region) != "a")
        silent.script = hold_adds
        await started(world, writer, done)
        assert [regions for _, _, regions in done.all] == [("a", "b")] * 3 or [
            regions for _, _, regions in done.all
        ] == [("b", "a")] * 3
        in_a.script = refuse_adds(v2.Code.READ_ONLY)
        writer.add(b"3", done)
        await until(lambda: len(done.acked) == 4)
        assert done.all[-1][2] == ("b",)


async def test_late_acknowledgement_of_a_replaced_bookie_does_not_count() -> None:
    world = World("abca")
    async with world.client(config=EAGER) as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await started(world, writer, done)
        (spare,) = [b for b in world.bookies if b not in members(world, writer)]
        spare.is_hung = True
        leaving = members(world, writer)[0]
        leaving.script = hold_adds
        writer.add(b"3", done)
        await asyncio.sleep(0.01)
        leaving.script = refuse_adds(v2.Code.READ_ONLY)
        writer.add(b"4", done)
        await until(lambda: spare in members(world, writer))
        leaving.release()
        await asyncio.sleep(0.05)
        assert (writer.ledger_id, 3) in leaving.entries
        assert done.acked == [0, 1, 2]
        writer.abandon()


async def test_b21_entry_added_during_a_change_reaches_the_new_bookie() -> None:
    world = World("abca")
    async with world.client(config=EAGER) as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await started(world, writer, done)
        (spare,) = [b for b in world.bookies if b not in members(world, writer)]
        gate = world.ledgers.gate = asyncio.Event()
        members(world, writer)[1].go_down()
        writer.add(b"3", done)
        await until(lambda: writer.changer.is_running)
        await asyncio.sleep(0.02)
        writer.add(b"4", done)
        gate.set()
        await until(lambda: len(writer.metadata.fragments) == 2)
        writer.add(b"5", done)
        await until(lambda: len(done.acked) == 6)
        await asyncio.sleep(0.05)
        assert spare.ids(writer.ledger_id) == [3, 4, 5]


async def test_b22_fenced_writer_calls_back_all_pending_entries_in_order_and_at_once() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        failures: list[Exception] = []
        writer.on_failure = failures.append
        await started(world, writer, done)
        one, two, three = members(world, writer)
        for bookie in (two, three):
            bookie.script = hold_adds
        one.fenced[writer.ledger_id] = None
        for i in range(3, 9):
            writer.add(b"%d" % i, done)
        await until(lambda: writer.is_failed)
        assert done.failed == [3, 4, 5, 6, 7, 8]
        assert all(isinstance(e, AppendOutcomeUnknownError) for _, e, _ in done.all[3:])
        assert isinstance(writer.failure, LedgerFencedError)
        assert failures == [writer.failure]
        with pytest.raises(LedgerFencedError):
            writer.add(b"9", done)
        for bookie in (two, three):
            bookie.release()  # their acks come too late to count
        await asyncio.sleep(0.05)
        assert done.acked == [0, 1, 2]
        assert writer.last_add_confirmed == 2


async def test_b23_fenced_writer_writes_no_metadata() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        recovering = writer.metadata.in_recovery()
        world.ledgers.set(recovering)
        for bookie in world.bookies:
            bookie.fenced[writer.ledger_id] = None
        writer.add(b"3", done)
        await until(lambda: writer.is_failed)
        with pytest.raises(LedgerFencedError):
            await writer.close()
        assert world.ledgers.now(writer.ledger_id) == recovering
        world.ledgers.set(recovering.closed(3, 4))
        with pytest.raises(LedgerClosedError):
            await writer.close()


async def test_unfenced_writer_may_close_a_ledger_in_recovery_at_its_own_end() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        world.ledgers.set(writer.metadata.in_recovery())
        closed = await writer.close()
        assert (closed.state, closed.last_entry_id, closed.length) == (LedgerState.CLOSED, 2, 3)
        assert await writer.close() == closed


async def test_pending_entries_fail_before_the_ledger_is_closed_in_the_store() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        for bookie in world.bookies:
            bookie.script = hold_adds
        writer.add(b"3", done)
        await asyncio.sleep(0.01)
        gate = world.ledgers.gate = asyncio.Event()
        closing = asyncio.get_running_loop().create_task(writer.close())
        await asyncio.sleep(0.01)
        assert done.failed == [3]
        assert world.ledgers.now(writer.ledger_id).state is LedgerState.OPEN
        gate.set()
        closed = await closing
        assert (closed.last_entry_id, closed.length) == (2, 3)
        assert isinstance(writer.failure, ClosedError)


@pytest.mark.parametrize("is_done", [True, False])
async def test_outcome_of_a_change_is_resolved_before_anything_is_confirmed(is_done: bool) -> None:
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await started(world, writer, done)
        world.ledgers.fail_next("write", IndeterminateError("lost"), is_done=is_done)
        members(world, writer)[0].go_down()
        for i in range(3, 6):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.acked) == 6)
        stored = world.ledgers.now(writer.ledger_id)
        assert stored == writer.metadata
        assert len(stored.fragments) == 2
        assert_holders(world, stored, done.acked)


@pytest.mark.parametrize(
    ("state", "failure"),
    [(LedgerState.IN_RECOVERY, LedgerFencedError), (LedgerState.CLOSED, LedgerClosedError)],
)
async def test_change_that_conflicts_with_a_recovery_fails_the_writer(
    state: LedgerState, failure: type[Exception]
) -> None:
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        stored = writer.metadata.in_recovery()
        world.ledgers.set(stored if state is LedgerState.IN_RECOVERY else stored.closed(2, 3))
        members(world, writer)[0].go_down()
        for bookie in members(world, writer)[1:]:
            bookie.script = hold_adds
        writer.add(b"3", done)
        await until(lambda: writer.is_failed)
        assert isinstance(writer.failure, failure)
        assert done.failed == [3]


async def test_lost_change_without_remaining_work_adopts_the_stored_metadata() -> None:
    """A version that changed for another reason costs one more attempt."""
    world = World("abcabc")
    async with world.client(config=EAGER) as client:
        writer = await client.create(Q)
        done = Outcomes()
        await started(world, writer, done)
        world.ledgers.fail_next("write", BadVersionError("not now"))
        members(world, writer)[2].go_down()
        writer.add(b"3", done)
        await until(lambda: len(writer.metadata.fragments) == 2 and len(done.acked) == 4)
