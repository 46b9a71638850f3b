"""Readers: the order of replicas, corrupt copies, fresh and stale metadata, the tail."""

import asyncio

import pytest

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import (
    ClosedError,
    CorruptionError,
    InvalidArgumentError,
    NoSuchEntryError,
    NoSuchLedgerError,
    UnavailableError,
    UnknownStateError,
)
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.wire import v2, v3
from rhumbline.tests.unit.core.ledger.world import FakeBookie, Outcomes, World, run_in_world, until

pytestmark = pytest.mark.run_by(runner=run_in_world)

GEO = Quorum(3, 3, 2, 2)
ALL = Quorum(3, 3, 3, 2)


async def written(client: LedgerClient, count: int, quorum: Quorum = ALL) -> LedgerWriter:
    writer = await client.create(quorum)
    done = Outcomes()
    for i in range(count):
        writer.add(b"%03d" % i, done)
    await until(lambda: len(done.acked) == count)
    return writer


def in_region(world: World, region: str) -> FakeBookie:
    return next(b for b in world.bookies if str(b.region) == region)


def damage(bookie: FakeBookie, ledger: int, entry_id: int) -> None:
    entry = bookie.entries[ledger, entry_id]
    bookie.entries[ledger, entry_id] = entry[:-1] + bytes([entry[-1] ^ 1])


async def test_own_region_is_read_first() -> None:
    world = World()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 10)
        await writer.close()
        reader = await other.open(writer.ledger_id)
        for bookie in world.bookies:
            bookie.requests.clear()
        assert len(await reader.read(0, 9)) == 10
        assert len(await reader.read(4, 4)) == 1
        assert [len(b.requests) for b in world.bookies] == [0, 0, 2]


async def test_recovered_ledger_is_read_without_its_metadata() -> None:
    """A takeover waited for the metadata that the recovery had just written."""
    world = World()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 10)
        closed = await other.recover(writer.ledger_id)
        world.ledgers.is_away = True
        reader = await other.open_recovered(closed)
        assert [bytes(e.payload) for e in await reader.read(9, 9)] == [b"009"]
        assert (reader.is_closed, reader.last_add_confirmed) == (True, 9)
        world.ledgers.is_away = False
        assert await reader.refresh()
        assert not await reader.refresh(), "its version is known now"
        assert reader.metadata == closed


@pytest.mark.parametrize("last", [4, 9])
async def test_b17_corrupt_copy_is_never_returned_and_the_next_replica_is_read(last: int) -> None:
    world = World()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 10)
        await writer.close()
        damage(in_region(world, "c"), writer.ledger_id, 4)
        reader = await other.open(writer.ledger_id)
        got: list[bytes] = []
        while len(got) < last - 3:
            got += [bytes(e.payload) for e in await reader.read(4 + len(got), last)]
        assert got == [b"%03d" % i for i in range(4, last + 1)]
        for bookie in world.bookies[:2]:
            damage(bookie, writer.ledger_id, 4)
        with pytest.raises(CorruptionError):
            await reader.read(4, last)


async def test_no_such_entry_is_raised_only_if_every_replica_responds_so() -> None:
    world = World()
    async with world.client("a") as client:
        writer = await written(client, 3)
        ledger = writer.ledger_id
        await writer.close()
        reader = await client.open(ledger)
        for bookie in world.bookies:
            del bookie.entries[ledger, 1]
        with pytest.raises(NoSuchEntryError):
            await reader.read(1, 1)
        in_region(world, "b").script = lambda request: (
            v2.Code.IO if isinstance(request, v2.ReadRequest) else None
        )
        with pytest.raises(UnknownStateError):
            await reader.read(1, 1)


async def test_silent_replica_causes_a_short_delay_and_is_read_later_next_time() -> None:
    world = World()
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 10)
        await writer.close()
        in_region(world, "c").is_hung = True
        reader = await other.open(writer.ledger_id)
        started = loop.time()
        assert len(await reader.read(0, 9)) == 10
        assert 0.5 < loop.time() - started < 0.52
        started = loop.time()
        assert len(await reader.read(0, 9)) == 10
        assert loop.time() - started < 0.02


