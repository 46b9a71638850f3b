"""A repair service logs rare transitions, shares ledgers with other processes, and audits."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from rhumbline.backends.memory import MemorySession, MemoryStore
from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import MetadataUnavailableError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.metadata_store import Session, Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.availability import Availability, decode, encode, runs_of
from rhumbline.core.wire.cookie import Cookie
from rhumbline.core.wire.registration import Registration
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.regions.ledger_scan import AT_ONCE
from rhumbline.regions.rebalance.order_store import OrderStore, RebalanceOrder, RebalanceStatus
from rhumbline.regions.repair import auditor
from rhumbline.regions.repair.config import RepairConfig
from rhumbline.regions.repair.errors import RepairStuckError
from rhumbline.regions.repair.ledger_repairer import LedgerRepairer
from rhumbline.regions.repair.liveness import Liveness
from rhumbline.regions.repair.repair_service import RepairService
from rhumbline.regions.repair.task_store import RepairTask, TaskStore
from rhumbline.regions.states import PlacementState
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.ledger_numbers import create
from rhumbline.tests.support.fakes.log_world import ManualClock
from rhumbline.tests.support.fakes.recorded_log import recorded_log

pytestmark = pytest.mark.run_by(runner=run_jumping)

CONFIG = RepairConfig(
    audit_interval_ms=1_000, lost_after_ms=60_000, retry_ms_min=1_000, retry_ms_max=200_000
)


class RefusingStore(MemoryStore):
    """A metadata store that is unavailable while ``is_away``."""

    def __init__(self) -> None:
        super().__init__()
        self.is_away = False
        self.sessions: list[MemorySession] = []

    async def session(self, ttl_ms: int) -> MemorySession:
        if self.is_away:
            raise MetadataUnavailableError("the store is away")
        self.sessions.append(await super().session(ttl_ms))
        return self.sessions[-1]


class CompleteCopies:
    """The entry lists of bookies that have entries 0 and 1 of each ledger."""

    async def list_entries(self, bookie: BookieId, ledger_id: int) -> Availability:
        del bookie, ledger_id
        return decode(encode(runs_of([0, 1])))


class World:
    """A cluster whose repair needs no bookie."""

    def __init__(self) -> None:
        self.client = SimpleNamespace(copies=CompleteCopies())
        self.store = RefusingStore()
        self.directory = SteeredDirectory(self.store)

    def service(self, config: RepairConfig, seed: int = 1) -> RepairService:
        """Return a repair service that does not run yet."""
        return RepairService(
            Runtime(ManualClock(), Random(seed)),
            self.store,
            cast(LedgerClient, self.client),
            self.directory,
            RegionAwarePlacement(),
            config,
        )

    @asynccontextmanager
    async def repaired(self, config: RepairConfig = CONFIG) -> AsyncIterator[RepairService]:
        """Run a repair service, and wait until it audits."""
        service = self.service(config)
        service.start()
        await asyncio.sleep(2)
        assert service.is_auditor
        try:
            yield service
        finally:
            await service.aclose()


async def test_a_lost_session_ends_the_role_and_the_next_one_begins_it_again() -> None:
    world = World()
    with recorded_log("rhumbline.regions.repair.repair_service") as log:
        async with world.repaired() as service:
            world.store.is_away = True
            world.store.expire_session(world.store.sessions[0])
            await asyncio.sleep(60)
            assert not service.is_working
            world.store.is_away = False
            await asyncio.sleep(10)
            assert service.is_auditor
    first, lost, ended, *interrupted, second, closed = log.events()
    assert [first, lost, ended, second, closed] == [
        *("auditor elected", "repair session lost", "auditor role ended"),
        *("auditor elected", "auditor role ended"),
    ]
    assert set(interrupted) == {"repair interrupted"}
    assert 2 <= len(interrupted) <= 7, "at most one line in ten seconds"
    lines = log.fields("repair interrupted")
    assert {line["error"] for line in lines} == {"MetadataUnavailableError: the store is away"}
    assert "dropped" not in lines[0] and lines[1]["dropped"] > 0
    owners = [line["owner"] for line in log.fields("auditor elected")]
    assert log.fields("repair session lost") == [{"owner": owners[0]}]
    assert owners[0] != owners[1]


async def test_a_limited_number_of_ledgers_is_repaired_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, random = World(), Random(1)
    repaired: list[int] = []
    working = peak = 0

    async def repair(_service: RepairService, ledger_id: int) -> None:
        nonlocal working, peak
        working += 1
        peak = max(peak, working)
        repaired.append(ledger_id)
        await asyncio.sleep(random.random())
        working -= 1

    monkeypatch.setattr(RepairService, "_repair_ledger", repair)
    async with world.repaired(replace(CONFIG, worker_count=8)) as service:
        for ledger_id in range(300):
            await service.tasks.add(ledger_id, "b1@00000001 is lost", 0)
        await asyncio.sleep(60)
        assert await service.tasks.ids() == []
    assert sorted(repaired) == list(range(300))
    assert peak == 8


async def test_processes_that_repair_together_rarely_try_the_same_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each process used to ask for each task, including those that others had done."""
    world, random = World(), Random(1)
    repaired: list[int] = []
    asked = 0
    get = TaskStore.get

    async def count(tasks: TaskStore, ledger_id: int) -> RepairTask | None:
        nonlocal asked
        asked += 1
        return await get(tasks, ledger_id)

    async def repair(_service: RepairService, ledger_id: int) -> None:
        repaired.append(ledger_id)
        await asyncio.sleep(0.5 + random.random())

    monkeypatch.setattr(TaskStore, "get", count)
    monkeypatch.setattr(RepairService, "_repair_ledger", repair)
    config = replace(CONFIG, worker_count=4)
    async with AsyncExitStack() as stack:
        services = [await stack.enter_async_context(world.repaired(config))]
        for seed in range(2, 11):
            services.append(world.service(config, seed))
            services[-1].start()
            stack.push_async_callback(services[-1].aclose)
        for ledger_id in range(2_000):
            await services[0].tasks.add(ledger_id, "b1@00000001 is lost", 0)
        await asyncio.sleep(100)
        assert await services[0].tasks.ids() == []
    assert sorted(repaired) == list(range(2_000))
    print(f"{asked} attempts by ten processes for 2,000 ledgers")
    assert asked < 2 * 2_000


