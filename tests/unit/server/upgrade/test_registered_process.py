import asyncio

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.feature_levels import KNOWN_LEVELS, FeatureRecord
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.server.upgrade.process_versions import list_process_versions, nodes_of_bookie
from rhumbline.server.upgrade.registered_process import registered_process
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
