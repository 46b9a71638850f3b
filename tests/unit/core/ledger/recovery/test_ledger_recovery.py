"""Recoveries by what they read, write again and record, and how long they try."""

import asyncio

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.recovery.recovery_life import RecoveryLife
from rhumbline.core.ledger.recovery.recovery_state import RecoveryState
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import (
    BadVersionError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    PermissionDeniedError,
    RecoveryIncompleteError,
    UnavailableError,
)
from rhumbline.core.protocol.ledger_metadata import LedgerMetadata, LedgerState
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.recovery import Verdict
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire import v2, v3
from rhumbline.core.wire.entry import master_key
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.ledger.recovery.test_ledger_recovery_known_bugs import (
    is_fencing,
    is_recovery_add,
    members,
    written,
    written_on,
)
from rhumbline.tests.unit.core.ledger.world import (
    HOLD,
    FakeBookie,
    FakeLedgers,
    Outcomes,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

Q = Quorum(3, 3, 2, 1)
ALL = Quorum(3, 3, 3, 1)
SHORT = LedgerConfig(recovery_timeout_ms=1_000, request_timeout_ms=300, backoff_ms_max=100)


def fencing_reads(bookie: FakeBookie) -> list[int]:
    return [
        request.read_request.entry_id
        for request in bookie.requests
        if isinstance(request, pb.Request) and is_fencing(request)
    ]


def adds(bookie: FakeBookie) -> list[pb.AddRequest]:
    return [
        request.add_request
        for request in bookie.requests
        if isinstance(request, pb.Request) and is_recovery_add(request)
    ]


async def with_tail(world: World, writer: LedgerWriter, confirmed: int, tail: int) -> None:
    """Write entries of which only the first ``confirmed`` are acknowledged; all are stored."""
    await written_on(writer, confirmed)
    done = Outcomes()
    for bookie in world.bookies:
        bookie.serve = silent_add(bookie)  # type: ignore[method-assign]
    for _ in range(tail):
        writer.add(b"%03d" % (writer.last_add_pushed + 1), done)
    await asyncio.sleep(0.01)
    assert done.all == []
    for bookie in world.bookies:
        del bookie.serve
    writer.abandon()


def silent_add(bookie: FakeBookie):  # type: ignore[no-untyped-def] # noqa: ANN201
    """Return a way to serve that stores adds without a response."""

    def serve(_: object, request: object, __: object) -> None:
        assert isinstance(request, v2.AddRequest)
        bookie.store(request.ledger_id, request.entry_id, request.entry)

    return serve


async def test_tail_is_read_from_the_lac_on_and_written_again_unchanged() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Q, password=b"secret")
        await with_tail(world, writer, 5, 3)
        source = members(world, writer.metadata)[0]
        before = dict(source.entries)
        lost = members(world, writer.metadata)[2]
        lost.entries.pop((writer.ledger_id, 6))
        for bookie in world.bookies:
            bookie.requests.clear()
        closed = await other.recover(writer.ledger_id, b"secret")
        assert (closed.last_entry_id, closed.length) == (7, 24)
        await asyncio.sleep(0.1)
        assert lost.entries == before
        for bookie in world.bookies:
            assert [add.entry_id for add in adds(bookie)] == [5, 6, 7]
            assert {add.master_key for add in adds(bookie)} == {master_key(b"secret")}
            reads = fencing_reads(bookie)
            assert reads[0] == -1
            assert set(reads[1:]) >= {4, 5, 6, 7, 8}
            assert min(reads[1:]) == 4
        assert closed.fragments == writer.metadata.fragments
        verdicts = [(e.entry_id, e.verdict) for e in world.evidence]
        assert verdicts == [
            (None, Verdict.COMPLETE),
            (5, Verdict.RECOVER),
            (6, Verdict.RECOVER),
            (7, Verdict.RECOVER),
            (8, Verdict.ABSENT),
        ]


@pytest.mark.parametrize("window", [1, 2, 4])
async def test_reads_and_adds_of_a_recovery_are_bounded_by_its_window(window: int) -> None:
    world = World("abc")
    config = LedgerConfig(recovery_window=window)
    async with world.client() as client, world.client("b", config) as other:
        writer = await client.create(Q)
        await with_tail(world, writer, 1, 20)
        first = members(world, writer.metadata)[0]
        reading: list[int] = []
        adding: list[int] = []
        highest = 0

        def script(request: object) -> object:
            nonlocal highest
            if isinstance(request, pb.Request) and is_fencing(request):
                entry_id = request.read_request.entry_id
                if entry_id > 0:
                    reading.append(entry_id)
                    highest = max(highest, entry_id - len(adding))
            elif isinstance(request, pb.Request) and is_recovery_add(request):
                adding.append(request.add_request.entry_id)
            return None

        first.script = script
        closed = await other.recover(writer.ledger_id)
        assert closed.last_entry_id == 20
        assert adding == list(range(1, 21))
        assert reading == sorted(reading)
        assert highest <= window + 1


