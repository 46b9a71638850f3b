"""Limbo recovery goes over all ledgers page by page, and journals what it releases."""

from collections.abc import Collection
from random import Random

import pytest

from rhumbline.core.bookie.config import BookieConfig
from rhumbline.core.bookie.maintenance.limbo_recovery import LimboRecovery, end_limbo
from rhumbline.core.bookie.storage import Storage
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    CorruptionError,
    NoSuchLedgerError,
    RhumblineError,
    UnavailableError,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.core.wire.entry import master_key
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.bookie.bookie_world import KEY, PASSWORD, FixedClock
from rhumbline.tests.unit.core.bookie.memory_disk import MemoryDisk

ME, OTHER = BookieId("b1@00000001"), BookieId("b2@00000002")
BELOW = 5_000
CONFIG = BookieConfig(log_file_bytes=1 << 20)


def closed(ledger_id: int, last_entry_id: int, bookie: BookieId = ME) -> LedgerMetadata:
    return LedgerMetadata(
        ledger_id, 1, 1, 1, (Fragment(0, (bookie,)),),
        password=PASSWORD, state=LedgerState.CLOSED, last_entry_id=last_entry_id,
    )  # fmt: skip


def moved(ledger_id: int, state: LedgerState) -> LedgerMetadata:
    """Return a ledger whose entries 0 and 1 are here, and whose later ones are elsewhere."""
    fragments = (Fragment(0, (ME,)), Fragment(2, (OTHER,)))
    return LedgerMetadata(ledger_id, 1, 1, 1, fragments, password=PASSWORD, state=state)


class Metadata:
    """The ledgers of the cluster, all of which belong to another bookie unless they are set."""

    def __init__(self, ids: list[int]) -> None:
        self.listed = ids
        self.known: dict[int, LedgerMetadata | RhumblineError] = {}
        self.calls: list[tuple[int | None, int]] = []
        self.next_count = 0

    async def next_ids(self, known: Collection[int]) -> list[int]:
        if 0 in known:
            return []
        self.next_count += 1
        return [BELOW]

    async def ids(self, after: int | None = None, limit: int = 1000) -> list[int]:
        self.calls.append((after, limit))
        return [found for found in self.listed if after is None or found > after][:limit]

    async def read(self, ledger_id: int) -> tuple[LedgerMetadata, Version]:
        found = self.known.get(ledger_id) or closed(ledger_id, -1, OTHER)
        if isinstance(found, RhumblineError):
            raise found
        return found, Version("1")


class World:
    """A storage in limbo that holds the state of some ledgers and no entries."""

    def __init__(self, listed: list[int]) -> None:
        self.disk = MemoryDisk()
        self.metadata = Metadata(listed)
        self.restored: list[tuple[int, int]] = []
        self.result: bool | RhumblineError = True

    async def start(self, *held: int) -> "World":
        self.storage = Storage(Runtime(FixedClock(), Random(1)), self.disk, CONFIG, ME)
        await self.storage.open()
        for ledger_id in held:
            self.storage.create_ledger(ledger_id, KEY, is_proven=True)
        await self.storage.begin_limbo()
        self.limbo = LimboRecovery(self.storage, self.metadata, ME, self._restore)
        return self

    async def _restore(self, ledger_id: int, entry_id: int) -> bool:
        self.restored.append((ledger_id, entry_id))
        if isinstance(self.result, RhumblineError):
            raise self.result
        return self.result

    async def reopened(self) -> Storage:
        """Return the storage as another process finds it after a kill."""
        storage = Storage(Runtime(FixedClock(), Random(2)), self.disk.copy(), CONFIG, ME)
        await storage.open()
        return storage

    def accepting(self) -> list[int]:
        ledgers = self.storage.states.ledgers.values()
        return [ledger.ledger_id for ledger in ledgers if ledger.accepts_adds]


async def test_nothing_is_done_without_limbo() -> None:
    world = await World([1, 2]).start(1)
    await end_limbo(world.storage)
    assert world.accepting() == [1]
    await world.limbo.step()
    assert (world.metadata.next_count, world.metadata.calls) == (0, [])
    assert not (await world.reopened()).states.limbo.is_active


async def test_first_step_bounds_the_limbo_durably() -> None:
    world = await World(list(range(2_000))).start(7, BELOW)
    world.metadata.known[7] = LedgerMetadata(7, 1, 1, 1, (Fragment(0, (ME,)),), password=PASSWORD)
    assert (world.storage.states.limbo.bounds, world.accepting()) == ({}, [])
    await world.limbo.step()
    assert (world.storage.states.limbo.bounds, world.accepting()) == ({0: BELOW}, [BELOW])
    again = await world.reopened()
    assert (again.states.limbo.is_active, again.states.limbo.bounds) == (True, {0: BELOW})
    await world.limbo.step()
    await world.limbo.step()
    assert world.metadata.next_count == 1


