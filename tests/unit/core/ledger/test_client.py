"""The normal path: create, add, read, tail, close, recover."""

import asyncio
from random import Random

import pytest

from rhumbline.core.ledger.client import PASSWORD_BYTES_MAX, LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.metadata.ledger_store import LedgerNumber
from rhumbline.core.protocol.errors import (
    ClosedError,
    IndeterminateError,
    InvalidArgumentError,
    LedgerFencedError,
    NodeExistsError,
    NoSuchLedgerError,
    NotEnoughBookiesError,
    UnauthorizedError,
    UnavailableError,
)
from rhumbline.core.protocol.ledger_metadata import (
    REGIONS_KEY,
    SPREAD_KEY,
    LedgerMetadata,
    LedgerState,
)
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.runtime.metadata_store import Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.tests.unit.core.ledger.world import (
    FakeLedgers,
    FixedClock,
    MetadataAwayError,
    Outcomes,
    World,
    run_in_world,
    until,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

Q = Quorum(3, 3, 2, 2)


async def test_entries_are_acknowledged_in_order_and_read_back() -> None:
    world = World()
    async with world.client() as client:
        writer = await client.create(Q)
        done = Outcomes()
        for i in range(20):
            assert writer.add(b"payload %d" % i, done) == i
        await until(lambda: len(done.all) == 20)
        assert done.acked == list(range(20))
        assert all(len(regions) >= 2 for _, _, regions in done.all)
        assert writer.last_add_confirmed == 19
        closed = await writer.close()
        assert (closed.state, closed.last_entry_id) == (LedgerState.CLOSED, 19)
        assert closed.length == sum(len(b"payload %d" % i) for i in range(20))
        reader = await client.open(writer.ledger_id)
        assert reader.is_closed
        entries = await reader.read(3, 19)
        assert [e.payload for e in entries] == [b"payload %d" % i for i in range(3, 20)]
        with pytest.raises(InvalidArgumentError):
            await reader.read(0, 20)
        with pytest.raises(ClosedError):
            writer.add(b"late", done)
        await reader.aclose()


async def test_striped_ledger_is_read_back() -> None:
    world = World("aabbc")
    async with world.client() as client:
        writer = await client.create(Quorum(5, 3, 2, 2))
        done = Outcomes()
        for i in range(30):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.all) == 30)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        got: list[bytes] = []
        while len(got) < 30:
            got += [bytes(e.payload) for e in await reader.read(len(got), 29)]
        assert got == [b"%d" % i for i in range(30)]
        await reader.aclose()


async def test_recovery_closes_after_the_last_acknowledged_entry_and_fences_the_writer() -> None:
    world = World()
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Q, password=b"secret")
        done = Outcomes()
        for i in range(10):
            writer.add(b"%d" % i, done)
        await until(lambda: len(done.all) == 10)
        with pytest.raises(UnauthorizedError):
            await other.recover(writer.ledger_id, b"")
        closed = await other.recover(writer.ledger_id, b"secret")
        assert (closed.last_entry_id, closed.length) == (9, 10)
        assert closed == world.closed(writer.ledger_id)
        writer.add(b"too late", done)
        await until(lambda: writer.is_failed)
        assert isinstance(writer.failure, LedgerFencedError)
        assert done.acked == list(range(10))
        assert done.failed == [10]
        again = await other.recover(writer.ledger_id, b"secret")
        assert again == closed


async def test_tail_is_woken_by_a_new_lac_and_by_the_close() -> None:
    world = World()
    loop = asyncio.get_running_loop()
    async with world.client() as client, world.client("b") as other:
        writer = await client.create(Q)
        done = Outcomes()
        reader = await other.open(writer.ledger_id)
        writer.add(b"0", done)
        await until(lambda: bool(done.acked))
        waiting = loop.create_task(reader.wait(-1, 5_000))
        await asyncio.sleep(0.2)
        started = loop.time()
        await writer.publish_lac()
        assert [e.payload for e in await waiting] == [b"0"]
        assert loop.time() - started < 0.02
        waiting = loop.create_task(reader.wait(0, 60_000))
        await asyncio.sleep(3)
        started = loop.time()
        for i in range(1, 4):
            writer.add(b"%d" % i, done)
            await until(lambda i=i: len(done.acked) == i + 1)  # type: ignore[misc]
        assert next(e.entry_id for e in await waiting) == 1
        assert loop.time() - started < 0.03
        waiting = loop.create_task(reader.wait(3, 60_000))
        await asyncio.sleep(1)
        assert await reader.wait(3, 100) == []
        await writer.close()
        started = loop.time()
        assert await waiting == []
        assert reader.is_closed
        assert loop.time() - started < 0.03
        assert reader.last_add_confirmed == 3
        await reader.aclose()