async def test_pending_adds_of_a_recovery_are_bounded_by_count() -> None:
    world = World("abc")
    config = LedgerConfig(recovery_window=4)
    async with world.client() as client, world.client("b", config) as other:
        writer = await client.create(Q)
        await with_tail(world, writer, 1, 20)
        for bookie in world.bookies:
            bookie.script = lambda request: HOLD if is_recovery_add(request) else None
        recovering = asyncio.get_running_loop().create_task(other.recover(writer.ledger_id))
        await asyncio.sleep(0.5)
        assert [len(adds(bookie)) for bookie in world.bookies] == [4, 4, 4]
        for bookie in world.bookies:
            bookie.script = None
            bookie.release()
        assert (await recovering).last_entry_id == 20


async def test_pending_adds_of_a_recovery_are_bounded_by_bytes() -> None:
    world = World("abc")
    config = LedgerConfig(recovery_window_bytes=100)
    async with world.client() as client, world.client("b", config) as other:
        writer = await client.create(Q)
        await with_tail(world, writer, 1, 20)
        (size,) = {len(data) for data in world.bookies[0].entries.values()}
        assert 100 // size == 2
        for bookie in world.bookies:
            bookie.script = lambda request: HOLD if is_recovery_add(request) else None
        recovering = asyncio.get_running_loop().create_task(other.recover(writer.ledger_id))
        await asyncio.sleep(0.5)
        assert [len(adds(bookie)) for bookie in world.bookies] == [2, 2, 2]
        for bookie in world.bookies:
            bookie.script = None
            bookie.release()
        assert (await recovering).last_entry_id == 20


async def test_bookie_that_fails_gets_no_further_adds_and_is_kept_if_p_holds() -> None:
    world = World("abcabc")
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Q)
        await with_tail(world, writer, 1, 10)
        failing = members(world, writer.metadata)[1]
        failing.script = lambda request: v3.Status.IO if is_recovery_add(request) else None
        closed = await other.recover(writer.ledger_id)
        assert closed.fragments == writer.metadata.fragments
        assert 1 <= len(adds(failing)) < 10
        assert other.statistics()["failed_lately"] == [failing.bookie]


async def test_bookies_that_p_needs_are_replaced_from_the_first_pending_entry_on() -> None:
    world = World("abcabc")
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(ALL)
        await with_tail(world, writer, 1, 10)
        failing = members(world, writer.metadata)[1]
        failing.script = lambda request: (
            v3.Status.IO
            if isinstance(request, pb.Request)
            and is_recovery_add(request)
            and request.add_request.entry_id >= 4
            else None
        )
        closed = await other.recover(writer.ledger_id)
        assert [f.first_entry_id for f in closed.fragments] == [0, 4]
        new = closed.last_fragment.bookies[1]
        assert new != failing.bookie
        assert closed.last_fragment.bookies[0] == writer.metadata.last_fragment.bookies[0]
        assert closed.last_fragment.bookies[2] == writer.metadata.last_fragment.bookies[2]
        assert world.by_id[new].ids(writer.ledger_id) == list(range(4, 11))
        assert (closed.last_entry_id, closed.length) == (10, 33)


async def test_recovery_whose_adds_cannot_satisfy_p_fails_at_the_deadline() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await client.create(ALL)
        await with_tail(world, writer, 1, 3)
        members(world, writer.metadata)[1].script = lambda request: (
            v3.Status.IO if is_recovery_add(request) else None
        )
        with pytest.raises(NotEnoughBookiesError):
            await other.recover(writer.ledger_id)
        assert world.ledgers.now(writer.ledger_id).state is LedgerState.IN_RECOVERY


