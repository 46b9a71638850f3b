"""A store with a hold keeps garbage until an operator releases it."""

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.metadata.cluster_layout import Paths
from rhumbline.core.metadata.holds.garbage_hold import GarbageHold, read_hold, release_hold
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.wire.v2 import Code
from rhumbline.tests.unit.core.bookie.bookie_world import entry, one_bookie
from rhumbline.tests.unit.core.bookie.small_files import SMALL


async def test_holds_are_read_and_released() -> None:
    store = MemoryStore(MemoryTree())
    ledgers = LedgerStore(store)
    assert not await ledgers.is_garbage_held()
    hold = GarbageHold("rebuild", 5)
    await store.create(Paths().garbage_hold, hold.encode())
    assert await ledgers.is_garbage_held()
    assert await read_hold(store) == hold
    await release_hold(store)
    await release_hold(store)
    assert await read_hold(store) is None
    with pytest.raises(CorruptionError):
        GarbageHold.decode(b"{}")


async def test_a_bookie_deletes_nothing_during_a_hold() -> None:
    async with one_bookie(SMALL) as (world, bookie, wire):
        assert await wire.add(entry(1, 0)) == Code.OK
        await world.ledgers.delete(1)
        await world.store.create(Paths().garbage_hold, GarbageHold("restore", 5).encode())
        await bookie.maintenance.step()
        assert bookie.collector.held_back_count == 1
        assert await wire.read(1, 0) == (Code.OK, entry(1, 0))
        await release_hold(world.store)
        await bookie.maintenance.step()
        assert await wire.read(1, 0) == (Code.NO_LEDGER, b"")
