"""A versioned deletion ends certainly, whatever replies are lost, and spares later nodes."""

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata import idempotent_writes
from rhumbline.core.protocol.errors import (
    IndeterminateError,
    MetadataUnavailableError,
    NotEmptyError,
)
from rhumbline.tests.support.fakes.lossy_store import (
    LATE,
    LOST_REPLY,
    LOST_REQUEST,
    OK,
    UNAVAILABLE,
    LossyStore,
)


@pytest.mark.parametrize("outcomes", [[OK], [LOST_REPLY], [LOST_REQUEST, LOST_REPLY], [LATE]])
async def test_discarded_node_no_longer_exists(outcomes: list[str]) -> None:
    store = LossyStore(MemoryStore())
    _, version = await store.create("/node")
    store.outcomes = list(outcomes)
    await idempotent_writes.discard(store, "/node", version)
    assert await idempotent_writes.read_if_exists(store, "/node") is None
    await idempotent_writes.discard(store, "/node", version)


@pytest.mark.parametrize("outcomes", [[OK], [LOST_REPLY], [LATE, LATE, OK]])
async def test_discard_spares_a_node_of_another_version(outcomes: list[str]) -> None:
    store = LossyStore(MemoryStore())
    _, version = await store.create("/node", b"old")
    await store.put("/node", b"new")
    store.outcomes = list(outcomes)
    await idempotent_writes.discard(store, "/node", version)
    await store.deliver()
    assert (await store.get("/node")).data == b"new"


async def test_discard_without_a_version_deletes_any() -> None:
    store = LossyStore(MemoryStore())
    await store.create("/node", b"old")
    await store.put("/node", b"new")
    await idempotent_writes.discard(store, "/node")
    assert await idempotent_writes.read_if_exists(store, "/node") is None


@pytest.mark.parametrize(
    ("outcomes", "error"),
    [
        ([UNAVAILABLE], MetadataUnavailableError),
        ([LOST_REQUEST, UNAVAILABLE], IndeterminateError),
        ([LOST_REQUEST] * idempotent_writes.ATTEMPTS, IndeterminateError),
    ],
)
async def test_discard_reports_a_node_that_may_still_exist(
    outcomes: list[str], error: type[Exception]
) -> None:
    store = LossyStore(MemoryStore())
    _, version = await store.create("/node")
    store.outcomes = list(outcomes)
    with pytest.raises(error):
        await idempotent_writes.discard(store, "/node", version)


async def test_discard_keeps_a_node_with_children() -> None:
    store = LossyStore(MemoryStore())
    _, version = await store.create("/node")
    await store.create("/node/child")
    with pytest.raises(NotEmptyError):
        await idempotent_writes.discard(store, "/node", version)
