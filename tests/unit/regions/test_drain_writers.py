"""Writers leave drained bookies at a limited rate, and missing copies are reported to repair."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.missing_range import MissingRange
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.wire.registration import Registration
from rhumbline.regions.drain_writers import ROLLS_PER_SECOND, WriterDrainer
from rhumbline.regions.ownerless.roll_requests import RollRequests
from rhumbline.regions.repair.task_store import TaskStore
from rhumbline.regions.repair.under_replication_reports import PENDING_MAX, UnderReplicationReports
from rhumbline.regions.states import REREAD_MS, PlacementState, PlacementStateStore
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)

A, B = BookieId("a@00000001"), BookieId("b@00000001")


@dataclass
class Member:
    bookie: BookieId
    region: Region


@dataclass
class Writer:
    """The part of a ledger writer that draining uses."""

    replicas: list[Member]
    view: QuorumView = field(default_factory=lambda: QuorumView(Quorum(1, 1, 1), [None]))
    rolled_at: list[float] = field(default_factory=list)
    ledger_id: int = 1
    is_failed: bool = False

    @property
    def metadata(self) -> LedgerMetadata:
        return LedgerMetadata(self.ledger_id, 1, 1, 1, (Fragment(0, (A,)),))

    def request_drain(self) -> None:
        self.rolled_at.append(asyncio.get_running_loop().time())


class Writers:
    def __init__(self, *writers: Writer) -> None:
        self.open = list(writers)
        self.has_ensemble = True
        self.ensemble_checks = 0

    def writers(self) -> list[Writer]:
        return self.open

    async def can_create(
        self, quorum: Quorum, allowed: tuple[str, ...], rule: object = None
    ) -> bool:
        self.ensemble_checks += 1
        return self.has_ensemble


class UnwatchedStore(PlacementStateStore):
    """A store whose watch never calls back, so that only reading again helps."""

    def watch(self, callback: Callable[[], None]) -> "DeadWatch":
        return DeadWatch()


class DeadWatch:
    def close(self) -> None:
        pass


def on(*bookies: BookieId) -> Writer:
    return Writer([Member(bookie, Region(bookie[0])) for bookie in bookies])


async def while_draining(
    states: PlacementStateStore,
    writers: Writers,
    scenario: Callable[[], Awaitable[None]],
    rolls: RollRequests | None = None,
) -> None:
    drainer = WriterDrainer(
        states, rolls or RollRequests(MemoryStore()), cast(LedgerClient, writers)
    )
    try:
        await scenario()
    finally:
        await drainer.aclose()


@pytest.mark.parametrize("state", list(PlacementState))
async def test_only_writers_on_drained_or_offline_bookies_roll(state: PlacementState) -> None:
    states = PlacementStateStore(MemoryStore())
    here, there = on(A), on(B)

    async def scenario() -> None:
        await asyncio.sleep(1)
        await states.change(lambda known: known.with_region(Region("a"), state))
        await asyncio.sleep(1)

    with recorded_log() as log:
        await while_draining(states, Writers(here, there), scenario)
    assert log.events() == ["ledger drain requested"] * len(here.rolled_at)
    assert bool(here.rolled_at) == (state is not PlacementState.DISALLOWED)
    assert not there.rolled_at


async def test_lost_watch_event_costs_one_period_and_requests_repeat_until_the_roll() -> None:
    states = UnwatchedStore(MemoryStore())
    writers = Writers(on(A))
    [writer] = writers.open

    async def scenario() -> None:
        await states.change(lambda known: known.with_bookie(A, PlacementState.DRAINED))
        await asyncio.sleep(3.5 * REREAD_MS / 1000)
        assert len(writer.rolled_at) == 3, "asked again, because a roll may have raced"
        writers.open.clear()
        await asyncio.sleep(20)

    await while_draining(states, writers, scenario)
    assert writer.rolled_at[0] <= REREAD_MS / 1000 + 0.01
    assert len(writer.rolled_at) == 3


async def test_thousands_of_writers_roll_at_a_limited_rate() -> None:
    states = PlacementStateStore(MemoryStore())
    writers = Writers(*(on(A) for _ in range(1000)))

    async def scenario() -> None:
        await states.change(lambda known: known.with_bookie(A, PlacementState.DRAINED))
        await asyncio.sleep(1000 / ROLLS_PER_SECOND + REREAD_MS / 1000)

    await while_draining(states, writers, scenario)
    first = sorted(writer.rolled_at[0] for writer in writers.open)
    for index in range(len(first) - ROLLS_PER_SECOND):
        assert first[index + ROLLS_PER_SECOND] - first[index] >= 0.9
    assert first[-1] - first[0] <= 1000 / ROLLS_PER_SECOND + 0.2


async def test_writer_without_another_ensemble_is_left_alone_until_there_is_one() -> None:
    states = PlacementStateStore(MemoryStore())
    writers = Writers(on(A), on(A))
    writers.has_ensemble = False

    async def scenario() -> None:
        await states.change(lambda known: known.with_bookie(A, PlacementState.DRAINED))
        await asyncio.sleep(1)
        assert writers.ensemble_checks == 1, "one check for all writers with the same demand"
        await asyncio.sleep(3 * REREAD_MS / 1000)
        assert not any(writer.rolled_at for writer in writers.open)
        writers.has_ensemble = True
        await asyncio.sleep(REREAD_MS / 1000)

    await while_draining(states, writers, scenario)
    assert all(writer.rolled_at for writer in writers.open)


async def test_only_the_writer_of_a_requested_ledger_rolls_and_answers_while_it_is_open() -> None:
    store = MemoryStore()
    states, rolls = PlacementStateStore(store), RollRequests(store)
    asked, other = Writer([], ledger_id=7), Writer([], ledger_id=8)

    async def scenario() -> None:
        await asyncio.sleep(1)
        await rolls.add(7, "a test", 5)
        await asyncio.sleep(1)
        assert len(asked.rolled_at) == 1
        await asyncio.sleep(2.5 * REREAD_MS / 1000)

    await while_draining(states, Writers(asked, other), scenario, rolls)
    assert not other.rolled_at
    request = await rolls.get(7)
    assert request is not None
    assert (request.why, request.since_ms) == ("a test", 5)
    assert request.answers >= 2 and "moving" in request.answer


async def test_a_writer_that_cannot_move_answers_why_again_and_again() -> None:
    store = MemoryStore()
    states, rolls = PlacementStateStore(store), RollRequests(store)
    writer, ended = Writer([], ledger_id=7), Writer([], ledger_id=8, is_failed=True)
    writers = Writers(writer, ended)
    writers.has_ensemble = False
    answers: list[int] = []

    async def scenario() -> None:
        await rolls.add(7, "a test", 5)
        await rolls.add(8, "a test", 5)
        for _ in range(3):
            await asyncio.sleep(1.1 * REREAD_MS / 1000)
            request = await rolls.get(7)
            assert request is not None and "no legal ensemble" in request.answer
            answers.append(request.answers)

    await while_draining(states, writers, scenario, rolls)
    assert not writer.rolled_at
    assert answers == sorted({*answers}), "each answer shows that the writer is alive"
    dead = await rolls.get(8)
    assert dead is not None and not dead.answers


class FixedClock:
    def wall_ms(self) -> int:
        return 12


def missing(ledger_id: int, bookie: BookieId) -> MissingRange:
    return MissingRange(ledger_id, 0, bookie, ((0, 0),))


async def test_missing_copies_on_registered_bookies_become_tasks_and_are_bounded() -> None:
    store = MemoryStore()
    directory = SteeredDirectory(store)
    await directory.register(await store.session(10_000), Registration(A, "host", 1, {}))
    tasks = TaskStore(store)
    reports = UnderReplicationReports(tasks, directory, FixedClock())
    for bookie in (A, B, A):
        reports(missing(1, bookie))
    reports(missing(2, B))
    for ledger_id in range(3, PENDING_MAX + 5):
        reports(missing(ledger_id, B))
    await asyncio.sleep(3)
    [task] = await tasks.all()
    assert (task.ledger_id, task.since_ms) == (1, 12)
    assert task.why == f"its writer knows that {A} missed entries"
    assert (reports.reported_count, reports.dropped_count) == (1, 4)
    await reports.aclose()
    reports(missing(9, A))
    assert len(await tasks.all()) == 1
    directory.close()


@pytest.mark.parametrize(("drained", "looks"), [(A, 1), (B, 3)], ids=["another", "theirs"])
async def test_other_tasks_run_while_the_bookies_of_thousands_of_writers_are_checked(
    drained: BookieId, looks: int
) -> None:
    """``looks``: how often each writer is looked at before the first one rolls."""
    states = PlacementStateStore(MemoryStore())
    looked_at: list[int] = []

    class LookedAt(Writer):
        @property
        def metadata(self) -> LedgerMetadata:
            looked_at.append(self.ledger_id)
            return super().metadata

    writers = [LookedAt([Member(B, Region("b"))]) for _ in range(2_000)]
    counts = [0]

    async def scenario() -> None:
        await states.change(lambda known: known.with_bookie(drained, PlacementState.DRAINED))
        while counts[-1] < looks * len(writers):
            await asyncio.sleep(0)
            counts.append(len(looked_at))

    await while_draining(states, Writers(*writers), scenario)
    assert max(after - before for before, after in pairwise(counts)) <= 500 * min(looks, 2)


async def test_no_writer_is_looked_at_while_all_states_are_normal() -> None:
    class NeverLookedAt(Writer):
        @property
        def metadata(self) -> LedgerMetadata:
            raise AssertionError

    states = PlacementStateStore(MemoryStore())
    writers = Writers(NeverLookedAt([Member(A, Region("a"))]))
    with recorded_log() as log:
        await while_draining(states, writers, lambda: asyncio.sleep(3 * REREAD_MS / 1000))
    assert log.events() == []
