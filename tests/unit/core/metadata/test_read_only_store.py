"""The handle for reading, whose store is cut off from its majority."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from rhumbline.backends.memory import MemoryTree
from rhumbline.core.metadata.read_only_store import PROBE_MS, WAIT_MS, ReadOnlyStore, StaleValue
from rhumbline.core.protocol.errors import MetadataUnavailableError, NoNodeError
from rhumbline.core.runtime.metadata_store import MetadataReads, MetadataStore
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.fakes.recorded_log import recorded_log
from rhumbline.tests.support.fakes.regional_store import RegionalStore

Test = Callable[[RegionalStore, ReadOnlyStore], Awaitable[None]]


def with_stores(test: Test) -> Callable[[], None]:
    """Run a test in virtual time with a store that has the node /a, and a handle for reading."""

    def run() -> None:
        async def body() -> None:
            store = RegionalStore(MemoryTree())
            await store.create("/a", b"1")
            reads = ReadOnlyStore(store)
            try:
                await test(store, reads)
            finally:
                await reads.aclose()

        run_jumping(body())

    run.__name__ = test.__name__
    return run


def now() -> float:
    return asyncio.get_running_loop().time()


async def fails(read: Awaitable[Any]) -> None:
    with pytest.raises(MetadataUnavailableError):
        await read


def test_the_handle_has_no_method_that_writes() -> None:
    writes = {"create", "put", "delete", "txn", "session", "close"}
    assert not writes & set(dir(ReadOnlyStore))
    assert writes == {
        name for name in set(dir(MetadataStore)) - set(dir(MetadataReads)) if name[0] != "_"
    }


@with_stores
async def test_reads_in_reach_are_linearizable(store: RegionalStore, reads: ReadOnlyStore) -> None:
    await store.put("/a", b"2")
    value = await reads.get("/a", stale_ok=True)
    assert value.data == b"2"
    assert not isinstance(value, StaleValue)
    with pytest.raises(NoNodeError):
        await reads.get("/b", stale_ok=True)
    assert await reads.get_all(["/b", "/a"], stale_ok=True) == [None, value]
    assert store.stale_gets == []


@with_stores
async def test_cut_off_region_reads_what_its_server_has_and_is_told_the_age(
    store: RegionalStore, reads: ReadOnlyStore
) -> None:
    store.cut_off()
    began = now()
    value = await reads.get("/a", stale_ok=True)
    assert now() - began == WAIT_MS / 1000
    assert isinstance(value, StaleValue)
    assert (value.data, value.age_ms) == (b"1", WAIT_MS)
    await asyncio.sleep(60)
    (again,) = await reads.get_all(["/a"], stale_ok=True)
    assert isinstance(again, StaleValue)
    assert again.age_ms == WAIT_MS + 60_000
    assert now() - began == WAIT_MS / 1000 + 60  # no time is lost once the state is known
    assert reads.statistics() == {
        "unavailable": 1, "stale_age_ms": WAIT_MS + 60_000, "stale_reads": 2, "cached": 1
    }  # fmt: skip


@with_stores
async def test_without_permission_old_metadata_is_never_returned(
    store: RegionalStore, reads: ReadOnlyStore
) -> None:
    store.cut_off()
    await fails(reads.get("/a"))
    began = now()
    await fails(reads.get("/a"))
    await fails(reads.get_all(["/a"]))
    await fails(reads.children("/"))
    assert now() == began
    assert store.stale_gets == []


@with_stores
async def test_absence_is_never_concluded_from_old_metadata(
    store: RegionalStore, reads: ReadOnlyStore
) -> None:
    store.cut_off()
    await fails(reads.get("/b", stale_ok=True))
    await fails(reads.get_all(["/a", "/b"], stale_ok=True))
    await fails(reads.children("/b", stale_ok=True))
    assert await reads.children("/", stale_ok=True) == ["a"]


@with_stores
async def test_reads_never_go_back(store: RegionalStore, reads: ReadOnlyStore) -> None:
    store.cut_off()
    old = store.replica
    store.reconnect()
    await store.put("/a", b"2")
    assert (await reads.get("/a", stale_ok=True)).data == b"2"
    store.cut_off()
    new = store.replica
    store.fall_behind(old)
    assert (await reads.get("/a", stale_ok=True)).data == b"2"
    store.has_server = False
    assert (await reads.get("/a", stale_ok=True)).data == b"2"
    store.has_server = True
    await asyncio.sleep(PROBE_MS / 1000)
    await store.put("/a", b"3")
    store.cut_off()
    store.fall_behind(store.replica)
    assert (await reads.get("/a", stale_ok=True)).data == b"3"
    store.fall_behind(new)
    assert (await reads.get("/a", stale_ok=True)).data == b"3"


@with_stores
async def test_a_deleted_node_does_not_come_back(
    store: RegionalStore, reads: ReadOnlyStore
) -> None:
    store.cut_off()
    old = store.replica
    store.reconnect()
    await store.delete("/a")
    with pytest.raises(NoNodeError):
        await reads.get("/a", stale_ok=True)
    store.cut_off()
    store.fall_behind(old)
    await fails(reads.get("/a", stale_ok=True))


@with_stores
async def test_the_handle_returns_to_the_store_by_itself_and_watches_fire(
    store: RegionalStore, reads: ReadOnlyStore
) -> None:
    fired: list[float] = []
    watch = reads.watch("/a", lambda: fired.append(now()))
    store.cut_off()
    await reads.get("/a", stale_ok=True)
    await asyncio.sleep(30)
    store.reconnect()
    assert not fired
    await asyncio.sleep((PROBE_MS + WAIT_MS) / 1000)
    assert len(fired) == 1
    assert not reads.is_out_of_reach
    assert reads.age_ms == 0
    assert not isinstance(await reads.get("/a", stale_ok=True), StaleValue)
    watch.close()
    assert not store.open_watches


@with_stores
async def test_the_number_of_remembered_values_is_bounded(
    store: RegionalStore, reads: ReadOnlyStore
) -> None:
    small = ReadOnlyStore(store, remembered_max=2)
    for name in "bcd":
        await store.create(f"/{name}", b"")
        await small.get(f"/{name}")
    assert small.statistics()["cached"] == 2
    await small.aclose()


def test_beginning_and_end_are_logged() -> None:
    @with_stores
    async def run(store: RegionalStore, reads: ReadOnlyStore) -> None:
        store.cut_off()
        for _ in range(3):
            await reads.get("/a", stale_ok=True)
        await asyncio.sleep(30)
        store.reconnect()
        await asyncio.sleep(5)

    with recorded_log("rhumbline.core.metadata") as log:
        run()
    assert log.events() == ["old metadata used", "current metadata used"]
