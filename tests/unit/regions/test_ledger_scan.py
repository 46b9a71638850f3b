"""A scan of all ledgers reads many at a time, from a store that is far away."""

import asyncio
from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.metadata.bookie_directory import BookieDirectory
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.protocol.bookie_id import BookieId, Region, check_bookie_id
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata, LedgerState
from rhumbline.core.runtime.metadata_store import Value
from rhumbline.core.wire.registration import Registration
from rhumbline.regions.durability.cluster_survey import read_cluster, read_index
from rhumbline.regions.durability.judgement import CopyVerdict
from rhumbline.regions.durability.report import tally
from rhumbline.regions.ledger_scan import AT_ONCE, all_ledgers
from rhumbline.regions.steered_directory import SteeredDirectory
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.ledger_numbers import create

pytestmark = pytest.mark.run_by(runner=run_jumping)

COUNT = 2_500
ROUND_TRIP_S = 0.02
BOOKIES = tuple(check_bookie_id(f"{region}@0000000{n}") for n, region in enumerate("abc"))


class FarStore(MemoryStore):
    """Each read takes a round trip."""

    reads = 0
    at_once = 0
    at_once_max = 0

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        self.reads += 1
        self.at_once += 1
        self.at_once_max = max(self.at_once_max, self.at_once)
        await asyncio.sleep(ROUND_TRIP_S)
        self.at_once -= 1
        return await super().get(path, stale_ok=stale_ok)


async def fill(store: MemoryStore) -> None:
    await initialise_cluster(store, Random(1))
    directory = BookieDirectory(store)
    for bookie in BOOKIES:
        await directory.record_region(bookie, Region(bookie[0]))
    for ledger_id in range(COUNT):
        await create(
            store,
            LedgerMetadata(
                ledger_id, 3, 3, 2, (Fragment(0, BOOKIES),), creation_token=1,
                state=LedgerState.CLOSED, last_entry_id=9, length=100,
            ).with_r(0, 2),
        )  # fmt: skip
    directory.close()


async def test_one_scan_serves_all_losses_and_reads_concurrently() -> None:
    tree = MemoryTree()
    near = MemoryStore(tree)
    await fill(near)
    session = await near.session(1_000_000)
    registering = BookieDirectory(near)
    for bookie in BOOKIES:
        await registering.register(session, Registration(bookie, "host", 1))
    store = FarStore(tree)
    directory = SteeredDirectory(store)
    loop = asyncio.get_running_loop()
    began = loop.time()
    index = await read_index(LedgerStore(store))
    cluster = await read_cluster(directory, index.bookies())
    assert loop.time() - began < 2 * COUNT * ROUND_TRIP_S / AT_ONCE
    assert store.reads < COUNT + 20, "each ledger once, and the bookies"
    assert store.at_once_max == AT_ONCE
    losses: list[tuple[BookieId, ...]] = [BOOKIES[:1], BOOKIES[1:2], BOOKIES[:2]]
    found = [tally(index, cluster.without(lost)) for lost in losses]
    assert [report.ledgers_with(CopyVerdict) for report in found] == [COUNT] * 3
    assert [report.entries_that_may_be_lost() for report in found] == [0, 0, 10 * COUNT]
    directory.close()


async def test_ledgers_come_in_order_without_those_deleted_meanwhile() -> None:
    tree = MemoryTree()
    near = MemoryStore(tree)
    await fill(near)
    seen: list[int] = []
    async for metadata, _ in all_ledgers(LedgerStore(FarStore(tree))):
        if not seen:
            await LedgerStore(near).delete(AT_ONCE + 1)
        seen.append(metadata.ledger_id)
    assert seen == [id_ for id_ in range(COUNT) if id_ != AT_ONCE + 1]


async def test_damaged_metadata_is_counted_and_does_not_stop_the_scan() -> None:
    store = MemoryStore(MemoryTree())
    await fill(store)
    await store.put(Paths().ledger(5), b"not a ledger's metadata")
    index = await read_index(LedgerStore(store))
    assert (len(index), index.unreadable) == (COUNT - 1, 1)
    with pytest.raises(CorruptionError, match="ledger 5"):
        async for _ in all_ledgers(LedgerStore(store)):
            pass
