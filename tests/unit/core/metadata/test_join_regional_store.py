"""Regional stores get numbers that are never shared, whatever was interrupted (rule LED-27)."""

from random import Random

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.cluster_layout import (
    Paths,
    initialise_cluster,
    initialise_store,
    instance_id,
)
from rhumbline.core.metadata.join_regional_store import join_regional_store
from rhumbline.core.metadata.ledger_ids import id_range_of, store_number_of
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.metadata.regional_store import RegionalStore
from rhumbline.core.metadata.regional_store_records import (
    open_regional_store,
    read_regional_stores,
)
from rhumbline.core.protocol.bookie_id import BookieId, Region
from rhumbline.core.protocol.errors import (
    MetadataError,
    MetadataUnavailableError,
    WrongClusterError,
)
from rhumbline.core.protocol.ledger_metadata import Fragment, LedgerMetadata
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.ledger_numbers import create
from rhumbline.tests.support.fakes.lossy_store import (
    LOST_REPLY,
    LOST_REQUEST,
    OK,
    UNAVAILABLE,
    LossyStore,
)
from rhumbline.tests.unit.core.bookie.bookie_world import FixedClock

RUNTIME = Runtime(FixedClock(), Random(3))


async def cluster(seed: int = 1) -> MemoryStore:
    store = MemoryStore()
    await initialise_cluster(store, Random(seed))
    return store


async def join(store: MetadataStore, regional: MetadataStore, region: str) -> int:
    return (await join_regional_store(store, regional, region, RUNTIME)).number


async def test_each_region_gets_a_number_and_keeps_it() -> None:
    store, east, west = await cluster(), MemoryStore(), MemoryStore()
    assert await join(store, east, "east") == 1
    assert await join(store, west, "west") == 2
    assert await join(store, east, "east") == 1, "repeated"
    assert await instance_id(east) == await instance_id(west) == await instance_id(store)
    found = await read_regional_stores(store)
    assert {region: record.number for region, record in found.items()} == {"east": 1, "west": 2}
    assert await open_regional_store(east, "east") == found[Region("east")]
    assert await LedgerStore(store).regional_numbers() == {1: "east", 2: "west"}


async def test_a_store_keeps_its_number_when_the_global_one_was_rebuilt() -> None:
    """It got the lowest free number, which was not that of its ledgers."""
    store, east, west, rebuilt = await cluster(), MemoryStore(), MemoryStore(), MemoryStore()
    await join(store, east, "east")
    await join(store, west, "west")
    await initialise_store(rebuilt, await instance_id(store))
    assert await join(rebuilt, west, "west") == 2
    assert await join(rebuilt, MemoryStore(), "north") == 3
    assert await join(rebuilt, east, "east") == 1


async def test_generated_ids_belong_to_the_store() -> None:
    store, east = await cluster(), MemoryStore()
    await join(store, east, "east")
    opened = await RegionalStore.open(east, Region("east"))
    ids = [(await opened.ledgers.new_number()).ledger_id for _ in range(3)]
    assert ids == [1 << 48, (1 << 48) + 1, (1 << 48) + 2]
    assert store_number_of((await LedgerStore(store).new_number()).ledger_id) == 0
    opened.close()


async def test_a_store_is_not_given_to_two_regions_or_a_region_to_two_stores() -> None:
    store, east = await cluster(), MemoryStore()
    await join(store, east, "east")
    with pytest.raises(WrongClusterError, match="is the store of region east"):
        await join(store, east, "west")
    with pytest.raises(WrongClusterError, match="has another metadata store already, with numb"):
        await join(store, MemoryStore(), "east")
    with pytest.raises(WrongClusterError, match="is a regional store, not the cluster's global"):
        await join(east, MemoryStore(), "west")
    with pytest.raises(WrongClusterError, match="is the global store of a cluster"):
        await join(store, await cluster(), "west")
    other = await cluster(2)
    with pytest.raises(WrongClusterError, match="belongs to another cluster than"):
        await join(other, east, "east")
    assert await read_regional_stores(other) == {}


async def test_an_incomplete_store_is_not_opened() -> None:
    store, east = await cluster(), MemoryStore()
    with pytest.raises(WrongClusterError, match="join it to the cluster"):
        await open_regional_store(east, "east")
    lossy = LossyStore(store)
    lossy.outcomes = [UNAVAILABLE]
    with pytest.raises(MetadataUnavailableError):
        await join(lossy, east, "east")
    with pytest.raises(WrongClusterError, match="repeat `rhumbline cluster join-store`"):
        await open_regional_store(east, "east")
    await join(store, east, "east")
    with pytest.raises(WrongClusterError, match="of region east, not of west"):
        await open_regional_store(east, "west")


@pytest.mark.parametrize("is_regional", [False, True])
@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST, UNAVAILABLE])
@pytest.mark.parametrize("failed_write", range(10))
async def test_an_interrupted_attempt_can_be_repeated(
    failed_write: int, outcome: str, *, is_regional: bool
) -> None:
    store, east, west = await cluster(), MemoryStore(), MemoryStore()
    lossy = LossyStore(east if is_regional else store)
    lossy.outcomes = [OK] * failed_write + [outcome] * 4
    try:
        if is_regional:
            await join(store, lossy, "east")
        else:
            await join(lossy, east, "east")
    except MetadataError:
        await join(store, west, "west")
    number = await join(store, east, "east")
    others = {await join(store, west, "west")}
    assert number not in others
    assert (await open_regional_store(east, "east")).number == number
    assert await east.children(Paths().long_ids) == [f"HOB-{number << 16:010d}"]


async def test_a_range_with_ledgers_of_the_global_store_is_skipped() -> None:
    """A client of BookKeeper may choose ids itself."""
    store = await cluster()
    bookies = (BookieId("b@00000000"),)
    chosen = id_range_of(1).start + 7
    await create(store, LedgerMetadata(chosen, 1, 1, 1, (Fragment(0, bookies),), creation_token=1))
    assert await join(store, MemoryStore(), "east") == 2


async def test_an_address_that_leads_to_another_store_is_noticed() -> None:
    store, east, west = await cluster(), MemoryStore(), MemoryStore()
    await join(store, east, "east")
    await join(store, west, "west")
    opened = await RegionalStore.open(east, Region("east"))
    assert await opened.instance_id() == await instance_id(store)
    moved = RegionalStore(opened.record, opened.ledgers, opened.directory, west)
    with pytest.raises(WrongClusterError, match="of region west, not of east"):
        await moved.instance_id()
    other = await cluster()
    another_east = MemoryStore()
    await join(other, another_east, "east")
    moved = RegionalStore(opened.record, opened.ledgers, opened.directory, another_east)
    with pytest.raises(WrongClusterError, match="is another store of region east now"):
        await moved.instance_id()
    opened.close()
