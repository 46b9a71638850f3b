"""The measured store counts every call by operation and result, and changes nothing."""

import asyncio

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.core.metadata.measured_store import MeasuredStore
from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from rhumbline.core.runtime.metadata_store import Check, Put, Value
from rhumbline.core.runtime.metrics import samples


class FailingStore(MemoryStore):
    """A store whose reads and writes fail once ``error`` is set."""

    error: Exception | None = None

    async def get(self, path: str, *, stale_ok: bool = False) -> Value:
        if self.error is not None:
            raise self.error
        return await super().get(path, stale_ok=stale_ok)


def a_store() -> FailingStore:
    return FailingStore(MemoryTree(epoch="m1"))


def counted(store: MeasuredStore) -> dict[str, dict[str, int]]:
    """Return the counts that are not 0."""
    calls = store.statistics()["calls"]
    return {name: {k: v for k, v in found.items() if v} for name, found in calls.items()}


async def test_every_operation_is_passed_on_and_counted() -> None:
    store = MeasuredStore(a_store())
    _, version = await store.create("/a/b", b"1")
    version = await store.put("/a/b", b"2", expect=version)
    assert (await store.get("/a/b")).data == b"2"
    assert [v and v.data for v in await store.get_all(["/a/b", "/x"])] == [b"2", None]
    assert await store.children("/a") == ["b"]
    await store.txn([Check("/a/b", version), Put("/a", b"3")])
    session = await store.session(1_000)
    await store.create("/s", ephemeral=session)
    await session.close()
    await store.delete("/a/b")
    assert counted(store) == {
        name: {"ok": 2 if name == "create" else 1}
        for name in ("children", "create", "delete", "get", "get_all", "put", "session", "txn")
    }
    await store.close()


@pytest.mark.parametrize(
    ("error", "result"),
    [
        (MetadataUnavailableError("away"), "unavailable"),
        (IndeterminateError("lost"), "indeterminate"),
        (NoNodeError("none"), "conflict"),
        (NodeExistsError("some"), "conflict"),
        (RuntimeError("a fault"), "failed"),
    ],
)
async def test_errors_are_counted_by_what_they_say_and_reach_the_caller(
    error: Exception, result: str
) -> None:
    inner = a_store()
    store = MeasuredStore(inner)
    inner.error = error
    with pytest.raises(type(error)):
        await store.get("/a")
    assert counted(store) == {"get": {result: 1}}
    assert store.statistics()["call"]["get"]["count"] == 1


async def test_cancelled_call_is_counted() -> None:
    class Silent(FailingStore):
        async def get(self, path: str, *, stale_ok: bool = False) -> Value:
            await asyncio.sleep(3600)
            return await super().get(path, stale_ok=stale_ok)

    store = MeasuredStore(Silent(MemoryTree(epoch="m1")))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await store.get("/a")
    assert counted(store) == {"get": {"cancelled": 1}}


async def test_counts_are_metrics_with_operation_and_result() -> None:
    store = MeasuredStore(a_store())
    _, version = await store.create("/a")
    await store.put("/a", b"1")
    with pytest.raises(BadVersionError):
        await store.put("/a", b"2", expect=version)
    found = {metric.prometheus_name: values for metric, values in
             samples("bookie", {"client": {"metadata": store.statistics()}}).items()}  # fmt: skip
    calls = {value.labels: value.value for value in found["rhumbline_client_metadata_calls_total"]}
    assert calls[("operation", "put"), ("result", "conflict")] == 1
    assert calls[("operation", "put"), ("result", "indeterminate")] == 0, "a series starts at 0"
    assert "rhumbline_client_metadata_call_seconds" in found
