"""Tests of the shares of slow and busy bookies."""

import asyncio
from collections import Counter
from random import Random

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.measured_load import SHARE_PERCENT_MIN, MeasuredLoad, shares_percent
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.placement import BookieInfo
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.placement.region_aware import RegionAwarePlacement
from rhumbline.tests.unit.core.ledger.world import Outcomes, World, run_in_world

A, B, C, D = (BookieId(f"{name}@0000000a") for name in "abcd")
MIB = 1024 * 1024


def shares(*loads: MeasuredLoad) -> list[int]:
    return list(shares_percent(dict(zip((A, B, C, D), loads, strict=False))).values())


def test_equal_and_unknown_bookies_count_in_full() -> None:
    assert shares_percent({}) == {}
    assert shares(MeasuredLoad(None, 0, False)) == [100]
    assert shares(*[MeasuredLoad(2.0, 500, False)] * 3) == [100] * 3
    assert shares(MeasuredLoad(2.0, 0, False), MeasuredLoad(None, 0, False)) == [100, 100]


def test_slow_bookie_gets_less_and_never_nothing() -> None:
    fast = MeasuredLoad(0.0, 0, False)
    assert shares(fast, fast, MeasuredLoad(30.0, 0, False)) == [100, 100, 25]
    assert shares(fast, fast, MeasuredLoad(1.0, 0, False)) == [100, 100, 90]
    assert shares(fast, fast, MeasuredLoad(1e9, 0, False))[2] == SHARE_PERCENT_MIN


def test_long_queue_gets_less() -> None:
    idle = MeasuredLoad(2.0, 0, False)
    assert shares(idle, idle, MeasuredLoad(2.0, 3 * MIB, False)) == [100, 100, 25]
    assert shares(idle, idle, MeasuredLoad(30.0, MIB, False))[2] == 30  # by latency


def test_bookie_that_was_left_gets_the_least() -> None:
    assert shares(MeasuredLoad(None, 0, True), MeasuredLoad(2.0, 0, False)) == [
        SHARE_PERCENT_MIN,
        100,
    ]


def test_placement_chooses_by_free_space_and_share() -> None:
    bookies = [
        BookieInfo(A, Region("a"), None, 1000, share_percent=100),
        BookieInfo(B, Region("a"), None, 1000, share_percent=25),
        BookieInfo(C, Region("a"), None, 2000, share_percent=100),
    ]
    random = Random(1)
    placement = RegionAwarePlacement()
    found: Counter[str] = Counter()
    for _ in range(3_250):
        found[placement.new_ensemble(Quorum(1, 1, 1), bookies, random=random)[0]] += 1
    assert found[A] == pytest.approx(1_000, rel=0.1)
    assert found[B] == pytest.approx(250, rel=0.2)
    assert found[C] == pytest.approx(2_000, rel=0.1)


@pytest.mark.run_by(runner=run_in_world)
async def test_new_ensembles_avoid_the_bookie_that_is_slow_now() -> None:
    world = World("aaabbb", LedgerConfig(slow_after_ms=3_600_000))
    async with world.client() as client:
        writers = [await client.create(Quorum(3, 3, 2, 2)) for _ in range(8)]
        slow = world.by_id[writers[0].replicas[0].bookie]
        done = Outcomes()
        for number in range(30):
            if number == 3:
                slow.delay_s = 0.5
            for writer in writers:
                writer.add(b"x", done)
            await asyncio.sleep(0.2)
        chosen = [await client.create(Quorum(3, 3, 2, 2)) for _ in range(60)]
        count = sum(slow.bookie in writer.metadata.bookies() for writer in chosen)
        assert count < 10  # of 30 by free space alone
        await asyncio.sleep(2)
        for writer in [*writers, *chosen]:
            await writer.close()


def test_least_share_is_a_sixteenth_and_a_queue_of_a_mebibyte_halves_it() -> None:
    idle = MeasuredLoad(2.0, 0, False)
    assert shares(idle, idle, MeasuredLoad(2.0, 0, True))[2] == 6
    assert shares(idle, idle, MeasuredLoad(2.0, MIB, False))[2] == 50
    assert shares(idle, idle, MeasuredLoad(2.0, MIB + 1, False))[2] == 49


@pytest.mark.run_by(runner=run_in_world)
async def test_load_is_known_of_the_bookies_to_which_there_are_links() -> None:
    world = World("ab")
    async with world.client() as client:
        unknown, known = await world.directory.snapshot()
        pool = client._context.pool
        pool.link(known.bookie)
        assert pool.loads([unknown, known], 0.0) == {known.bookie: MeasuredLoad(None, 0, False)}