async def test_audits_do_not_add_tasks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each audit during a large repair tried to create all of its tasks again."""
    world, _ = await a_far_world(0.0, ledgers=200)
    added: Counter[int] = Counter()
    add = TaskStore.add

    async def count(tasks: TaskStore, ledger_id: int, why: str, now_ms: int) -> bool:
        added[ledger_id] += 1
        return await add(tasks, ledger_id, why, now_ms)

    async def never(_service: RepairService, _ledger_id: int) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(TaskStore, "add", count)
    monkeypatch.setattr(RepairService, "_repair_ledger", never)
    async with world.repaired(replace(CONFIG, lost_after_ms=1_000)) as service:
        world.store.sessions[0].expire()  # that of a bookie
        await asyncio.sleep(20)
        audits = service.statistics()["audits"]
        await service.tasks.remove(7)
        await asyncio.sleep(5)
        assert len(await service.tasks.ids()) == 200
    assert audits > 10
    assert added == {ledger_id: 2 if ledger_id == 7 else 1 for ledger_id in range(1, 201)}


async def test_every_process_knows_since_when_a_bookie_is_absent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The others took a lost bookie for one that had just disappeared, and waited for it."""
    world, _ = await a_far_world(0.0, ledgers=200)
    (lost, *others), other = BOOKIES, BookieId("b9@00000001")
    await register(world, other)
    for bookie in (*BOOKIES, other):
        await world.directory.write_cookie(Cookie(bookie, "journal", ("ledgers",), "instance"))
    ledgers = LedgerStore(world.store)

    async def replace_lost(
        _repairer: LedgerRepairer, metadata: LedgerMetadata, version: Version, liveness: Liveness
    ) -> None:
        if lost not in liveness.lost:
            raise RepairStuckError(f"waiting for {lost}, which is not registered")
        await asyncio.sleep(1)
        await ledgers.write(metadata.with_bookies_of(0, (*others, other)), version)

    monkeypatch.setattr(LedgerRepairer, "repair", replace_lost)
    config = replace(CONFIG, worker_count=4)
    async with world.repaired(config) as auditing:
        helping = world.service(config, seed=2)
        helping.start()
        await asyncio.sleep(5)
        assert not helping.is_auditor
        world.store.sessions[0].expire()  # that of the lost bookie
        await asyncio.sleep(100)
        assert await auditing.tasks.ids() == []
        done = [service.statistics()["repaired"]["ledgers"] for service in (auditing, helping)]
        await helping.aclose()
    print(f"repaired by the auditing process and by the other one: {done}")
    assert min(done) > 50