async def test_b24_reader_reads_the_metadata_again_when_all_replicas_fail() -> None:
    """All bookies of a closed ledger were decommissioned after their copies had been moved."""
    world = World("abcabc")
    config = LedgerConfig(request_timeout_ms=300)
    async with world.client("a") as client, world.client("c", config) as other:
        writer = await written(client, 5)
        closed = await writer.close()
        reader = await other.open(writer.ledger_id)
        old = [world.by_id[b] for b in closed.last_fragment.bookies]
        new = [b for b in world.bookies if b not in old]
        for source, target in zip(old, new, strict=True):
            target.entries.update(source.entries)
            source.go_down()
        with pytest.raises(UnavailableError):
            await reader.read(0, 4)
        world.ledgers.watches.clear()  # the hint is lost
        world.ledgers.set(closed.with_bookies_of(0, tuple(b.bookie for b in new)))
        assert [e.entry_id for e in await reader.read(0, 4)] == list(range(5))


async def test_reads_cross_fragments() -> None:
    world = World("abcabc")
    config = LedgerConfig(change_mode="eager")
    async with world.client("a", config) as client, world.client("c") as other:
        writer = await written(client, 5)
        done = Outcomes()
        for round_number in range(2):
            world.by_id[writer.metadata.last_fragment.bookies[round_number]].go_down()
            writer.add(b"%03d" % (5 + round_number), done)
            await until(lambda n=round_number + 1: len(done.acked) == n)  # type: ignore[misc]
        closed = await writer.close()
        assert [f.first_entry_id for f in closed.fragments] == [0, 5, 6]
        for bookie in world.bookies:
            bookie.come_up()
        reader = await other.open(writer.ledger_id)
        got: list[bytes] = []
        while len(got) < 7:
            got += [bytes(e.payload) for e in await reader.read(len(got), 6)]
        assert got == [b"%03d" % i for i in range(7)]


async def test_fresh_lac_is_read_from_a_quorum_and_survives_a_lost_region() -> None:
    world = World()
    config = LedgerConfig(request_timeout_ms=300)
    async with world.client("a") as client, world.client("c", config) as other:
        writer = await written(client, 5, GEO)
        reader = await other.open(writer.ledger_id)
        assert await reader.update_last_add_confirmed() == -1
        await writer.publish_lac()
        assert await reader.update_last_add_confirmed() == 4
        in_region(world, "b").is_hung = True
        started = asyncio.get_running_loop().time()
        assert await reader.update_last_add_confirmed() == 4
        assert asyncio.get_running_loop().time() - started < 0.02
        in_region(world, "a").go_down()
        with pytest.raises(UnavailableError):
            await reader.update_last_add_confirmed()
        writer.abandon()


async def test_fresh_lac_needs_more_than_one_bookie_even_if_it_is_higher() -> None:
    world = World()
    config = LedgerConfig(request_timeout_ms=300)
    async with world.client("a") as client, world.client("c", config) as other:
        writer = await written(client, 5, GEO)
        reader = await other.open(writer.ledger_id)
        await writer.publish_lac()
        in_region(world, "a").go_down()
        in_region(world, "b").is_hung = True
        with pytest.raises(UnavailableError):
            await reader.update_last_add_confirmed()
        assert await reader.update_last_add_confirmed(fresh=False) == 4
        writer.abandon()


@pytest.mark.parametrize("is_empty", [True, False], ids=["without a LAC", "unknown"])
async def test_bookie_that_cannot_tell_its_lac_does_not_count_for_a_fresh_lac(
    is_empty: bool,
) -> None:
    world = World()
    config = LedgerConfig(request_timeout_ms=300)
    async with world.client("a") as client, world.client("c", config) as other:
        writer = await written(client, 5, GEO)
        await writer.publish_lac()
        in_region(world, "a").is_hung = True
        for region in ("b", "c"):
            bookie = in_region(world, region)
            if is_empty:
                bookie.entries.clear()
                bookie.explicit_lacs.clear()
            status = v3.Status.OK if is_empty else v3.Status.UNKNOWN_STATE
            bookie.script = lambda _, status=status: status
        reader = await other.open(writer.ledger_id)
        with pytest.raises(UnavailableError):
            await reader.update_last_add_confirmed()
        writer.abandon()


async def test_first_higher_lac_is_enough_for_a_lac_of_best_effort() -> None:
    world = World()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        in_region(world, "a").is_hung = in_region(world, "b").is_hung = True
        assert await reader.update_last_add_confirmed(fresh=False) == 4
        writer.abandon()


