"""The shared state of a client: regions, candidates, bookies to avoid, and pauses."""

import asyncio

import pytest

from rhumbline.core.ledger.client import LedgerClient
from rhumbline.core.ledger.config import LedgerConfig
from rhumbline.core.ledger.context import LedgerContext
from rhumbline.core.protocol.ledger_metadata import REGIONS_KEY
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.tests.unit.core.ledger.world import World, run_in_world

pytestmark = pytest.mark.run_by(runner=run_in_world)

GEO = Quorum(3, 3, 2, 2)


def context_of(client: LedgerClient) -> LedgerContext:
    return client._context


async def test_view_has_the_regions_of_the_fragment_in_its_order() -> None:
    world = World("abc")
    async with world.client() as client:
        writer = await client.create(GEO)
        fragment = writer.metadata.last_fragment
        regions = [world.by_id[bookie].region for bookie in fragment.bookies]
        context = context_of(client)
        assert await context.regions_of(fragment.bookies) == regions
        view = await context.view_of(fragment, GEO)
        assert (view.quorum, list(view.regions)) == (GEO, regions)


async def test_candidates_lie_in_the_regions_that_the_ledger_allows() -> None:
    world = World("abcabc")
    async with world.client() as client:
        free = await client.create(GEO)
        bound = await client.create(Quorum(2, 2, 2, 2), custom={REGIONS_KEY: b"b,c"})
        context = context_of(client)
        assert len(await context.candidates(free.metadata)) == 6
        assert {info.region for info in await context.candidates(bound.metadata)} == {"b", "c"}


async def test_healthy_candidates_did_not_fail_lately() -> None:
    world = World("abc", LedgerConfig(failure_memory_ms=1_000))
    async with world.client() as client:
        context = context_of(client)
        everyone = await world.directory.snapshot()
        assert context.healthy(everyone) == everyone
        context.pool.on_failure(everyone[1].bookie)
        assert context.healthy(everyone) == [everyone[0], everyone[2]]
        await asyncio.sleep(1.1)
        assert context.healthy(everyone) == everyone


async def test_pauses_follow_the_settings_and_end_at_the_deadline() -> None:
    world = World("abc", LedgerConfig(backoff_ms_min=100, backoff_ms_max=400))
    async with world.client() as client:
        endless = context_of(client).backoff()
        pauses_ms = [endless.next_s() * 1000 for _ in range(12)]
        assert 50 <= pauses_ms[0] <= 150
        assert 100 <= pauses_ms[1] <= 300
        assert all(200 <= pause <= 600 for pause in pauses_ms[2:])
        limited = context_of(client).backoff(2_000)
        await asyncio.sleep(1.9)
        assert not limited.is_over
        await asyncio.sleep(0.2)
        assert limited.is_over
        await asyncio.sleep(3600)
        assert not endless.is_over