async def test_length_comes_from_the_last_confirmed_entry_if_nothing_follows_it() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 5)
        await writer.publish_lac()
        done = Outcomes()
        writer.add(b"005", done)
        await until(lambda: len(done.acked) == 1)
        await asyncio.sleep(0.01)
        for bookie in world.bookies:
            del bookie.entries[writer.ledger_id, 5]  # so that the LAC is 4 everywhere
        closed = await other.recover(writer.ledger_id)
        assert (closed.last_entry_id, closed.length) == (4, 15)
        assert {entry for b in world.bookies for entry in fencing_reads(b)} >= {-1, 3, 4, 5}


async def test_recovery_that_cannot_read_the_last_confirmed_entry_is_incomplete() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        done = Outcomes()
        writer.add(b"003", done)
        await until(lambda: len(done.acked) == 1)
        await asyncio.sleep(0.01)
        for bookie in world.bookies:
            bookie.script = lambda request: (
                v3.Status.IO
                if isinstance(request, pb.Request) and is_fencing(request, 2)
                else v3.Status.NO_ENTRY
                if isinstance(request, pb.Request) and is_fencing(request, 3)
                else None
            )
        with pytest.raises(RecoveryIncompleteError, match="its last entry 2 cannot be read now"):
            await other.recover(writer.ledger_id)
        for bookie in world.bookies:
            bookie.script = None
        assert (await other.recover(writer.ledger_id)).last_entry_id == 3


class BusyLedgers(FakeLedgers):
    """A store in which another process changes the metadata before each write."""

    is_busy = False
    attempts = 0

    async def write(self, metadata: LedgerMetadata, expect: Version) -> Version:
        self.attempts += 1
        if self.is_busy:
            raise BadVersionError("changed")
        return await super().write(metadata, expect)


async def test_recovery_whose_metadata_changes_in_every_attempt_gives_up_at_the_deadline() -> None:
    world = World("abc")
    ledgers = world.ledgers = BusyLedgers()
    loop = asyncio.get_running_loop()
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        ledgers.is_busy = True
        began = loop.time()
        with pytest.raises(RecoveryIncompleteError, match="changed in every attempt"):
            await other.recover(writer.ledger_id)
        assert 1.0 <= loop.time() - began < 1.3
        assert ledgers.attempts > 5
        ledgers.is_busy = False
        assert (await other.recover(writer.ledger_id)).last_entry_id == 2


async def test_recovery_is_retried_while_the_store_is_unavailable_until_the_deadline() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        world.ledgers.is_away = True
        began = loop.time()
        with recorded_log("rhumbline.core.ledger.recovery") as log:
            with pytest.raises(UnavailableError):
                await other.recover(writer.ledger_id)
            assert 1.0 <= loop.time() - began < 1.3
            loop.call_later(0.5, setattr, world.ledgers, "is_away", False)
            assert (await other.recover(writer.ledger_id)).last_entry_id == 2
        [failed] = log.fields("ledger recovery failed")
        assert failed["ledger"] == writer.ledger_id
        assert failed["error"] == "MetadataAwayError: the store is away"
        assert " by RETRY (MetadataAwayError: the store is away)" in failed["story"]
        assert log.events()[-2:] == ["ledger recovery began", "ledger recovered"]
        with pytest.raises(NoSuchLedgerError):
            await other.recover(4711)


async def test_recovery_adopts_the_end_of_another_that_closed_first() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        world.ledgers.gate = gate = asyncio.Event()
        stored = world.ledgers.now(writer.ledger_id)
        recovering = asyncio.get_running_loop().create_task(other.recover(writer.ledger_id))
        await asyncio.sleep(0.05)
        gate.set()
        gate = world.ledgers.gate = asyncio.Event()
        await asyncio.sleep(0.05)
        theirs = stored.in_recovery().closed(2, 9)
        world.ledgers.set(theirs)
        gate.set()
        assert await recovering == theirs
        assert world.ledgers.now(writer.ledger_id) == theirs


async def test_closed_ledger_is_returned_without_touching_a_bookie() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        closed = await writer.close()
        for bookie in world.bookies:
            bookie.requests.clear()
        writes = world.ledgers.writes
        assert await other.recover(writer.ledger_id) == closed
        assert all(bookie.requests == [] for bookie in world.bookies)
        assert world.ledgers.writes == writes
        assert world.evidence == []


async def test_incomplete_fencing_names_the_bookies() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        for bookie in world.bookies[:2]:
            bookie.is_hung = True
        with pytest.raises(RecoveryIncompleteError) as caught:
            await other.recover(writer.ledger_id)
        names = ", ".join(writer.metadata.last_fragment.bookies)
        assert str(caught.value) == (f"ledger {writer.ledger_id}: too few of {names} were fenced")
        writer.abandon()