async def test_tail_continues_when_its_bookie_is_cut_off() -> None:
    world = World()
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 2, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        assert len(await reader.wait(-1, 1_000)) == 1
        near = in_region(world, "c")
        waiting = loop.create_task(reader.wait(1, 20_000))
        await asyncio.sleep(0.1)
        near.is_hung = True
        near.parked.clear()
        done = Outcomes()
        writer.add(b"002", done)
        writer.add(b"003", done)
        await until(lambda: len(done.acked) == 2)
        await writer.publish_lac()
        started = loop.time()
        assert (await waiting)[0].entry_id == 2
        assert loop.time() - started < 1.1
        writer.abandon()


async def test_tail_follows_the_writer_to_other_bookies() -> None:
    world = World("abcabc")
    loop = asyncio.get_running_loop()
    config = LedgerConfig(change_mode="eager")
    async with world.client("a", config) as client, world.client("c") as other:
        writer = await written(client, 2)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        await reader.wait(-1, 1_000)
        waiting = loop.create_task(reader.wait(1, 20_000))
        await asyncio.sleep(0.1)
        for bookie in writer.metadata.fragments[0].bookies:
            world.by_id[bookie].go_down()
        done = Outcomes()
        writer.add(b"002", done)
        await until(lambda: len(done.acked) == 1)
        await writer.publish_lac()
        started = loop.time()
        assert [e.entry_id for e in await waiting] == [2]
        assert loop.time() - started < 1.1
        writer.abandon()


async def test_waiting_on_a_ledger_without_entries_does_not_spin() -> None:
    world = World()
    async with world.client("a") as client, world.client("c") as other:
        writer = await client.create(GEO)
        reader = await other.open(writer.ledger_id)
        for bookie in world.bookies:
            bookie.script = lambda request: v3.Status.NO_LEDGER
        assert await reader.wait(-1, 10_000) == []
        assert sum(len(b.requests) for b in world.bookies) < 3 * 40
        writer.abandon()


async def test_closing_a_reader_ends_its_waiting_calls() -> None:
    world = World()
    async with world.client("a") as client:
        writer = await client.create(GEO)
        reader = await client.open(writer.ledger_id)
        waiting = asyncio.get_running_loop().create_task(reader.wait(-1, 60_000))
        await asyncio.sleep(0.05)
        await reader.aclose()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            await reader.read(0, 0)
        writer.abandon()


async def test_deleted_ledger_raises_no_such_ledger() -> None:
    world = World()
    async with world.client("a") as client:
        writer = await written(client, 3)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        await client.delete(writer.ledger_id)
        for bookie in world.bookies:
            bookie.entries.clear()
        with pytest.raises(NoSuchLedgerError):
            await reader.read(0, 0)
        with pytest.raises(NoSuchLedgerError):
            await client.open(writer.ledger_id)


# --- bounds, waiting and hints ------------------------------------------------------------------


async def test_read_returns_at_most_the_configured_number_of_entries() -> None:
    world = World("abc", LedgerConfig(read_batch_entries_max=4))
    async with world.client("a") as client:
        writer = await written(client, 10)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        assert [e.entry_id for e in await reader.read(0, 9)] == [0, 1, 2, 3]
        assert [e.entry_id for e in await reader.read(5, 8)] == [5, 6, 7, 8]
        assert [e.entry_id for e in await reader.read(9, 9)] == [9]


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (1, 0), (0, 10), (10, 10)])
async def test_only_confirmed_entries_may_be_read(first: int, last: int) -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 10)
        await writer.close()
        reader = await client.open(writer.ledger_id)
        with pytest.raises(InvalidArgumentError, match=rf"entries {first}\.\.{last} are not"):
            await reader.read(first, last)


