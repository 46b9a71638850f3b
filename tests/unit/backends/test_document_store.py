"""A store in one document keeps the contract, and treats the document's failures correctly."""

import asyncio

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal, Skipped
from rhumbline.backends.conformance.kit import (
    ConformanceCheck,
    StoreUnderTest,
    all_checks,
    check_name,
    run_check,
)
from rhumbline.backends.document_store import DocumentStore
from rhumbline.core.protocol.errors import (
    CorruptionError,
    IndeterminateError,
    MetadataUnavailableError,
    NoNodeError,
)


class Place:
    """The document in memory, with failures on demand; all handles share it."""

    def __init__(self) -> None:
        self.tag = ""
        self.data = b""
        self.count = 0
        self.delay_s = 0.0
        self.error: Exception | None = None
        self.is_stored_before_error = False
        self.conflicts = 0

    async def read(self, known: str | None) -> tuple[str, bytes] | None:
        await asyncio.sleep(self.delay_s)
        return None if known == self.tag and known else (self.tag, self.data)

    async def replace(self, data: bytes, expect: str) -> str | None:
        await asyncio.sleep(self.delay_s)
        if self.conflicts:
            self.conflicts -= 1
            return None
        if self.error is not None and not self.is_stored_before_error:
            raise self.error
        if expect != self.tag:
            return None
        self.count += 1
        self.tag, self.data = str(self.count), data
        if self.error is not None:
            raise self.error
        return self.tag

    async def close(self) -> None:
        pass


async def opened(place: Place, timeout_ms: int = 5_000) -> DocumentStore:
    store = DocumentStore("document:", place, timeout_ms, poll_ms=5)
    await store.start()
    return store


@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_the_contract_is_kept(check: ConformanceCheck) -> None:
    place = Place()
    try:
        asyncio.run(run_check(check, StoreUnderTest(lambda: opened(place))))
    except Skipped as reason:
        pytest.skip(str(reason))


async def test_a_refused_replacement_is_repeated_on_the_new_content() -> None:
    place = Place()
    store = await opened(place)
    place.conflicts = 3
    await store.create("/a", b"1")
    assert (await store.get("/a")).data == b"1"
    await store.close()


async def test_an_unknown_outcome_is_reported_and_the_truth_is_read_afterwards() -> None:
    place = Place()
    store = await opened(place)
    place.error, place.is_stored_before_error = IndeterminateError("lost reply"), True
    with pytest.raises(IndeterminateError):
        await store.create("/a", b"1")
    place.is_stored_before_error = False
    with pytest.raises(IndeterminateError):
        await store.create("/b", b"1")
    place.error = MetadataUnavailableError("away")
    with pytest.raises(MetadataUnavailableError):
        await store.put("/a", b"2")
    place.error = None
    assert (await store.get("/a")).data == b"1"
    with pytest.raises(NoNodeError):
        await store.get("/b")
    await store.close()


async def test_a_call_that_is_late_ends_at_its_deadline() -> None:
    place = Place()
    store = await opened(place, timeout_ms=200)
    place.delay_s = 0.15
    with pytest.raises(IndeterminateError, match="no result within 200 ms"):
        await store.create("/a")
    place.delay_s = 1
    with pytest.raises(MetadataUnavailableError, match="no result within 200 ms"):
        await store.get("/")
    with pytest.raises(MetadataUnavailableError, match="no result within 200 ms"):
        await store.create("/b")
    place.delay_s = 0
    await store.create("/b")
    await store.close()


async def test_an_old_tree_is_read_while_the_document_is_away() -> None:
    place = Place()
    store = await opened(place, timeout_ms=100)
    await store.create("/a", b"1")
    place.delay_s = 10
    assert (await store.get("/a", stale_ok=True)).data == b"1"
    with pytest.raises(MetadataUnavailableError):
        await store.get("/a")
    await store.close()


async def test_a_document_that_was_removed_is_a_new_store() -> None:
    place = Place()
    store = await opened(place)
    _, version = await store.create("/a", b"1")
    changes = ChangeSignal()
    store.watch("/a", changes.notify)
    await changes.drain()
    place.tag, place.data = "", b""
    await changes.wait_notified("the document was removed")
    with pytest.raises(NoNodeError):
        await store.get("/a")
    assert (await store.create("/a", b"1"))[1] != version
    await store.close()


async def test_a_document_of_another_application_is_refused() -> None:
    place = Place()
    place.tag, place.data = "1", b'{"theirs": true}'
    with pytest.raises(CorruptionError, match="document: holds no metadata"):
        await opened(place)
    assert place.data == b'{"theirs": true}'
