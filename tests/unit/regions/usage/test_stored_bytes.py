"""What namespaces store is summed from closed ledgers, published, and checked when it is read."""

import pytest

from rhumbline.backends.memory import MemoryStore
from rhumbline.core.metadata.idempotent_writes import read_if_exists
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.ledger_metadata import (
    NAMESPACE_KEY,
    STREAM_KEY,
    Fragment,
    LedgerMetadata,
)
from rhumbline.core.protocol.metadata_record import encode_metadata_record
from rhumbline.regions.usage import stored_bytes
from rhumbline.regions.usage.stored_bytes import PATH, StoredBytes, publish, read_stored_bytes


def ledger(namespace: str, length: int | None) -> LedgerMetadata:
    """Return the metadata of a ledger, which is open without a length."""
    custom = {NAMESPACE_KEY: namespace.encode(), STREAM_KEY: b"s"} if namespace else {}
    made = LedgerMetadata(
        7, 1, 1, 1, (Fragment(0, (BookieId("b1@00000001"),)),), custom=custom, creation_token=1
    )
    return made if length is None else made.closed(0, length)


def test_closed_ledgers_of_namespaces_are_counted() -> None:
    found = StoredBytes()
    for one in (ledger("a", 5), ledger("b", 9), ledger("a", 7), ledger("a", None), ledger("", 3)):
        found.note(one)
    assert found.largest() == {"a": 12, "b": 9}


def test_the_record_has_those_that_store_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_bytes, "NAMESPACES_MAX", 2)
    found = StoredBytes()
    for name, length in (("a", 1), ("b", 3), ("c", 2)):
        found.note(ledger(name, length))
    assert found.largest() == {"b": 3, "c": 2}


async def test_a_result_is_published_when_it_changes() -> None:
    store = MemoryStore()
    assert await read_stored_bytes(store) == {}
    await publish(store, {})
    assert await read_if_exists(store, PATH) is None
    await publish(store, {"b": 2, "a": 1})
    version = (await store.get(PATH)).version
    await publish(store, {"a": 1, "b": 2})
    assert (await store.get(PATH)).version == version
    await publish(store, {})
    assert await read_stored_bytes(store) == {}


@pytest.mark.parametrize("count", [-1, True, "5", None])
async def test_a_wrong_record_is_an_error(count: object) -> None:
    store = MemoryStore()
    await store.create(PATH, encode_metadata_record(1, {"namespaces": {"a": count}}))
    with pytest.raises(CorruptionError):
        await read_stored_bytes(store)