async def test_known_lac_only_rises_and_a_closed_ledger_has_its_own() -> None:
    world = World("abc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 10)
        reader = await other.open(writer.ledger_id)
        assert reader.last_add_confirmed == -1
        assert not reader.is_closed
        reader.learn_lac(5)
        reader.learn_lac(3)
        assert reader.last_add_confirmed == 5
        closed = await writer.close()
        await until(lambda: reader.is_closed)
        assert reader.last_add_confirmed == closed.last_entry_id == 9
        reader.learn_lac(20)
        assert reader.last_add_confirmed == 9
        assert reader.metadata == closed


async def test_start_of_the_last_fragment_tells_a_lac() -> None:
    world = World("abcabc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 5)
        stored = world.ledgers.now(writer.ledger_id)
        world.ledgers.set(stored.with_fragment(4, stored.last_fragment.bookies))
        assert (await other.open(writer.ledger_id)).last_add_confirmed == 3
        writer.abandon()


async def test_refresh_says_if_the_metadata_changed() -> None:
    world = World("abc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 3)
        reader = await other.open(writer.ledger_id)
        world.ledgers.watches.clear()
        assert await reader.refresh() is False
        world.ledgers.set(world.ledgers.now(writer.ledger_id).in_recovery())
        both = [asyncio.get_running_loop().create_task(reader.refresh()) for _ in range(2)]
        assert [await task for task in both] == [True, True]
        assert await reader.refresh() is False
        assert reader.metadata == world.ledgers.now(writer.ledger_id)
        writer.abandon()


async def test_waiting_ends_at_its_own_time_out() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 3, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        assert len(await reader.wait(-1, 1_000)) >= 1
        assert reader.last_add_confirmed == 2
        began = loop.time()
        assert await reader.wait(2, 1_500) == []
        assert loop.time() - began == pytest.approx(1.5, abs=0.001)
        began = loop.time()
        assert await reader.wait(2, 0) == []
        assert loop.time() == began
        assert [e.entry_id for e in await reader.wait(0, 0)] == [1, 2]
        writer.abandon()


async def test_entry_that_comes_with_the_lac_needs_no_read() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 1, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        await reader.wait(-1, 1_000)
        waiting = loop.create_task(reader.wait(0, 10_000))
        also = loop.create_task(reader.wait(0, 10_000))
        await asyncio.sleep(0.1)
        for bookie in world.bookies:
            bookie.requests.clear()
        done = Outcomes()
        writer.add(b"001", done)
        await until(lambda: done.acked == [1])
        await writer.publish_lac()
        assert [e.payload for e in await waiting] == [b"001"]
        assert [e.payload for e in await also] == [b"001"]
        requests = [r for b in world.bookies for r in b.requests]
        assert not any(isinstance(r, v2.ReadRequest | v2.BatchReadRequest) for r in requests)
        writer.abandon()


def parked_polls(world: World) -> list[int]:
    """The LAC above which each parked poll waits."""
    return [request.read_request.previous_lac for b in world.bookies for _, request in b.parked]


async def test_next_poll_waits_at_a_bookie_while_the_caller_takes_the_entries() -> None:
    """Else a caller that keeps up would wait for two round trips for each entry."""
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 1, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        await reader.wait(-1, 1_000)
        waiting = loop.create_task(reader.wait(0, 10_000))
        await asyncio.sleep(0.1)
        done = Outcomes()
        writer.add(b"001", done)
        await until(lambda: done.acked == [1])
        await writer.publish_lac()
        assert [e.entry_id for e in await waiting] == [1]
        await asyncio.sleep(0.1)
        assert parked_polls(world) == [1]
        for bookie in world.bookies:
            bookie.requests.clear()
        writer.add(b"002", done)
        await until(lambda: done.acked == [1, 2])
        await writer.publish_lac()
        await until(lambda: reader.last_add_confirmed == 2)
        assert [e.payload for e in await reader.read(2, 2)] == [b"002"]
        requests = [r for b in world.bookies for r in b.requests]
        assert not any(isinstance(r, v2.ReadRequest | v2.BatchReadRequest) for r in requests)
        writer.abandon()


async def test_no_poll_waits_for_a_caller_that_does_not_keep_up() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 1, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        waiting = loop.create_task(reader.wait(0, 10_000))
        done = Outcomes()
        for count in range(1, 6):
            writer.add(b"later", done)
            await until(lambda wanted=count: len(done.acked) == wanted)  # type: ignore[misc]
            await writer.publish_lac()
            await asyncio.sleep(0.1)
        assert [e.entry_id for e in await waiting] == [1]
        assert parked_polls(world) == []
        assert reader.last_add_confirmed < 5
        assert [e.entry_id for e in await reader.wait(1, 1_000)] == [2]
        assert [e.entry_id for e in await reader.wait(4, 1_000)] == [5]
        writer.abandon()


async def test_abandoned_reader_sends_no_further_poll() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 1, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        await reader.wait(-1, 1_000)
        waiting = loop.create_task(reader.wait(0, 10_000))
        await asyncio.sleep(0.1)
        await reader.aclose()
        with pytest.raises(ClosedError):
            await waiting
        done = Outcomes()
        writer.add(b"001", done)
        await until(lambda: done.acked == [1])
        await writer.publish_lac()
        await asyncio.sleep(0.1)
        assert parked_polls(world) == []
        writer.abandon()


async def test_change_that_is_noticed_ends_a_wait() -> None:
    """The metadata store tells of the close; the bookies do not."""
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 2, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        await reader.wait(-1, 1_000)
        waiting = loop.create_task(reader.wait(1, 60_000))
        await asyncio.sleep(0.1)
        began = loop.time()
        await writer.close()
        assert await waiting == []
        assert loop.time() - began < 0.05


async def test_early_end_of_a_poll_leads_to_the_closed_metadata_without_a_watch() -> None:
    world = World("abc")
    loop = asyncio.get_running_loop()
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 2, GEO)
        await writer.publish_lac()
        reader = await other.open(writer.ledger_id)
        await reader.wait(-1, 1_000)
        world.ledgers.watches.clear()
        for bookie in world.bookies:
            bookie.script = lambda _: v3.Status.NO_ENTRY
        await writer.close()
        began = loop.time()
        assert await reader.wait(1, 60_000) == []
        assert loop.time() - began < 0.2
        assert reader.is_closed


async def test_hint_is_followed_once_the_store_responds_again() -> None:
    config = LedgerConfig(metadata_timeout_ms=2_000, backoff_ms_min=10, backoff_ms_max=100)
    world = World("abc")
    async with world.client("a") as client, world.client("c", config) as other:
        writer = await written(client, 2)
        reader = await other.open(writer.ledger_id)
        stored = world.ledgers.now(writer.ledger_id)
        world.ledgers.set(stored.in_recovery())
        world.ledgers.is_away = True
        await asyncio.sleep(1)
        assert reader.metadata == stored
        world.ledgers.is_away = False
        await asyncio.sleep(0.2)
        assert reader.metadata == stored.in_recovery()
        world.ledgers.is_away = True
        world.ledgers.set(stored)
        await asyncio.sleep(3)
        world.ledgers.is_away = False
        await asyncio.sleep(1)
        assert reader.metadata == stored.in_recovery(), "it gave up: the next hint tries again"
        reader.hint()
        await asyncio.sleep(0.1)
        assert reader.metadata == stored
        writer.abandon()


async def test_fresh_lac_of_a_closed_ledger_asks_nobody() -> None:
    world = World("abc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 3)
        await writer.close()
        reader = await other.open(writer.ledger_id)
        for bookie in world.bookies:
            bookie.requests.clear()
        world.ledgers.is_away = True
        assert await reader.update_last_add_confirmed() == 2
        assert all(bookie.requests == [] for bookie in world.bookies)


async def test_fresh_lac_follows_the_metadata() -> None:
    world = World("abc")
    async with world.client("a") as client, world.client("c") as other:
        writer = await written(client, 3)
        reader = await other.open(writer.ledger_id)
        world.ledgers.watches.clear()
        await writer.close()
        assert await reader.update_last_add_confirmed() == 2
        assert reader.is_closed


async def test_closed_reader_refuses_every_call() -> None:
    world = World("abc")
    async with world.client("a") as client:
        writer = await written(client, 3)
        reader = await client.open(writer.ledger_id)
        assert client.statistics()["open_handles"] == 2
        await reader.aclose()
        await reader.aclose()
        assert client.statistics()["open_handles"] == 1
        for call in (
            reader.read(0, 0),
            reader.wait(5, 100),
            reader.update_last_add_confirmed(),
            reader.update_last_add_confirmed(fresh=False),
        ):
            with pytest.raises(ClosedError):
                await call
        world.ledgers.set(world.ledgers.now(writer.ledger_id).in_recovery())
        await asyncio.sleep(1)
        assert reader.metadata == writer.metadata
        writer.abandon()