async def test_a_long_repair_delays_no_other_one(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    repaired: list[int] = []

    async def repair(_service: RepairService, ledger_id: int) -> None:
        await asyncio.sleep(1_000 if ledger_id == 1 else 0.1)
        repaired.append(ledger_id)

    monkeypatch.setattr(RepairService, "_repair_ledger", repair)
    async with world.repaired(replace(CONFIG, worker_count=2)) as service:
        for ledger_id in (1, 2, 3):
            await service.tasks.add(ledger_id, "b1@00000001 is lost", 0)
        await asyncio.sleep(10)
        assert repaired == [2, 3]
        await service.tasks.add(4, "b1@00000001 is lost", 0)
        await asyncio.sleep(10)
        assert repaired == [2, 3, 4], "the next listing does not wait for it either"
        await asyncio.sleep(1_000)
    assert repaired == [2, 3, 4, 1], "and does not begin with it again"


async def test_a_ledger_that_could_not_be_locked_is_tried_again_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    repaired: list[int] = []
    attempts = 0
    try_lock = TaskStore.try_lock

    async def refuse_once(tasks: TaskStore, session: Session, ledger_id: int, owner: str) -> bool:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise MetadataUnavailableError("no answer")
        return await try_lock(tasks, session, ledger_id, owner)

    async def repair(_service: RepairService, ledger_id: int) -> None:
        repaired.append(ledger_id)

    monkeypatch.setattr(TaskStore, "try_lock", refuse_once)
    monkeypatch.setattr(RepairService, "_repair_ledger", repair)
    async with world.repaired(replace(CONFIG, audit_interval_ms=1_000_000)) as service:
        await service.tasks.add(7, "b1@00000001 is lost", 0)
        await asyncio.sleep(5)
        assert await service.tasks.ids() == []
    assert repaired == [7]


async def test_a_lock_that_could_not_be_released_does_not_keep_its_process_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    attempts = 0

    async def fail_once(_service: RepairService, _ledger_id: int) -> None:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise RepairStuckError("no bookie accepts copies")

    async def refuse(_tasks: TaskStore, _ledger_id: int) -> None:
        raise MetadataUnavailableError("no answer")

    monkeypatch.setattr(RepairService, "_repair_ledger", fail_once)
    monkeypatch.setattr(TaskStore, "unlock", refuse)
    async with world.repaired() as service:
        await service.tasks.add(7, "b1@00000001 is lost", 0)
        await asyncio.sleep(10)
        assert await service.tasks.ids() == []
        assert await service.tasks.locked_ids() == []
    assert attempts == 2


async def test_ledger_that_another_process_repaired_since_the_listing_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    repaired: list[int] = []

    async def repair(service: RepairService, ledger_id: int) -> None:
        repaired.append(ledger_id)
        await service.tasks.remove(ledger_id + 1)

    monkeypatch.setattr(RepairService, "_repair_ledger", repair)
    async with world.repaired(replace(CONFIG, worker_count=1)) as service:
        await service.tasks.add(1, "b1@00000001 is lost", 0)
        await service.tasks.add(2, "b1@00000001 is lost", 0)
        await asyncio.sleep(10)
        assert await service.tasks.ids() == []
    assert repaired == [1]


async def test_stuck_ledgers_are_retried_as_soon_as_an_operator_changes_a_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A decommissioned bookie counts as lost at once, so its ledgers need not wait for a retry."""
    world = World()
    attempts: list[float] = []

    async def wait_for_a_bookie(_service: RepairService, _ledger_id: int) -> None:
        attempts.append(asyncio.get_running_loop().time())
        raise RepairStuckError("waiting for b1@00000001, which is not registered")

    monkeypatch.setattr(RepairService, "_repair_ledger", wait_for_a_bookie)
    async with world.repaired() as service:
        await service.tasks.add(7, "b1@00000001 is lost", 0)
        await asyncio.sleep(40)  # the pauses are long by now
        before = len(attempts)
        decommissioned = asyncio.get_running_loop().time()
        await world.directory.states.change(
            lambda states: states.with_bookie(BookieId("b1@00000001"), PlacementState.OFFLINE)
        )
        await asyncio.sleep(1)
    assert attempts[before:] and attempts[before] - decommissioned < 0.1


async def test_bookies_that_leave_and_return_are_logged() -> None:
    world = World()
    bookie = BookieId("b1@00000001")
    registration = Registration(bookie, "host", 1, {"region": "a"})
    first = await world.store.session(1_000_000)
    await world.directory.register(first, registration)
    async with world.repaired():
        with recorded_log("rhumbline.regions.repair.auditor") as log:
            world.store.expire_session(first)
            await asyncio.sleep(10)
            assert log.events() == ["bookie absent"]
            await world.directory.register(await world.store.session(1_000_000), registration)
            await asyncio.sleep(10)
    assert log.fields("bookie absent") == [{"bookie": bookie, "lost_after_ms": 60_000}]
    assert log.fields("bookie present") == [{"bookie": bookie}]
    assert log.events() == ["bookie absent", "bookie present"]


async def test_an_order_to_rebalance_is_logged_when_it_begins_is_interrupted_and_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World()
    orders = OrderStore(world.store)
    faults = [MetadataUnavailableError("no answer")] * 3
    finish = OrderStore.finish

    async def fail_first(store: OrderStore, ordered_ms: int) -> None:
        if faults:
            raise faults.pop()
        await finish(store, ordered_ms)

    monkeypatch.setattr(OrderStore, "finish", fail_first)
    with recorded_log("rhumbline.regions.rebalance") as log:
        async with world.repaired():
            await orders.order(RebalanceOrder(RebalanceStatus.RUNNING, 1 << 20, 10, 5))
            await asyncio.sleep(10)
            found = await orders.read()
            assert found is not None and found.status is RebalanceStatus.DONE
    assert log.events() == ["rebalance began", "rebalance interrupted", "rebalance done"]
    assert log.fields("rebalance began") == [{"bookies": 0}]
    assert log.fields("rebalance interrupted") == [{"error": "MetadataUnavailableError: no answer"}]
    assert log.fields("rebalance done") == [{"copies": 0, "bytes": 0}]


async def test_ledgers_beyond_the_limit_are_compared_again_in_each_audit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(auditor, "_VERIFIED_MAX", 2)
    world = World()
    bookie = BookieId("b1@00000001")
    registration = Registration(bookie, "host", 1, {"region": "a"})
    await world.directory.register(await world.store.session(1_000_000), registration)
    for ledger_id in (1, 2, 3):
        ledger = LedgerMetadata(
            ledger_id, 1, 1, 1, (Fragment(0, (bookie,)),), creation_token=ledger_id
        )
        await create(world.store, ledger.closed(1, 20))
    async with world.repaired() as service:
        await asyncio.sleep(10)
        found = service.statistics()
    assert found["audits"] > 5
    assert found["ledgers"] == 3
    assert found["lists_compared"] == 3 + found["audits"] - 1


class FarCopies(CompleteCopies):
    """The entry lists of bookies that are ``round_trip_s`` away; some lack an entry of a ledger."""

    def __init__(self, round_trip_s: float) -> None:
        self.round_trip_s = round_trip_s
        self.lacks: dict[tuple[BookieId, int], None] = {}
        self.asked = Counter[int]()
        self.at_once = self.at_once_max = 0

    async def list_entries(self, bookie: BookieId, ledger_id: int) -> Availability:
        self.asked[ledger_id] += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(self.round_trip_s)
        self.at_once -= 1
        if (bookie, ledger_id) in self.lacks:
            return decode(encode(runs_of([0])))
        return await super().list_entries(bookie, ledger_id)


BOOKIES = tuple(BookieId(f"b{number}@00000001") for number in range(3))


async def a_far_world(round_trip_s: float, ledgers: int) -> tuple[World, FarCopies]:
    """Return ledgers with two entries, which three bookies have."""
    world, copies = World(), FarCopies(round_trip_s)
    world.client.copies = copies
    for bookie in BOOKIES:
        await register(world, bookie)
    for ledger_id in range(1, ledgers + 1):
        ledger = LedgerMetadata(ledger_id, 3, 3, 2, (Fragment(0, BOOKIES),), creation_token=1)
        await create(world.store, ledger.closed(1, 20))
    return world, copies


async def register(world: World, bookie: BookieId) -> MemorySession:
    session = await world.store.session(1_000_000)
    await world.directory.register(session, Registration(bookie, "host", 1, {"region": "a"}))
    return session


async def until_audited(service: RepairService) -> int:
    """Wait for the first audit; return how many seconds it took, 2 s less than it did."""
    for seconds in range(100):
        if service.statistics()["audits"]:
            return seconds
        await asyncio.sleep(1)
    raise AssertionError("no audit ended")


async def test_ledgers_of_distant_bookies_are_compared_at_the_same_time() -> None:
    """An audit waited for one bookie after the other: ten minutes for 2,000 ledgers."""
    world, copies = await a_far_world(0.1, ledgers=2_000)
    async with world.repaired() as service:
        seconds = await until_audited(service)
        assert service.statistics()["lists_compared"] == 6_000
    print(f"first audit of 2,000 ledgers in {seconds} s")
    assert seconds < 10
    assert copies.at_once_max == 3 * AT_ONCE
    assert set(copies.asked.values()) == {3}


async def test_ledgers_of_near_bookies_are_compared_within_the_rate() -> None:
    world, _ = await a_far_world(0.0, ledgers=1_000)
    async with world.repaired(replace(CONFIG, compared_per_second=100)) as service:
        assert 1_000 / 100 - 3 <= await until_audited(service) <= 1_000 / 100


async def test_an_absent_bookie_hides_no_missing_copy_and_is_compared_when_it_is_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The bookies after an absent one were not asked, and the others in each audit again."""

    async def fail(_service: RepairService, ledger_id: int) -> None:
        raise RepairStuckError(f"ledger {ledger_id} stays as it is")

    monkeypatch.setattr(RepairService, "_repair_ledger", fail)
    world, copies = World(), FarCopies(0.0)
    world.client.copies = copies
    sessions = [await register(world, bookie) for bookie in BOOKIES]
    for ledger_id in (1, 2):
        ledger = LedgerMetadata(ledger_id, 3, 3, 2, (Fragment(0, BOOKIES),), creation_token=1)
        await create(world.store, ledger.closed(1, 20))
    copies.lacks[BOOKIES[2], 2] = None
    world.store.expire_session(sessions[0])
    with recorded_log("rhumbline.regions.repair.auditor") as log:
        async with world.repaired() as service:
            await asyncio.sleep(10)
            assert service.statistics()["audits"] > 5
            (line,) = log.fields("repair needed")
            assert (line["ledger"], line["reason"]) == (2, f"{BOOKIES[2]} lacks entries from 1 on")
            assert copies.asked[1] == 2, "once from each bookie that is present"
            await register(world, BOOKIES[0])
            await asyncio.sleep(10)
            assert copies.asked[1] == 2 + 3