# --- creating -----------------------------------------------------------------------------------


class FailingLedgers(FakeLedgers):
    """A store whose ``create`` and ``read`` raise while ``error`` is set."""

    def __init__(self, error: Exception | None) -> None:
        super().__init__()
        self.error = error
        self.attempts = 0

    async def create(self, metadata: LedgerMetadata, number: LedgerNumber) -> Version:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        return await super().create(metadata, number)

    async def read(
        self, ledger_id: int, *, stale_ok: bool = False
    ) -> tuple[LedgerMetadata, Version]:
        self.attempts += 1
        if self.error is not None:
            raise self.error
        return await super().read(ledger_id)


SHORT = LedgerConfig(metadata_timeout_ms=1_000, backoff_ms_min=10, backoff_ms_max=100)
TRANSIENT = [
    NodeExistsError("another process took the number"),
    MetadataAwayError("the store is away"),
    IndeterminateError("the outcome is unknown"),
]


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
async def test_creation_is_retried_until_the_store_accepts_it(error: Exception) -> None:
    world = World("abc", SHORT)
    ledgers = world.ledgers = FailingLedgers(error)
    async with world.client() as client:
        creating = asyncio.get_running_loop().create_task(client.create(Q))
        await until(lambda: ledgers.attempts == 3)
        ledgers.error = None
        writer = await creating
        assert world.ledgers.now(writer.ledger_id) == writer.metadata
        assert len(client.writers()) == 1


@pytest.mark.parametrize("error", TRANSIENT, ids=lambda error: type(error).__name__)
async def test_creation_fails_with_the_error_of_the_store_at_the_deadline(error: Exception) -> None:
    world = World("abc", SHORT)
    ledgers = world.ledgers = FailingLedgers(error)
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        with pytest.raises(type(error)):
            await client.create(Q)
        assert 1.0 <= loop.time() < 1.3
        assert ledgers.attempts > 5
        assert client.writers() == []


async def test_creation_without_enough_bookies_fails_at_once() -> None:
    world = World("abc", SHORT)
    world.bookies[0].is_down = True
    async with world.client() as client:
        with pytest.raises(NotEnoughBookiesError):
            await client.create(Q)
        assert asyncio.get_running_loop().time() < 0.01
        assert world.ledgers.released == [world.ledgers.last_id], "each attempt left a node behind"


async def test_permanent_error_of_the_store_ends_the_creation_at_once() -> None:
    world = World("abc", SHORT)
    ledgers = world.ledgers = FailingLedgers(InvalidArgumentError("no such namespace"))
    async with world.client() as client:
        with pytest.raises(InvalidArgumentError):
            await client.create(Q)
        assert ledgers.attempts == 1


async def test_password_is_bounded() -> None:
    world = World()
    async with world.client() as client:
        writer = await client.create(Q, password=b"x" * PASSWORD_BYTES_MAX)
        assert len(writer.metadata.password) == 1024
        with pytest.raises(InvalidArgumentError, match=r"1025 bytes; the limit is 1024$"):
            await client.create(Q, password=b"x" * 1025)