@pytest.mark.parametrize("is_adopted", [False, True])
async def test_recovery_ends_with_its_own_end_or_with_that_of_another(
    monkeypatch: pytest.MonkeyPatch, is_adopted: bool
) -> None:
    states: list[RecoveryState] = []

    class KnownState(RecoveryState):
        def _forget(self) -> None:
            super()._forget()
            if self not in states:
                states.append(self)

    monkeypatch.setattr("rhumbline.core.ledger.recovery.ledger_recovery.RecoveryState", KnownState)
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        if is_adopted:
            world.ledgers.gate = gate = asyncio.Event()
            stored = world.ledgers.now(writer.ledger_id)
            recovering = asyncio.get_running_loop().create_task(other.recover(writer.ledger_id))
            await asyncio.sleep(0.05)
            gate.set()
            gate = world.ledgers.gate = asyncio.Event()
            await asyncio.sleep(0.05)
            world.ledgers.set(stored.in_recovery().closed(2, 9))
            gate.set()
            await recovering
        else:
            await other.recover(writer.ledger_id)
    [state] = states
    assert state.machine.state is RecoveryLife.CLOSED
    event = "ADOPT" if is_adopted else "RECORD"
    assert f"CLOSED by {event}" in state.machine.story()


async def test_fenced_ledger_acknowledges_nothing_and_keeps_its_end_open() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        for _ in range(2):  # safe to repeat
            await other.fence(writer.ledger_id)
        stored = world.ledgers.now(writer.ledger_id)
        assert (stored.state, stored.last_entry_id) == (LedgerState.IN_RECOVERY, -1)
        assert all(fencing_reads(bookie) == [-1, -1] for bookie in world.bookies)
        assert all(adds(bookie) == [] for bookie in world.bookies)
        assert [evidence.verdict for evidence in world.evidence] == [Verdict.COMPLETE] * 2
        done = Outcomes()
        writer.add(b"003", done)
        await until(lambda: len(done.all) == 1)
        assert done.acked == []
        assert (await other.recover(writer.ledger_id)).last_entry_id == 2


async def test_ledger_is_fenced_although_its_end_cannot_be_proven() -> None:
    """A deletion needs no end, so it succeeds with fewer bookies than a recovery."""
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        for bookie in world.bookies:
            bookie.script = lambda request: v3.Status.IO if is_fencing(request, 2) else None
        await other.fence(writer.ledger_id)
        with pytest.raises(RecoveryIncompleteError):
            await other.recover(writer.ledger_id)


async def test_fence_fails_if_the_writer_could_still_be_acknowledged() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b", SHORT) as other:
        writer = await written(client, 3)
        for bookie in world.bookies[:2]:
            bookie.is_hung = True
        with pytest.raises(RecoveryIncompleteError, match=r"too few of .* were fenced"):
            await other.fence(writer.ledger_id)
        for bookie in world.bookies[:2]:
            bookie.is_hung = False
        await other.fence(writer.ledger_id)


async def test_a_recovery_that_all_bookies_refuse_ends_at_once() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        world.bookies[0].is_hung = True
        for bookie in world.bookies[1:]:
            bookie.script = lambda request: v3.Status.UNAUTHORIZED if is_fencing(request) else None
        with pytest.raises(PermissionDeniedError):
            await other.recover(writer.ledger_id)
        with pytest.raises(PermissionDeniedError):
            await other.fence(writer.ledger_id)
        assert len([one for one in world.bookies[1].requests if is_fencing(one)]) == 2


async def test_a_recovery_goes_on_while_some_bookies_do_not_know_a_new_grant() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        refusals = iter(range(4))
        for bookie in world.bookies[:2]:
            bookie.script = lambda request: (
                v3.Status.UNAUTHORIZED
                if is_fencing(request) and next(refusals, None) is not None
                else None
            )
        assert (await other.recover(writer.ledger_id)).last_entry_id == 2


async def test_fence_of_a_closed_ledger_asks_no_bookie() -> None:
    world = World("abc")
    async with world.client() as client, world.client("b") as other:
        writer = await written(client, 3)
        await writer.close()
        for bookie in world.bookies:
            bookie.requests.clear()
        await other.fence(writer.ledger_id)
        assert all(bookie.requests == [] for bookie in world.bookies)
        with pytest.raises(NoSuchLedgerError):
            await other.fence(writer.ledger_id + 1)
