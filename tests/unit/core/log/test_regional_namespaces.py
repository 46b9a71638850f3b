"""A name is used once in the whole cluster, whatever is interrupted or late (rule STR-29)."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from random import Random
from typing import cast

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.log.ledger_interface import LedgerProvider
from rhumbline.core.log.metadata.paths import namespace_path
from rhumbline.core.log.namespace import Namespace, create_namespace, delete_namespace
from rhumbline.core.log.policy import StreamPolicy
from rhumbline.core.log.regional_namespaces import (
    create_regional_namespace,
    delete_regional_namespace,
    read_reservation,
)
from rhumbline.core.protocol.bookie_id import Region
from rhumbline.core.protocol.errors import (
    IndeterminateError,
    InvalidArgumentError,
    MetadataError,
    NamespaceExistsError,
    NodeExistsError,
    NoSuchNamespaceError,
)
from rhumbline.core.runtime.metadata_store import MetadataStore, Operation, Version
from rhumbline.core.runtime.runtime import Runtime
from rhumbline.tests.support.fakes.lossy_store import (
    LOST_REPLY,
    LOST_REQUEST,
    OK,
    UNAVAILABLE,
    LossyStore,
)
from rhumbline.tests.unit.core.bookie.bookie_world import FixedClock

EAST, WEST = Region("east"), Region("west")
POLICY = StreamPolicy()
LEDGERS = cast(LedgerProvider, None)
"""Nothing here reads or writes a ledger."""
RUNTIME = Runtime(FixedClock(), Random(3))


async def create(store: MetadataStore, regional: MetadataStore, region: Region = EAST) -> None:
    await create_regional_namespace(store, regional, region, RUNTIME, "logs", POLICY)


async def has(store: MemoryStore, name: str = "logs") -> bool:
    try:
        await Namespace(RUNTIME, store, LEDGERS, name).policy()
    except NoSuchNamespaceError:
        return False
    return True


async def test_a_regional_namespace_is_in_its_store_and_reserved_in_the_global_one() -> None:
    store, east = MemoryStore(), MemoryStore()
    await create(store, east)
    assert (await has(store), await has(east)) == (False, True)
    found = await read_reservation(store, "logs")
    assert found is not None and found.region == "east"
    with pytest.raises(NoSuchNamespaceError, match="is in the metadata store of region"):
        await Namespace(RUNTIME, store, LEDGERS, "logs").create_stream("s")
    with pytest.raises(NoSuchNamespaceError, match="region east"):
        await delete_namespace(store, "logs")
    await delete_regional_namespace(store, east, "logs")
    assert (await has(east), await read_reservation(store, "logs")) == (False, None)
    with pytest.raises(NoSuchNamespaceError):
        await delete_regional_namespace(store, east, "logs")
    await create(store, east)
    assert await has(east)


async def test_a_name_is_used_once_in_the_cluster() -> None:
    store, east, west = MemoryStore(), MemoryStore(), MemoryStore()
    await create(store, east)
    with pytest.raises(NamespaceExistsError):
        await create(store, east)
    with pytest.raises(NamespaceExistsError, match="in region east"):
        await create(store, west, WEST)
    with pytest.raises(NamespaceExistsError):
        await create_namespace(store, RUNTIME, "logs", POLICY)
    await create_namespace(store, RUNTIME, "orders", POLICY)
    with pytest.raises(NamespaceExistsError, match="in the global metadata store"):
        await create_regional_namespace(store, east, EAST, RUNTIME, "orders", POLICY)
    with pytest.raises(NoSuchNamespaceError):
        await delete_regional_namespace(store, east, "orders")
    assert await read_reservation(store, "orders") is None


async def test_a_namespace_with_streams_stays_reserved() -> None:
    store, east = MemoryStore(), MemoryStore()
    await create(store, east)
    await Namespace(RUNTIME, east, LEDGERS, "logs").create_stream("s")
    with pytest.raises(InvalidArgumentError, match="has streams"):
        await delete_regional_namespace(store, east, "logs")
    assert await has(east)
    assert await read_reservation(store, "logs") is not None


@pytest.mark.parametrize("is_regional", [False, True])
@pytest.mark.parametrize("outcome", [LOST_REPLY, LOST_REQUEST, UNAVAILABLE])
@pytest.mark.parametrize("failed_write", range(4))
@pytest.mark.parametrize("deletes", [False, True])
async def test_an_interrupted_step_can_be_repeated(
    failed_write: int, outcome: str, *, is_regional: bool, deletes: bool
) -> None:
    store, east = MemoryStore(), MemoryStore()
    if deletes:
        await create(store, east)
    lossy = LossyStore(east if is_regional else store)
    lossy.outcomes = [OK] * failed_write + [outcome] * 4
    first: MetadataStore = store if is_regional else lossy
    second: MetadataStore = lossy if is_regional else east
    with suppress(MetadataError):
        if deletes:
            await delete_regional_namespace(first, second, "logs")
        else:
            await create(first, second)
    if deletes:
        with suppress(NoSuchNamespaceError):
            await delete_regional_namespace(store, east, "logs")
        assert (await has(east), await read_reservation(store, "logs")) == (False, None)
        await create_namespace(store, RUNTIME, "logs", POLICY)
    else:
        with suppress(NamespaceExistsError):
            await create(store, east)
        assert await has(east)


async def test_a_late_creation_does_not_bring_the_namespace_back() -> None:
    """The request of a creation is carried out after the name was given to another namespace."""
    store, east = MemoryStore(), MemoryStore()

    class Late(LossyStore):
        async def txn(self, operations: Sequence[Operation]) -> list[Version | None]:
            held.append(operations)
            raise IndeterminateError("the test says so")

    held: list[Sequence[Operation]] = []
    creating = asyncio.ensure_future(create(store, Late(east)))
    with pytest.raises(MetadataError):
        await creating
    assert not await has(east)
    await delete_regional_namespace(store, east, "logs")
    await create_namespace(store, RUNTIME, "logs", POLICY)
    with pytest.raises(NodeExistsError):
        await east.txn(held[0])
    assert not await has(east), "one namespace of this name, in the global store"


async def test_creating_completes_a_deletion_that_was_interrupted() -> None:
    store, east = MemoryStore(), MemoryStore()
    await create(store, east)
    first = await read_reservation(store, "logs")
    lossy = LossyStore(store)
    lossy.outcomes = [UNAVAILABLE]
    with pytest.raises(MetadataError):
        await delete_regional_namespace(lossy, east, "logs")
    assert await store.get(namespace_path("logs"))
    await create(store, east)
    assert await has(east)
    second = await read_reservation(store, "logs")
    assert first is not None and second is not None and first.token != second.token
