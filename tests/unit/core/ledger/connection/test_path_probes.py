"""A probe records whether a bookie responds, and ends in time."""

import asyncio

import pytest

from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.connection.bookie_pool import BookiePool
from rhumbline.core.ledger.connection.path_probes import probe_paths
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.tests.unit.core.ledger.world import World, run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)


async def test_probes_run_at_once_and_record_who_responds() -> None:
    world = World("aabb")
    pool = BookiePool(world.runtime, world.directory, config=LedgerConfig(), region=Region("a"))
    ids = [bookie.bookie for bookie in world.bookies]
    world.bookies[1].is_down = True
    await asyncio.sleep(1)
    began = world.loop.time()
    await probe_paths(pool, ids[:3], 500)
    assert world.loop.time() - began < 0.5
    known = pool.known_paths()
    assert list(known.failed_at) == [ids[1]]
    assert set(known.proved_at) == {ids[0], ids[2]}
    assert list(known.lost_at) == [ids[1]]
    world.bookies[1].is_down = False
    await asyncio.sleep(5)
    await probe_paths(pool, ids[1:2], 500)
    known = pool.known_paths()
    assert (list(known.failed_at), list(known.lost_at)) == ([], []), "it is used again at once"
    assert known.proved_at[ids[1]] > 5
    await pool.aclose()


async def test_a_failed_bookie_is_asked_before_it_is_used_again() -> None:
    world = World("ab")
    pool = BookiePool(world.runtime, world.directory, config=LedgerConfig(), region=Region("a"))
    a, b = (bookie.bookie for bookie in world.bookies)
    pool.on_failure(b)
    await probe_paths(pool, [a, b], 500)
    known = pool.known_paths()
    assert (list(known.failed_at), known.lapsed) == ([b], set()), "a probe does no I/O"
    await asyncio.sleep(31)
    known = pool.known_paths()
    assert (known.failed_at, known.lapsed) == ({}, {b})
    world.bookies[1].is_down = True
    await asyncio.sleep(1)
    await probe_paths(pool, [b], 500)
    known = pool.known_paths()
    assert (list(known.failed_at), known.lapsed) == ([b], set())
    world.bookies[1].is_down = False
    await asyncio.sleep(31)
    assert pool.known_paths().lapsed == {b}
    await probe_paths(pool, [b], 500)
    known = pool.known_paths()
    assert (known.failed_at, known.lapsed) == ({}, set())
    await pool.aclose()


async def test_a_process_that_remembers_no_failures_knows_nothing() -> None:
    world = World("ab")
    config = LedgerConfig(failure_memory_ms=0)
    pool = BookiePool(world.runtime, world.directory, config=config, region=Region("a"))
    pool.on_failure(world.bookies[0].bookie)
    known = pool.known_paths()
    assert (known.failed_at, known.lost_at, known.proved_at) == ({}, {}, {})
    await pool.aclose()
