"""Ledger metadata in a store that loses replies: every outcome is resolved or reported."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    LimitExceededError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NoSuchLedgerError,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.metadata_store import Operation, Value, Version
from rhumbline.core.wire import ledger_metadata as format
from rhumbline.tests.support.fakes.ledger_numbers import create, number
from rhumbline.tests.support.fakes.lossy_store import (
    LOST_REPLY,
    LOST_REQUEST,
    OK,
    UNAVAILABLE,
    LossyStore,
)

PATH = "/ledgers/00/0000/L0007"


def ledger(ledger_id: int = 7, token: int = 5) -> LedgerMetadata:
    bookies = tuple(BookieId(f"b{n}@0000000{n}") for n in range(3))
    return LedgerMetadata(ledger_id, 3, 3, 2, (Fragment(0, bookies),), creation_token=token)


class World:
    """A store that may lose replies, and two processes' views of its ledgers."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.store = LossyStore(self.inner)
        self.ledgers = LedgerStore(self.store)
        self.others = LedgerStore(self.inner)

    async def create(self, metadata: LedgerMetadata) -> Version:
        """Create a ledger: reserving the id succeeds, the creation has the store's outcomes."""
        return await self.ledgers.create(metadata, await number(self.inner, metadata.ledger_id))


# --- create -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcomes", [[OK], [LOST_REPLY], [LOST_REQUEST], [LOST_REPLY, LOST_REQUEST], [LOST_REQUEST] * 2]
)
async def test_the_outcome_of_a_creation_is_resolved(outcomes: list[str]) -> None:
    world = World()
    world.store.outcomes = outcomes
    version = await world.create(ledger())
    assert await world.others.read(7) == (ledger(), version)


class LateStore(LossyStore):
    """A store whose first transaction loses its reply and is carried out by ``arrive``."""

    def __init__(self, inner: MemoryStore) -> None:
        super().__init__(inner)
        self._late: list[Sequence[Operation]] = []

    async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
        if not self._late:
            self._late.append(operations)
            raise IndeterminateError("the test says so")
        return await super().txn(operations)

    async def arrive(self) -> None:
        await self.inner.txn(self._late[0])


async def test_a_delayed_creation_after_the_deletion_creates_nothing() -> None:
    """Found by the simulator (plan mixed, seed 1287): an unreferenced empty ledger was left."""
    world = World()
    late = LateStore(world.inner)
    ledgers = LedgerStore(late)
    number = await ledgers.new_number()
    await ledgers.create(ledger(number.ledger_id), number)
    await ledgers.delete(number.ledger_id)
    with pytest.raises(NoNodeError):
        await late.arrive()
    assert await world.others.ids() == []
    with pytest.raises(NodeExistsError):
        await world.others.create(ledger(number.ledger_id), number)


@pytest.mark.parametrize("outcomes", [[OK], [LOST_REQUEST]])
async def test_a_taken_id_is_rejected(outcomes: list[str]) -> None:
    world = World()
    await create(world.inner, ledger(token=6))
    world.store.outcomes = outcomes
    with pytest.raises(NodeExistsError):
        await world.create(ledger(token=5))
    assert (await world.others.read(7))[0].creation_token == 6


async def test_a_creation_changed_by_another_process_raises() -> None:
    """If the version were returned, the creator could overwrite the change."""
    world = World()
    world.store.outcomes = [LOST_REPLY]

    def recover_before_the_second_attempt(_: str) -> None:
        if world.store.writes == 2:
            node = world.inner.tree.node(PATH)
            assert node is not None
            task.append(
                asyncio.ensure_future(world.others.write(ledger().in_recovery(), node.version))
            )

    task: list[asyncio.Future[Version]] = []

    class Slow(LossyStore):
        async def get(self, path: str, *, stale_ok: bool = False) -> Value:
            await asyncio.gather(*task)
            return await super().get(path, stale_ok=stale_ok)

    world.store = Slow(world.inner)
    world.store.outcomes = [LOST_REPLY]
    world.store.on_call = recover_before_the_second_attempt
    with pytest.raises(NodeExistsError):
        await LedgerStore(world.store).create(ledger(), await number(world.inner, 7))


async def test_a_creation_that_stays_unknown_raises_indeterminate_error() -> None:
    for outcomes in ([LOST_REQUEST] * 3, [LOST_REPLY, UNAVAILABLE]):
        world = World()
        world.store.outcomes = list(outcomes)
        with pytest.raises(IndeterminateError):
            await world.create(ledger())


