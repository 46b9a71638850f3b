"""Tests of the round trip to one bookie."""

import asyncio

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_pool import BookiePool
from rhumbline.core.ledger.connection.round_trip import measure_round_trip_ms
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.errors import BookieUnavailableError
from rhumbline.tests.unit.core.ledger.world import DELAY_S, World, run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)


async def test_shortest_of_three_requests_counts_without_connecting_and_disk() -> None:
    world = World("a")
    pool = BookiePool(world.runtime, world.directory, config=LedgerConfig(), region=Region("a"))
    bookie = world.bookies[0]
    bookie.delay_s = 1.0  # of adds
    bookie.path_delay_s = 0.05
    asyncio.get_running_loop().call_later(0.12, setattr, bookie, "path_delay_s", 0.0)
    took_ms = await measure_round_trip_ms(pool, bookie.bookie)
    assert took_ms == pytest.approx(2 * DELAY_S * 1000)
    bookie.path_delay_s = 0.05
    assert await measure_round_trip_ms(pool, bookie.bookie) == pytest.approx(
        50 + 2 * DELAY_S * 1000
    )
    assert len(bookie.requests) == 6
    bookie.go_down()
    with pytest.raises(BookieUnavailableError):
        await measure_round_trip_ms(pool, bookie.bookie)
    await pool.aclose()
