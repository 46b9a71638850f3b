"""Tests of writers with slow bookies: who is left, who is not, and how often (rule LED-25)."""

import asyncio
from itertools import pairwise

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.write.ledger_writer import LedgerWriter
from rhumbline.core.protocol.errors import IndeterminateError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.unit.core.ledger.world import (
    FakeBookie,
    MetadataAwayError,
    Outcomes,
    World,
    run_in_world,
)

pytestmark = pytest.mark.run_by(runner=run_in_world)

ALL = Quorum(3, 3, 3, 2)
"""Each entry waits for each bookie."""


def members(world: World, writer: LedgerWriter) -> list[FakeBookie]:
    return [world.by_id[bookie] for bookie in writer.metadata.last_fragment.bookies]


async def write_for(writer: LedgerWriter, done: Outcomes, seconds: float) -> None:
    """Adds ten entries a second."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    while loop.time() < until:
        writer.add(b"x", done)
        await asyncio.sleep(0.1)


async def test_slow_bookie_is_left_for_another_one_of_its_region() -> None:
    world = World("aabbcc")
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 2)
        slow = members(world, writer)[1]
        others = [b for b in members(world, writer) if b is not slow]
        slow.delay_s = 0.05
        await write_for(writer, done, 8)
        assert slow in members(world, writer)
        with recorded_log("rhumbline.core.ledger.write") as log:
            await write_for(writer, done, 6)
        now = members(world, writer)
        assert slow not in now
        assert sorted(log.events()) == ["ensemble changed", "slow bookie left"]
        [left], [changed] = log.fields("slow bookie left"), log.fields("ensemble changed")
        assert (left["ledger"], left["bookie"]) == (writer.ledger_id, slow.bookie)
        assert left["latency_ms"] > 10 * left["median_ms"]
        assert (changed["removed"], changed["added"]) == ((slow.bookie,), (now[1].bookie,))
        assert [b for b in now if b in others] == others
        assert now[1].region == slow.region
        assert [d.bookie for d in world.slow_departures] == [slow.bookie]
        assert client.statistics()["slow_departures"] == 1
        await asyncio.sleep(1)
        await writer.close()
        assert done.acked == list(range(writer.last_add_confirmed + 1))
        assert done.failed == []
        assert world.holes == []  # what the slow bookie had not stored yet arrived


async def test_without_the_policy_the_writer_stays() -> None:
    world = World("aabbcc", LedgerConfig(slow_after_ms=0))
    async with world.client() as client:
        writer = await client.create(ALL)
        slow = members(world, writer)[1]
        slow.delay_s = 0.05
        await write_for(writer, Outcomes(), 60)
        assert slow in members(world, writer)
        await writer.close()


async def test_distance_is_not_slowness() -> None:
    world = World("aabbcc")
    for bookie in world.bookies:
        bookie.path_delay_s = {"a": 0.0, "b": 0.02, "c": 0.3}[str(bookie.region)]
    async with world.client() as client:
        writer = await client.create(ALL)
        await write_for(writer, Outcomes(), 60)
        assert world.slow_departures == []
        await asyncio.sleep(1)
        await writer.close()


async def test_a_path_that_becomes_slow_does_not_change_the_ensemble() -> None:
    world = World("aabbcc")
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 5)
        for bookie in world.bookies:
            bookie.path_delay_s = 0.2 if str(bookie.region) == "b" else 0.0
        await write_for(writer, done, 100)
        assert world.slow_departures == []
        assert len(writer.metadata.fragments) == 1
        await asyncio.sleep(1)
        await writer.close()


async def test_slow_bookie_stays_if_only_a_weaker_ensemble_is_left() -> None:
    world = World("aabc")  # without the bookie of region c, the loss of one region would stop it
    async with world.client() as client:
        writer = await client.create(Quorum(3, 3, 2, 2))
        slow = next(b for b in world.bookies if str(b.region) == "c")
        slow.delay_s = 0.05
        assert slow in members(world, writer)
        await write_for(writer, Outcomes(), 60)
        assert slow in members(world, writer)
        await asyncio.sleep(1)
        await writer.close()


async def test_slow_bookies_are_left_one_after_the_other_and_never_taken_back() -> None:
    world = World("aaaabbbbcccc", LedgerConfig(slow_hold_ms=20_000))
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 2)
        for bookie in world.bookies:
            if str(bookie.region) == "b":
                bookie.delay_s = 0.05  # the whole region, each bookie as slow as the others
        await write_for(writer, done, 100)
        times = [departure.at for departure in world.slow_departures]
        assert 1 <= len(times) <= 3
        left = [departure.bookie for departure in world.slow_departures]
        assert len(set(left)) == len(left)
        gaps = [b - a for a, b in pairwise(times)]
        assert all(gap >= 20 * 2**number for number, gap in enumerate(gaps))
        await asyncio.sleep(1)
        await writer.close()
        assert done.failed == []


async def test_failed_bookie_is_replaced_first() -> None:
    world = World("aabbcc", LedgerConfig(slow_after_ms=2_000))
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 2)
        slow, lost = members(world, writer)[1:]
        slow.delay_s = 0.05
        await write_for(writer, done, 1)
        lost.go_down()
        await write_for(writer, done, 10)
        now = members(world, writer)
        assert lost not in now
        assert slow not in now
        assert len(writer.metadata.fragments) == 3
        await asyncio.sleep(1)
        await writer.close()
        assert done.failed == []


async def test_metadata_outage_does_not_stop_a_writer_that_wants_to_leave() -> None:
    world = World("aabbcc", LedgerConfig(slow_after_ms=2_000))
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 2)
        slow = members(world, writer)[1]
        slow.delay_s = 0.05
        world.ledgers.is_away = True
        await write_for(writer, done, 10)
        assert len(done.acked) > 100
        world.ledgers.is_away = False
        world.ledgers.fail_next("write", MetadataAwayError("no"))
        await write_for(writer, done, 10)
        assert slow not in members(world, writer)
        await asyncio.sleep(1)
        await writer.close()
        assert done.failed == []


async def test_leaving_slow_bookies_never_uses_up_the_fragments() -> None:
    config = LedgerConfig(slow_after_ms=1_000, slow_hold_ms=1, fragments_max=4)
    world = World("aaaaaabbbbbbcccccc", config)
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 2)
        for _ in range(8):
            members(world, writer)[1].delay_s = 0.05
            await write_for(writer, done, 10)
        assert writer.failure is None
        assert len(writer.metadata.fragments) == 2
        await asyncio.sleep(1)
        await writer.close()


async def test_departure_whose_reply_was_lost_is_reported_with_both_ensembles() -> None:
    world = World("aabbcc", LedgerConfig(slow_after_ms=2_000))
    async with world.client() as client:
        writer = await client.create(ALL)
        done = Outcomes()
        await write_for(writer, done, 2)
        before = writer.metadata.last_fragment.bookies
        slow = members(world, writer)[1]
        slow.delay_s = 0.05
        world.ledgers.fail_next("write", IndeterminateError("no reply"), is_done=True)
        await write_for(writer, done, 10)
        [departure] = world.slow_departures
        assert departure.before == before
        assert departure.after == writer.metadata.last_fragment.bookies != before
        slow.delay_s = 0.0
        await asyncio.sleep(1)
        await writer.close()
        assert done.failed == []


async def test_members_are_compared_once_a_second() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(ALL)
        assert writer._slow.check(5.0) == 6.0
        await writer.close()