async def test_a_creation_that_certainly_failed_raises_unavailable() -> None:
    world = World()
    world.store.outcomes = [UNAVAILABLE]
    with pytest.raises(MetadataUnavailableError):
        await world.create(ledger())
    with pytest.raises(NoSuchLedgerError):
        await world.others.read(7)


# --- write --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcomes", [[OK], [LOST_REPLY], [LOST_REQUEST], [LOST_REQUEST, LOST_REPLY]]
)
async def test_the_outcome_of_a_change_is_resolved(outcomes: list[str]) -> None:
    world = World()
    version = await create(world.inner, ledger())
    world.store.outcomes = outcomes
    changed = ledger().in_recovery()
    after = await world.ledgers.write(changed, version)
    assert await world.others.read(7) == (changed, after)


@pytest.mark.parametrize("outcomes", [[OK], [LOST_REQUEST]])
async def test_a_change_of_an_old_version_is_rejected(outcomes: list[str]) -> None:
    world = World()
    version = await create(world.inner, ledger())
    await world.others.write(ledger().in_recovery(), version)
    world.store.outcomes = outcomes
    with pytest.raises(BadVersionError):
        await world.ledgers.write(ledger().closed(3, 9), version)
    assert (await world.others.read(7))[0] == ledger().in_recovery()


async def test_repeating_a_known_change_is_rejected() -> None:
    world = World()
    version = await create(world.inner, ledger())
    await world.ledgers.write(ledger().in_recovery(), version)
    with pytest.raises(BadVersionError):
        await world.ledgers.write(ledger().in_recovery(), version)


async def test_a_change_that_was_overwritten_does_not_count_as_done() -> None:
    world = World()
    version = await create(world.inner, ledger())
    world.store.outcomes = [LOST_REPLY]
    closed = ledger().closed(3, 9)

    class Overtaken(LossyStore):
        async def put(self, path: str, data: bytes, *, expect: Version | None = None) -> Version:
            if self.writes == 1:
                stored = await self.inner.get(path)
                await self.inner.put(path, format.encode(closed), expect=stored.version)
            return await super().put(path, data, expect=expect)

    store = Overtaken(world.inner)
    store.outcomes = [LOST_REPLY]
    with pytest.raises(BadVersionError):
        await LedgerStore(store).write(ledger().in_recovery(), version)
    assert (await world.others.read(7))[0] == closed


async def test_a_change_that_cannot_be_read_back_is_unknown() -> None:
    world = World()
    version = await create(world.inner, ledger())

    class Blind(LossyStore):
        async def get(self, path: str, *, stale_ok: bool = False) -> Value:
            raise MetadataUnavailableError("the test says so")

    store = Blind(world.inner)
    store.outcomes = [LOST_REPLY]
    with pytest.raises(IndeterminateError):
        await LedgerStore(store).write(ledger().in_recovery(), version)


@pytest.mark.parametrize(
    ("outcomes", "error"),
    [
        ([UNAVAILABLE], MetadataUnavailableError),
        ([LOST_REQUEST, UNAVAILABLE], IndeterminateError),
        ([LOST_REQUEST] * 3, IndeterminateError),
    ],
)
async def test_errors_of_a_failed_change(outcomes: list[str], error: type[Exception]) -> None:
    world = World()
    version = await create(world.inner, ledger())
    world.store.outcomes = outcomes
    with pytest.raises(error):
        await world.ledgers.write(ledger().in_recovery(), version)


# --- delete and read ----------------------------------------------------------------------------


@pytest.mark.parametrize("outcomes", [[OK], [LOST_REPLY], [LOST_REQUEST]])
async def test_the_outcome_of_a_deletion_is_resolved_and_no_parents_stay(
    outcomes: list[str],
) -> None:
    world = World()
    await create(world.inner, ledger(7))
    await create(world.inner, ledger(10_008))
    world.store.outcomes = outcomes
    await world.ledgers.delete(7)
    assert await world.inner.children("/ledgers/00") == ["0001"]
    assert await world.others.ids() == [10_008]


