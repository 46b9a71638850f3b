"""Known bugs of recoveries of this protocol; each test is named after the bug's number."""

import asyncio

import pytest

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import (
    IllegalQuorumError,
    IndeterminateError,
    NotEnoughBookiesError,
    RecoveryIncompleteError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import AnswerKind, Verdict
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v2, v3
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
GEO = Quorum(3, 3, 2, 2)
SHORT = LedgerConfig(recovery_timeout_ms=1_000, request_timeout_ms=500)


async def written(client: LedgerClient, count: int, quorum: Quorum = Q) -> LedgerWriter:
    """Creates a ledger with ``count`` acknowledged three-byte entries; its writer stays open."""
    writer = await client.create(quorum)
    await written_on(writer, count)
    return writer


async def written_on(writer: LedgerWriter, count: int) -> None:
    done = Outcomes()
    for _ in range(count):
        writer.add(b"%03d" % (writer.last_add_pushed + 1), done)
    await until(lambda: len(done.acked) == count)
    await asyncio.sleep(0.01)


def members(world: World, metadata: LedgerMetadata) -> list[FakeBookie]:
    return [world.by_id[bookie] for bookie in metadata.last_fragment.bookies]


def is_fencing(request: Request, entry_id: int | None = None) -> bool:
    return (
        isinstance(request, pb.Request)
        and request.HasField("read_request")
        and request.read_request.flag == pb.ReadRequest.FENCE_LEDGER
        and entry_id in (None, request.read_request.entry_id)
    )


def is_recovery_add(request: Request, entry_id: int | None = None) -> bool:
    return (
        isinstance(request, pb.Request)
        and request.HasField("add_request")
        and entry_id in (None, request.add_request.entry_id)
    )


async def test_b1_recovery_reads_fence() -> None:
    """A bookie that missed the first fencing read answers NEVER only after it is fenced."""
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        missed = members(world, writer.metadata)[2]
        missed.script = lambda request: HOLD if is_fencing(request, -1) else None
        closed = await other.recover(writer.ledger_id)
        assert closed.last_entry_id == 2
        reads = [
            request
            for bookie in world.bookies
            for request in bookie.requests
            if isinstance(request, pb.Request) and request.HasField("read_request")
        ]
        assert reads
        assert all(is_fencing(request) for request in reads)
        assert all(
            request.header.priority == v3.HIGH_PRIORITY and len(request.read_request.master_key)
            for request in reads
        )
        assert writer.ledger_id in missed.fenced
        # Two bookies decided the end; the others that the writer could use are fenced too.
        absent = [e for e in world.evidence if e.verdict is Verdict.ABSENT]
        assert [e.entry_id for e in absent] == [3]


async def test_b2_recovery_starts_no_lower_than_the_last_fragment() -> None:
    """The bookies of a new last fragment have no LAC; the older one must not be written again."""
    world = World("abcabc")
    eager = LedgerConfig(change_mode="eager")
    async with world.client(config=eager) as client, world.client("b") as other:
        writer = await written(client, 5, Quorum(3, 3, 3, 1))
        old = members(world, writer.metadata)
        for bookie in old:
            bookie.script = lambda request: (
                v2.Code.IO if isinstance(request, v2.AddRequest) else None
            )
        done = Outcomes()
        world.ledgers.gate = gate = asyncio.Event()
        writer.add(b"005", done)
        await until(lambda: writer.changer.is_running)
        await asyncio.sleep(0.1)
        for bookie in world.bookies:
            if bookie not in old:
                bookie.is_hung = True  # the new fragment receives no entry
        gate.set()
        await until(lambda: len(writer.metadata.fragments) == 2)
        await asyncio.sleep(0.05)
        writer.abandon()
        for bookie in world.bookies:
            bookie.is_hung, bookie.script = False, None
            bookie.requests.clear()
        closed = await other.recover(writer.ledger_id)
        assert closed.last_entry_id >= 4
        fence = next(e for e in world.evidence if e.entry_id is None)
        assert fence.lac == 4
        adds = [
            request.add_request.entry_id
            for bookie in world.bookies
            for request in bookie.requests
            if isinstance(request, pb.Request) and request.HasField("add_request")
        ]
        assert all(entry_id > 4 for entry_id in adds)
        assert closed.length == 3 * (closed.last_entry_id + 1)


async def test_b3_ensembles_of_a_recovery_are_committed_only_with_the_end() -> None:
    """Two recoveries: neither reads from the ensemble that the other has chosen."""
    world = World("abcabc")
    async with world.client() as client, world.client("b") as one, world.client("c") as two:
        writer = await written(client, 6, Quorum(3, 3, 3, 1))
        ledger = writer.ledger_id
        first = members(world, writer.metadata)[0]
        first.script = lambda request: (
            v3.Status.IO
            if isinstance(request, pb.Request) and request.HasField("add_request")
            else None
        )
        before = len(world.ledgers.history)
        world.ledgers.gate = gate = asyncio.Event()
        racing = asyncio.get_running_loop().create_task(one.recover(ledger))
        await asyncio.sleep(0.01)
        gate.set()
        results = [await racing, await two.recover(ledger)]
        assert results[0] == results[1] == world.closed(ledger)
        assert results[0].last_entry_id == 5
        states = [m.state for m in world.ledgers.history[before:]]
        assert states == [LedgerState.IN_RECOVERY, LedgerState.CLOSED]
        assert len(world.ledgers.history[before].fragments) == 1
        assert first.bookie not in results[0].last_fragment.bookies
        for evidence in world.evidence:
            assert evidence.fragment == writer.metadata.fragments[0]
        for entry_id in range(6):
            fragment = results[0].fragment_of(entry_id)
            assert all((ledger, entry_id) in world.by_id[b].entries for b in fragment.bookies)


async def test_late_response_of_a_replaced_bookie_does_not_count_for_its_successor() -> None:
    """Both hold the same index of the ensemble, one after the other."""
    world = World("abcabc")
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Quorum(3, 3, 3, 1))
        done = Outcomes()
        for i in range(3):
            writer.add(b"%03d" % i, done)
        await until(lambda: len(done.acked) == 3)
        ledger = writer.ledger_id
        first = members(world, writer.metadata)[0]
        spares = [b for b in world.bookies if b not in members(world, writer.metadata)]
        for spare in spares:
            spare.script = lambda request: HOLD if is_recovery_add(request, 0) else None

        def refuse_all_but_the_first(request: Request) -> object:
            if not is_recovery_add(request):
                return None
            return HOLD if not first.held else v3.Status.IO

        first.script = refuse_all_but_the_first
        recovering = asyncio.get_running_loop().create_task(other.recover(ledger))
        await until(lambda: any((ledger, 2) in spare.entries for spare in spares), 5)
        first.release()
        await asyncio.sleep(0.1)
        assert (ledger, 0) in first.entries
        assert not recovering.done()
        for spare in spares:
            spare.release()
        closed = await recovering
        assert first.bookie not in closed.last_fragment.bookies
        for entry_id in range(3):
            fragment = closed.fragment_of(entry_id)
            assert all((ledger, entry_id) in world.by_id[b].entries for b in fragment.bookies)


