"""A measured cold store passes calls on and counts the bytes that are read."""

from rhumbline.coldstore.stores.measured_cold_store import MeasuredColdStore
from rhumbline.tests.unit.coldstore.archive.archive_world import DictColdStore


async def test_bytes_that_are_read_are_counted() -> None:
    below = DictColdStore()
    store = MeasuredColdStore(below)
    assert await store.put_if_absent("a/b", b"0123456789")
    assert await store.get("a/b") == b"0123456789"
    assert await store.get("a/b", 2, 3) == b"234"
    assert store.statistics() == {"read_bytes": 13}
    assert (await store.stat("a/b")).size_bytes == 10
    assert await store.list("a") == ["a/b"]
    await store.delete("a/b")
    assert await store.list() == []
    assert store.uri == below.uri
    await store.close()