async def test_metadata_of_a_new_ledger_records_what_was_asked_for() -> None:
    world = World("abcab")
    async with world.client() as client:
        writer = await client.create(
            Quorum(4, 3, 2, 2), password=b"secret", custom={"owner": b"me"}
        )
        other = await client.create(Quorum(2, 2, 1, 1))
        stored = world.ledgers.now(writer.ledger_id)
        assert stored.quorum_at(0) == Quorum(4, 3, 2, 2)
        assert (stored.password, stored.custom["owner"]) == (b"secret", b"me")
        assert stored.created_ms == 1_000_000
        assert [f.first_entry_id for f in stored.fragments] == [0]
        assert (stored.state, stored.r_ranges()) == (LedgerState.OPEN, ((0, 2),))
        plain = world.ledgers.now(other.ledger_id)
        assert (plain.password, plain.custom) == (b"", {})
        assert plain.quorum_at(0) == Quorum(2, 2, 1, 1)
        tokens = {stored.creation_token, plain.creation_token}
        assert len(tokens) == 2
        assert all(0 < token <= 1 << 62 for token in tokens)
        assert client.writers() == [writer, other]


class ExtremeRandom(Random):
    """Returns the smallest or the largest value for a request of many bits."""

    def __init__(self, *, is_largest: bool) -> None:
        super().__init__(1)
        self._is_largest = is_largest

    def getrandbits(self, k: int, /) -> int:
        return super().getrandbits(k) if k < 50 else ((1 << k) - 1) * self._is_largest


@pytest.mark.parametrize(("is_largest", "token"), [(False, 1), (True, 1 << 62)])
async def test_creation_token_is_positive_and_fits_into_63_bits(
    is_largest: bool, token: int
) -> None:
    world = World("abc")
    world.runtime = Runtime(FixedClock(), ExtremeRandom(is_largest=is_largest))
    async with world.client() as client:
        writer = await client.create(Q)
        assert writer.metadata.creation_token == token


async def test_copies_are_placed_near_the_process() -> None:
    world = World("aabbccddee")
    for own in "abcde":
        async with world.client(own) as client:
            for _ in range(3):
                writer = await client.create(Q)
                bookies = writer.metadata.last_fragment.bookies
                assert own in {str(world.by_id[bookie].region) for bookie in bookies}


async def test_copies_are_placed_near_the_first_allowed_region_if_this_process_is_elsewhere() -> (
    None
):
    world = World("aabbccddee")
    for own, allowed, near in (("a", b"d,b,c", "d"), ("b", b"d,b,c", "b"), (None, b"c,b,e", "c")):
        async with world.client(own) as client:
            for _ in range(5):
                writer = await client.create(Quorum(2, 2, 2, 2), custom={REGIONS_KEY: allowed})
                bookies = writer.metadata.last_fragment.bookies
                regions = {str(world.by_id[bookie].region) for bookie in bookies}
                assert near in regions
                assert regions <= set(allowed.decode().split(","))


async def test_bookies_that_failed_lately_are_avoided_while_there_are_others() -> None:
    world = World("abcabc")
    async with world.client() as client:
        avoided = [bookie.bookie for bookie in world.bookies[:3]]
        for bookie in avoided:
            client._context.pool.on_failure(bookie)
        writer = await client.create(Q)
        assert not set(writer.metadata.last_fragment.bookies) & set(avoided)
        for fake in world.bookies[3:]:
            fake.is_down = True
        again = await client.create(Q)
        assert set(again.metadata.last_fragment.bookies) == set(avoided)


async def test_possible_creation_is_predicted() -> None:
    world = World("abc")
    async with world.client() as client:
        assert await client.can_create(Q)
        assert await client.can_create(Quorum(2, 2, 2, 2), ["a", "c"])
        assert not await client.can_create(Q, ["a", "c"])
        world.bookies[2].is_down = True
        assert not await client.can_create(Q)
        world.ledgers.is_away = True
        with pytest.raises(MetadataAwayError):
            await client.can_create(Q)


async def test_a_ledger_is_refused_if_its_write_sets_cannot_obey_the_spread_rule() -> None:
    world = World("abc")  # all in one rack of their regions
    async with world.client() as client:
        assert await client.can_create(Q, (), {"rack": 3})
        writer = await client.create(Q, custom={SPREAD_KEY: b"rack:3"})
        assert writer.metadata.spread_rule() == {"rack": 3}
    world = World("aab")
    async with world.client() as client:
        assert await client.can_create(Q)
        assert not await client.can_create(Q, (), {"rack": 3})
        with pytest.raises(NotEnoughBookiesError, match="at least 3 racks"):
            await client.create(Q, custom={SPREAD_KEY: b"rack:3"})