@pytest.mark.parametrize("fault", ["hung", "down"])
async def test_b10_b11_recovery_waits_for_no_bookie_that_it_does_not_need(fault: str) -> None:
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 5, GEO)
        lost = members(world, writer.metadata)[1]
        if fault == "hung":
            lost.is_hung = True
        else:
            lost.go_down()
        started = asyncio.get_running_loop().time()
        closed = await other.recover(writer.ledger_id)
        assert closed.last_entry_id == 4
        assert asyncio.get_running_loop().time() - started < 0.1


async def test_b13_b17_unknown_is_never_counted_as_no() -> None:
    """Two bookies answer UNKNOWN: the recovery changes nothing, whatever the third answers."""
    world = World()
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 4)
        first, two, three = members(world, writer.metadata)
        for entry_id in range(4):
            three.entries.pop((writer.ledger_id, entry_id), None)  # it never had them
        answers = iter([v3.Status.IO, v3.Status.UNKNOWN_STATE] * 1000)
        for bookie in (first, two):
            bookie.script = lambda request: next(answers) if is_fencing(request) else None
        with pytest.raises(RecoveryIncompleteError):
            await other.recover(writer.ledger_id)
        assert world.ledgers.now(writer.ledger_id).state is LedgerState.IN_RECOVERY
        for bookie in (first, two):
            bookie.script = None
        closed = await other.recover(writer.ledger_id)
        assert (closed.last_entry_id, closed.length) == (3, 12)


async def test_b17_corrupt_copy_is_unknown_and_the_valid_one_is_found() -> None:
    world = World()
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 4)
        ledger = writer.ledger_id
        first, two, three = members(world, writer.metadata)
        entry = first.entries[ledger, 3]
        first.entries[ledger, 3] = entry[:-1] + bytes([entry[-1] ^ 1])
        del three.entries[ledger, 3]
        closed = await other.recover(ledger)
        assert closed.last_entry_id == 3
        two.requests.clear()
        tallied = [e for e in world.evidence if e.entry_id == 3]
        answers_by_bookie = {a.bookie: a.kind for e in tallied for a in e.answers}
        assert answers_by_bookie.get(first.bookie, AnswerKind.UNKNOWN) is AnswerKind.UNKNOWN