async def test_a_missing_ledger_raises() -> None:
    world = World()
    version = await create(world.inner, ledger())
    await world.others.delete(7, version)
    with pytest.raises(NoSuchLedgerError):
        await world.ledgers.read(7)
    with pytest.raises(NoSuchLedgerError):
        await world.ledgers.delete(7)
    with pytest.raises(NoSuchLedgerError):
        await world.ledgers.write(ledger(), version)


async def test_a_deletion_checks_the_version() -> None:
    world = World()
    version = await create(world.inner, ledger())
    await world.others.write(ledger().in_recovery(), version)
    with pytest.raises(BadVersionError):
        await world.ledgers.delete(7, version)


async def test_malformed_metadata_is_corrupt() -> None:
    world = World()
    await world.inner.create(PATH, b"junk")
    with pytest.raises(CorruptionError):
        await world.ledgers.read(7)


async def test_a_watch_fires_after_a_change() -> None:
    world = World()
    version = await create(world.inner, ledger())
    changed = asyncio.Event()
    watch = world.ledgers.watch(7, changed.set)
    await world.others.write(ledger().in_recovery(), version)
    await asyncio.wait_for(changed.wait(), 5)
    watch.close()


# --- numbers and listing ------------------------------------------------------------------------


async def test_ids_rise_and_leave_no_nodes_behind() -> None:
    world = World()
    world.store.outcomes = [OK, OK, LOST_REPLY, OK, OK, LOST_REQUEST]
    numbers = [await world.ledgers.next_id() for _ in range(4)]
    assert numbers == sorted(set(numbers))
    left = await world.inner.children("/ledgers/idgen")
    assert len(left) == 1  # the node of the lost reply, whose name is unknown


class Overflowing(LossyStore):
    """A store with sequential numbers from ``first`` on below each parent, as in ZooKeeper."""

    def __init__(self, first: dict[str, int]) -> None:
        super().__init__(MemoryStore())
        self.first = first

    async def create(self, path: str, data: bytes = b"", **options: object) -> tuple[str, Version]:
        if not options.get("sequential"):
            return await super().create(path, data)
        parent = path.rpartition("/")[0]
        number = self.first.get(parent, 0)
        self.first[parent] = number + 1
        if number >= 2**31:
            number -= 2**32  # a Java int
        return await super().create(f"{path}{number:010d}", data)


async def test_long_ids_follow_after_the_last_short_id() -> None:
    store = Overflowing({"/ledgers/idgen": 2**31 - 2})
    ledgers = LedgerStore(store)
    assert await ledgers.next_id() == 2**31 - 2
    for low in range(3):
        assert await ledgers.next_id() == (1 << 32) + low
    store.first["/ledgers/idgen-long/HOB-0000000001"] = 2**31
    assert await ledgers.next_id() == 2 << 32
    assert await ledgers.next_id() == (2 << 32) + 1


async def test_a_store_without_free_ids_raises() -> None:
    class Broken(Overflowing):
        async def create(
            self, path: str, data: bytes = b"", **options: object
        ) -> tuple[str, Version]:
            self.first[path.rpartition("/")[0]] = 2**31
            return await super().create(path, data, **options)

    with pytest.raises(LimitExceededError):
        await LedgerStore(Broken({})).next_id()


IDS = [0, 1, 9_999, 10_000, 1_234_567, 2**31 - 2, 2**31 - 1, 2**32 + 5, 5 * 10**12 + 123, 2**63 - 1]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
async def test_pages_hold_every_ledger_once_in_order(limit: int) -> None:
    world = World()
    for ledger_id in reversed(IDS):
        await create(world.inner, ledger(ledger_id))
    await world.inner.create("/ledgers/available/readonly")
    await world.inner.create("/ledgers/00/0000/junk")
    found: list[int] = []
    while page := await world.ledgers.ids(found[-1] if found else None, limit):
        assert len(page) <= limit
        found += page
    assert found == IDS


async def test_pages_begin_after_any_id() -> None:
    world = World()
    for ledger_id in IDS:
        await create(world.inner, ledger(ledger_id))
    for after in (*IDS, 5, 123_456_789, 2**31 + 7, 2**62):
        assert await world.ledgers.ids(after) == [i for i in IDS if i > after]


async def test_without_ledgers_a_page_is_empty() -> None:
    assert await World().ledgers.ids() == []


async def test_a_ledger_needs_a_creation_token() -> None:
    with pytest.raises(AssertionError, match="token"):
        await World().create(replace(ledger(), creation_token=0))