# --- opening, deleting, counting ----------------------------------------------------------------


async def test_opening_waits_for_a_store_that_is_unavailable_until_the_deadline() -> None:
    world = World("abc", SHORT)
    ledgers = world.ledgers = FailingLedgers(None)
    loop = asyncio.get_running_loop()
    async with world.client() as client:
        writer = await client.create(Q)
        ledgers.error, ledgers.attempts = MetadataAwayError("the store is away"), 0
        opening = loop.create_task(client.open(writer.ledger_id))
        await until(lambda: ledgers.attempts == 3)
        ledgers.error = None
        assert (await opening).ledger_id == writer.ledger_id
        ledgers.error, began = MetadataAwayError("the store is away"), loop.time()
        with pytest.raises(UnavailableError):
            await client.open(writer.ledger_id)
        assert 1.0 <= loop.time() - began < 1.3
        ledgers.error, ledgers.attempts = NoSuchLedgerError("deleted"), 0
        with pytest.raises(NoSuchLedgerError):
            await client.open(writer.ledger_id)
        assert ledgers.attempts == 1


async def test_a_wrong_password_opens_nothing_and_none_stands_for_that_of_the_metadata() -> None:
    world = World()
    async with world.client() as client:
        writer = await client.create(Q, password=b"secret")
        with pytest.raises(UnauthorizedError):
            await client.open(writer.ledger_id, b"")
        with pytest.raises(UnauthorizedError):
            await client.recover(writer.ledger_id, b"wrong")
        reader = await client.open(writer.ledger_id, b"secret")
        assert not reader.is_closed
        assert not (await client.open(writer.ledger_id)).is_closed
        assert client.writers() == [writer]


async def test_statistics_count_handles_adds_bytes_and_failures() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(Q)
        reader = await client.open(writer.ledger_id)
        done = Outcomes()
        for _ in range(5):
            writer.add(b"x" * 1000, done)
        await until(lambda: len(done.acked) == 5)
        await asyncio.sleep(0.1)
        client._context.pool.on_failure(world.bookies[1].bookie)
        found = client.statistics()
        assert found["open_handles"] == 2
        assert found["adds"]["count"] == 5
        assert 1 <= found["adds"]["max_ms"] < 20
        assert list(found["bookies"]) == sorted(bookie.bookie for bookie in world.bookies)
        for bookie, counted in found["bookies"].items():
            assert counted["sent_bytes"] > 5_000 > counted["received_bytes"] > 5 * 28
            assert client.traffic()[bookie] == (counted["sent_bytes"], counted["received_bytes"])
        received = sum(counted["received_bytes"] for counted in found["bookies"].values())
        assert sum(found["received"].values()) == received
        assert found["received"]["own_region"] > 0 < found["received"]["other_region"]
        assert found["failed_lately"] == [world.bookies[1].bookie]
        await reader.aclose()
        await writer.close()
        assert client.statistics()["open_handles"] == 0
        assert client.writers() == []


async def test_missing_ranges_and_evidence_may_be_ignored() -> None:
    world = World("abc")
    client = LedgerClient(
        world.runtime,
        world.ledgers,  # type: ignore[arg-type]
        world.directory,  # type: ignore[arg-type]
        RegionAwarePlacement(),
    )
    async with client:
        writer = await client.create(Q)
        closed = await client.recover(writer.ledger_id)
        assert closed.state is LedgerState.CLOSED


async def test_closed_client_ends_readers_and_writers() -> None:
    world = World("abc")
    client = world.client()
    writer = await client.create(Q)
    reader = await client.open(writer.ledger_id)
    await client.aclose()
    assert isinstance(writer.failure, ClosedError)
    with pytest.raises(ClosedError):
        await reader.wait(-1, 1_000)
    assert client.statistics()["open_handles"] == 0
    assert all(not pipe.is_open for bookie in world.bookies for pipe in bookie.pipes)


async def test_closing_the_client_cancels_its_tasks() -> None:
    world = World("abc")
    client = world.client()
    task = client._context.tasks.spawn(asyncio.sleep(3_600), "a task of the client")
    await asyncio.sleep(0)
    await client.aclose()
    assert task.cancelled()
    assert asyncio.get_running_loop().time() < 1
