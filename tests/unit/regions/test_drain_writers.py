"""Who leaves drained bookies, when, and how many at a time; which holes reach repair."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.write.under_replication import MissingRange
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.protocol.quorum import Quorum, QuorumView
from rhumbline.core.wire.registration import Registration
from rhumbline.regions.drain_writers import LEAVE_PER_SECOND, DrainWriters
from rhumbline.regions.repair.task_store import TaskStore
from rhumbline.regions.repair.under_replication_reports import PENDING_MAX, UnderReplicationReports
from rhumbline.regions.states import REREAD_MS, State, StateStore
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping

A, B = BookieId("a@00000001"), BookieId("b@00000001")


@dataclass
class Member:
    bookie: BookieId
    region: Region


@dataclass
class Writer:
    """As much of a ledger's writer as leaving needs."""

    replicas: list[Member]
    view: QuorumView = field(default_factory=lambda: QuorumView(Quorum(1, 1, 1), [None]))
    left_at: list[float] = field(default_factory=list)

    @property
    def metadata(self) -> LedgerMetadata:
        return LedgerMetadata(1, 1, 1, 1, (Fragment(0, (A,)),))

    def leave(self) -> None:
        self.left_at.append(asyncio.get_running_loop().time())


class Writers:
    def __init__(self, *writers: Writer) -> None:
        self.open = list(writers)
        self.has_somewhere = True
        self.looks = 0

    def writers(self) -> list[Writer]:
        return self.open

    async def has_place(self, quorum: Quorum, allowed: tuple[str, ...]) -> bool:
        self.looks += 1
        return self.has_somewhere


class DeafStore(StateStore):
    """Its watch never calls: only looking again helps."""

    def watch(self, callback: Callable[[], None]) -> "Deaf":
        return Deaf()


class Deaf:
    def close(self) -> None:
        pass


def on(*bookies: BookieId) -> Writer:
    return Writer([Member(bookie, Region(bookie[0])) for bookie in bookies])


async def while_leaving(
    states: StateStore, writers: Writers, story: Callable[[], Awaitable[None]]
) -> None:
    leaving = DrainWriters(states, cast(LedgerClient, writers))
    try:
        await story()
    finally:
        await leaving.aclose()


@pytest.mark.parametrize("state", list(State))
def test_only_writers_on_drained_or_given_up_bookies_are_asked(state: State) -> None:
    async def run() -> None:
        states = StateStore(MemoryStore())
        here, there = on(A), on(B)

        async def story() -> None:
            await asyncio.sleep(1)
            await states.change(lambda known: known.with_region(Region("a"), state))
            await asyncio.sleep(1)

        await while_leaving(states, Writers(here, there), story)
        assert bool(here.left_at) == (state is not State.DISALLOWED)
        assert not there.left_at

    run_jumping(run())


def test_a_lost_hint_costs_one_period_and_asking_goes_on_until_they_left() -> None:
    async def run() -> None:
        states = DeafStore(MemoryStore())
        writers = Writers(on(A))
        [writer] = writers.open

        async def story() -> None:
            await states.change(lambda known: known.with_bookie(A, State.DRAINED))
            await asyncio.sleep(3.5 * REREAD_MS / 1000)
            assert len(writer.left_at) == 3, "it is asked again: a roll may have raced"
            writers.open.clear()
            await asyncio.sleep(20)

        await while_leaving(states, writers, story)
        assert writer.left_at[0] <= REREAD_MS / 1000 + 0.01
        assert len(writer.left_at) == 3

    run_jumping(run())


def test_thousands_do_not_leave_at_once() -> None:
    async def run() -> None:
        states = StateStore(MemoryStore())
        writers = Writers(*(on(A) for _ in range(1000)))

        async def story() -> None:
            await states.change(lambda known: known.with_bookie(A, State.DRAINED))
            await asyncio.sleep(1000 / LEAVE_PER_SECOND + REREAD_MS / 1000)

        await while_leaving(states, writers, story)
        first = sorted(writer.left_at[0] for writer in writers.open)
        for index in range(len(first) - LEAVE_PER_SECOND):
            assert first[index + LEAVE_PER_SECOND] - first[index] >= 0.9
        assert first[-1] - first[0] <= 1000 / LEAVE_PER_SECOND + 0.2

    run_jumping(run())


def test_who_has_nowhere_to_go_is_left_alone_until_there_is_a_place() -> None:
    async def run() -> None:
        states = StateStore(MemoryStore())
        writers = Writers(on(A), on(A))
        writers.has_somewhere = False

        async def story() -> None:
            await states.change(lambda known: known.with_bookie(A, State.DRAINED))
            await asyncio.sleep(1)
            assert writers.looks == 1, "one question for all of the same demand"
            await asyncio.sleep(3 * REREAD_MS / 1000)
            assert not any(writer.left_at for writer in writers.open)
            writers.has_somewhere = True
            await asyncio.sleep(REREAD_MS / 1000)

        await while_leaving(states, writers, story)
        assert all(writer.left_at for writer in writers.open)

    run_jumping(run())


class NoonClock:
    def wall_ms(self) -> int:
        return 12


def hole(ledger_id: int, bookie: BookieId) -> MissingRange:
    return MissingRange(ledger_id, 0, bookie, ((0, 0),))


def test_holes_of_bookies_that_are_up_become_tasks_and_their_number_is_bounded() -> None:
    async def run() -> None:
        store = MemoryStore()
        directory = SteeredDirectory(store)
        await directory.register(await store.session(10_000), Registration(A, "host", 1, {}))
        tasks = TaskStore(store)
        reports = UnderReplicationReports(tasks, directory, NoonClock())
        for bookie in (A, B, A):
            reports(hole(1, bookie))
        reports(hole(2, B))
        for ledger_id in range(3, PENDING_MAX + 5):
            reports(hole(ledger_id, B))
        await asyncio.sleep(3)
        [task] = await tasks.all()
        assert (task.ledger_id, task.since_ms) == (1, 12)
        assert task.why == f"its writer knows that {A} missed entries"
        assert (reports.reported, reports.left_out) == (1, 4)
        await reports.aclose()
        reports(hole(9, A))
        assert len(await tasks.all()) == 1
        directory.close()

    run_jumping(run())