async def test_unacknowledged_tail_ends_at_its_first_missing_entry() -> None:
    """Entry 3 is on one bookie, 4 on none, 5 on one: the ledger ends with 3."""
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        ledger = writer.ledger_id
        first, two, three = members(world, writer.metadata)
        for bookie in (two, three):
            bookie.script = lambda request: HOLD if isinstance(request, v2.AddRequest) else None
        first.script = lambda request: (
            HOLD if isinstance(request, v2.AddRequest) and request.entry_id == 4 else None
        )
        done = Outcomes()
        for i in range(3, 6):
            writer.add(b"%03d" % i, done)
        await asyncio.sleep(0.05)
        assert first.ids(ledger) == [0, 1, 2, 3, 5]
        closed = await other.recover(ledger)
        assert (closed.last_entry_id, closed.length) == (3, 12)
        for bookie in (first, two, three):
            assert (ledger, 3) in bookie.entries, "the tail was written again"
            bookie.release()
        await until(lambda: writer.is_failed)
        assert done.acked == []


async def test_recovery_without_enough_bookies_leaves_the_ledger_in_recovery() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3, Quorum(3, 3, 3, 1))
        members(world, writer.metadata)[0].go_down()
        with pytest.raises(NotEnoughBookiesError):
            await other.recover(writer.ledger_id)
        assert world.ledgers.now(writer.ledger_id).state is LedgerState.IN_RECOVERY


async def test_two_lost_regions_of_three_leave_the_end_undecided() -> None:
    world = World()
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3, GEO)
        first, two, _ = members(world, writer.metadata)
        first.go_down()
        two.go_down()
        with pytest.raises(RecoveryIncompleteError):
            await other.recover(writer.ledger_id)
        first.come_up()
        assert (await other.recover(writer.ledger_id)).last_entry_id == 2


async def test_operator_can_lower_r_for_the_tail_after_a_region_is_lost() -> None:
    """Evidence is evaluated by the old R; the tail is written with the new one."""
    world = World("aab")
    async with world.client() as client, world.client("a", SHORT) as other:
        writer = await written(client, 3, GEO)
        await written_on(writer, 1)  # carries the LAC 2 to the bookies
        in_b = next(b for b in members(world, writer.metadata) if str(b.region) == "b")
        in_b.go_down()
        with pytest.raises(NotEnoughBookiesError):
            await other.recover(writer.ledger_id)
        closed = await other.recover(writer.ledger_id, min_regions=1)
        assert closed.last_entry_id == 3
        assert closed.quorum_at(2).min_regions == 2
        assert closed.quorum_at(3).min_regions == 1
        assert {e.quorums[0].min_regions for e in world.evidence} == {2}


async def test_illegal_r_is_refused_before_anything_is_fenced_or_changed() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3, GEO)
        before = len(world.ledgers.history)
        for min_regions in (0, -1):
            with pytest.raises(IllegalQuorumError):
                await other.recover(writer.ledger_id, min_regions=min_regions)
        assert len(world.ledgers.history) == before
        assert not any(writer.ledger_id in bookie.fenced for bookie in world.bookies)
        await written_on(writer, 1)
        await writer.close()


@pytest.mark.parametrize("is_done", [True, False])
@pytest.mark.parametrize("which", [1, 2])
async def test_recovery_survives_lost_replies_of_the_store(which: int, is_done: bool) -> None:
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 4)
        if which == 2:
            world.ledgers.set(writer.metadata.in_recovery())
        world.ledgers.fail_next("write", IndeterminateError("lost"), is_done=is_done)
        closed = await other.recover(writer.ledger_id)
        assert closed == world.closed(writer.ledger_id)
        assert (closed.last_entry_id, closed.length) == (3, 12)


async def test_many_recoveries_and_a_closing_writer_agree_on_one_end() -> None:
    world = World("abcabc")
    loop = asyncio.get_running_loop()
    clients = [world.client("abc"[i % 3]) for i in range(5)]
    writer = await written(clients[0], 8, GEO)
    done = Outcomes()
    for i in range(8, 40):
        writer.add(b"%03d" % i, done)
    tasks = []
    for client in clients[1:]:
        await asyncio.sleep(0.001)
        tasks.append(loop.create_task(client.recover(writer.ledger_id)))
    ends = [await task for task in tasks]
    await until(lambda: len(done.all) == 32 or writer.is_failed)
    assert len({(m.last_entry_id, m.length) for m in ends}) == 1
    assert ends[0] == world.closed(writer.ledger_id)
    assert max(done.acked, default=-1) <= ends[0].last_entry_id
    for client in clients:
        await client.aclose()


async def test_empty_ledger_is_closed_as_empty() -> None:
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(GEO)
        closed = await other.recover(writer.ledger_id)
        assert (closed.last_entry_id, closed.length) == (-1, 0)
        assert all(writer.ledger_id in bookie.fenced for bookie in world.bookies)