async def test_ledgers_are_listed_in_pages_from_the_beginning_in_each_pass() -> None:
    world = await World(list(range(0, 6_000, 2))).start(3, 4_999)
    open_here = LedgerMetadata(3, 1, 1, 1, (Fragment(0, (ME,)),), password=PASSWORD)
    world.metadata.known[3] = open_here
    world.metadata.known[4_999] = NoSuchLedgerError("deleted")
    for _ in range(4):
        await world.limbo.step()
    pages = [(-1, 1_000), (1_998, 1_000), (3_998, 1_000)]
    assert world.metadata.calls == [*pages, (-1, 1_000)]
    limbo = world.storage.states.limbo
    assert limbo.is_active, "ledger 3 is open"
    assert list(limbo.cleared) == [4_999], "it is known here only, and was deleted"
    world.metadata.known[3] = closed(3, -1)
    with recorded_log() as log:
        for _ in range(2):
            await world.limbo.step()
        assert limbo.is_active, "ledger 3 was examined before the metadata changed"
        assert log.events() == []
        for _ in range(3):
            await world.limbo.step()
        assert log.events() == ["ledger fenced", "limbo ended"]
    assert not limbo.is_active
    assert log.fields("limbo ended") == [{"bookie": ME, "restored": 0, "missing": 0}]
    assert world.accepting() == [4_999], "closed: fenced; deleted: left to garbage collection"
    assert not (await world.reopened()).states.limbo.is_active


@pytest.mark.parametrize(("count", "page_count"), [(999, 1), (1_000, 2), (1_001, 2)])
async def test_page_that_is_not_full_is_the_last(count: int, page_count: int) -> None:
    world = await World(list(range(count))).start()
    for _ in range(page_count):
        assert world.storage.states.limbo.is_active
        await world.limbo.step()
    assert not world.storage.states.limbo.is_active
    assert len(world.metadata.calls) == page_count


async def test_ledgers_at_the_bound_or_above_are_not_examined() -> None:
    world = await World([1, *range(BELOW, BELOW + 2_000)]).start(BELOW - 1, BELOW)
    world.metadata.known[BELOW - 1] = closed(BELOW - 1, -1)
    world.metadata.known[BELOW] = CorruptionError("must not be read")
    await world.limbo.step()
    assert not world.storage.states.limbo.is_active
    assert world.storage.states.ledgers[BELOW - 1].is_fenced
    assert not world.storage.states.ledgers[BELOW].is_fenced
    assert world.metadata.calls == [(-1, 1_000)]


async def test_page_that_ends_with_the_bound_is_the_last() -> None:
    world = await World(list(range(BELOW - 999, BELOW + 1))).start()
    await world.limbo.step()
    assert not world.storage.states.limbo.is_active


async def test_unreadable_metadata_keep_the_limbo_and_other_ledgers_are_released() -> None:
    world = await World([1, 2, 3]).start(1, 3)
    world.metadata.known[1] = moved(1, LedgerState.OPEN)
    world.metadata.known[2] = CorruptionError("damaged metadata")
    world.metadata.known[3] = moved(3, LedgerState.IN_RECOVERY)
    await world.limbo.step()
    states = world.storage.states
    assert (states.limbo.is_active, list(states.limbo.cleared)) == (True, [1, 3])
    assert world.restored == [(1, 0), (1, 1), (3, 0), (3, 1)]
    assert world.accepting() == [1], "its writer may choose this bookie again"
    assert [states.ledgers[ledger_id].is_fenced for ledger_id in (1, 3)] == [False, True]
    again = (await world.reopened()).states
    assert list(again.limbo.cleared) == [1, 3]
    assert again.ledgers[3].is_fenced
    assert again.ledgers[1].accepts_adds
    world.metadata.known[2] = closed(2, -1, OTHER)
    await world.limbo.step()
    assert world.restored[4:] == [], "released ledgers are not examined again"
    assert not states.limbo.is_active


async def test_lost_state_of_a_ledger_is_created_from_its_metadata() -> None:
    world = await World([4]).start()
    world.metadata.known[4] = closed(4, 1)
    await world.limbo.step()
    ledger = world.storage.states.ledgers[4]
    assert (ledger.master_key, ledger.is_proven) == (master_key(PASSWORD), True)
    assert ledger.is_fenced and ledger.is_fence_durable
    assert world.restored == [(4, 0), (4, 1)]


async def test_restored_entries_are_bounded_in_each_pass() -> None:
    world = await World([1]).start(1)
    world.metadata.known[1] = closed(1, 24_999)
    pages: list[tuple[int, int, int]] = []
    page = world.storage.index.page

    async def noted_page(ledger_id: int, first: int, limit: int) -> object:
        pages.append((ledger_id, first, limit))
        return await page(ledger_id, first, limit)

    world.storage.index.page = noted_page  # type: ignore[method-assign, assignment]
    await world.limbo.step()
    assert pages == [(1, 0, 10_000), (1, 10_000, 10_000), (1, 20_000, 5_000)]
    assert len(world.restored) == 10_000
    assert (world.limbo.restored_count, world.limbo.missing_count) == (10_000, 15_000)
    assert world.storage.states.limbo.covers(1)
    await world.limbo.step()
    assert (world.limbo.restored_count, world.limbo.missing_count) == (20_000, 15_000)


@pytest.mark.parametrize("result", [False, UnavailableError("no replica responds")])
async def test_replicas_are_asked_no_more_for_a_ledger_after_a_failure(
    result: bool | RhumblineError,
) -> None:
    world = await World([1, 2]).start(1, 2)
    world.metadata.known[1] = closed(1, 4)
    world.metadata.known[2] = closed(2, 1)
    world.result = result
    await world.limbo.step()
    assert world.restored == [(1, 0), (2, 0)]
    assert (world.limbo.restored_count, world.limbo.missing_count) == (0, 7)
    assert world.storage.states.limbo.covers(1)
    world.result = True
    await world.limbo.step()
    assert (world.limbo.restored_count, world.limbo.missing_count) == (7, 0)
    assert not world.storage.states.limbo.is_active
