"""Processes register the levels that they know, and bookies do so before they serve."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS, FeatureRecord
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import FeatureLevelError, MetadataUnavailableError
from rhumbline.server.upgrade.process_versions import list_process_versions, nodes_of_bookie
from rhumbline.server.upgrade.registered_process import (
    ADMISSION_S_MAX,
    admitted_bookie,
    registered_process,
)
from rhumbline.tests.support.fakes.log_world import LogWorld
from rhumbline.tests.support.fakes.recorded_log import recorded_log

NODES = nodes_of_bookie(BookieId("b1@1"))


async def test_a_process_is_listed_while_it_runs(world: LogWorld) -> None:
    store, stopped = MemoryStore(), asyncio.Event()
    async with registered_process(store, world.runtime, NODES, stopped.set):
        await asyncio.sleep(1)
        assert len(await list_process_versions(store)) == 1
    assert await list_process_versions(store) == []
    assert not stopped.is_set()


async def test_a_process_that_does_not_know_the_level_stops(world: LogWorld) -> None:
    store, stopped = MemoryStore(), asyncio.Event()
    raising = FeatureRecord(1, KNOWN_LEVELS.newest + 1)
    await store.create(Paths().feature_level, raising.encode())
    with recorded_log("rhumbline.server.upgrade.registered_process") as log:
        async with registered_process(store, world.runtime, NODES, stopped.set):
            await asyncio.sleep(1)
            assert stopped.is_set()
    [fields] = log.fields("feature level not supported")
    assert "is being raised to feature level" in fields["error"]


async def test_a_bookie_begins_to_serve_after_it_has_registered_its_levels(world: LogWorld) -> None:
    """Otherwise its killed predecessor, which knew more, would count for it (upgrades/62000008)."""
    store = MemoryStore()
    async with admitted_bookie(store, world.runtime, BookieId("b1@1"), stopped_never):
        [listed] = await list_process_versions(store)
        assert listed.levels == KNOWN_LEVELS


async def test_a_bookie_that_does_not_know_the_level_does_not_begin_to_serve(
    world: LogWorld,
) -> None:
    store, stopped = MemoryStore(), asyncio.Event()
    raising = FeatureRecord(1, KNOWN_LEVELS.newest + 1)
    await store.create(Paths().feature_level, raising.encode())
    with pytest.raises(FeatureLevelError, match="is being raised to feature level"):
        async with admitted_bookie(store, world.runtime, BookieId("b1@1"), stopped.set):
            raise AssertionError("it began")
    assert stopped.is_set()
    assert await list_process_versions(store) == []


async def test_a_bookie_that_cannot_register_its_levels_does_not_begin_to_serve(
    world: LogWorld,
) -> None:
    store, began = MemoryStore(), asyncio.get_running_loop().time()
    store.disconnect()
    with pytest.raises(MetadataUnavailableError, match="bookie b1@1 could not register"):
        async with admitted_bookie(store, world.runtime, BookieId("b1@1"), stopped_never):
            raise AssertionError("it began")
    assert asyncio.get_running_loop().time() - began == ADMISSION_S_MAX


def stopped_never() -> None:
    raise AssertionError("it was stopped")
