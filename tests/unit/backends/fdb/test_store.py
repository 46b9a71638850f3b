"""Tests of the FoundationDB store on a model of FoundationDB's transactions, with failing commits.

The model is tests/support/fakes/fdb_model.py. These tests show how Rhumbline handles errors, not
how FoundationDB behaves.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from rhumbline.backends.fdb.store import FdbStore
from rhumbline.backends.transaction_plan import SEQUENCE_DIGITS
from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    MetadataUnavailableError,
    NodeExistsError,
    SessionLostError,
)
from rhumbline.tests.support.fakes.fdb_model import ModelCluster


def with_store(body: Callable[[ModelCluster, FdbStore], Awaitable[None]]) -> ModelCluster:
    cluster = ModelCluster()

    async def run() -> None:
        store = FdbStore("fdb:model", cluster, b"p", 1_000)
        await store.start()
        await body(cluster, store)
        cluster.is_stopped = False
        await store.close()

    asyncio.run(run())
    return cluster


@pytest.mark.parametrize("kind", ["done", "not done"])
def test_a_commit_with_an_unknown_result_takes_effect_once(kind: str) -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        cluster.faults.append((kind, 1021))
        path, version = await store.create("/a", b"x")
        assert (await store.get(path)).version == version
        cluster.faults.extend([(kind, 1021), ("not done", 1020)])
        second = await store.put("/a", b"y", expect=version)
        assert (await store.get(path)).version == second
        with pytest.raises(BadVersionError):
            await store.put("/a", b"z", expect=version)
        cluster.faults.append((kind, 1021))
        with pytest.raises(NodeExistsError):
            await store.create("/a")
        cluster.faults.clear()
        names = []
        for _ in range(3):
            cluster.faults.append((kind, 1021))
            names.append((await store.create("/q/n-", sequential=True))[0])
        assert names == [f"/q/n-{number:0{SEQUENCE_DIGITS}d}" for number in range(3)]
        cluster.faults.append((kind, 1021))
        await store.delete("/a", expect=second)
        assert await store.children("/") == ["q"]

    with_store(body)


def test_a_commit_that_timed_out_is_indeterminate() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        cluster.faults.append(("done", 1031))
        with pytest.raises(IndeterminateError):
            await store.create("/a", b"mine")
        assert (await store.get("/a")).data == b"mine"

    with_store(body)


def test_calls_without_contact_raise_unavailable_and_never_indeterminate() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        cluster.is_stopped = True
        with pytest.raises(MetadataUnavailableError):
            await store.get("/a")
        with pytest.raises(MetadataUnavailableError):
            await store.create("/a")

    with_store(body)


def test_conflicts_and_old_transactions_are_retried() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        cluster.faults.extend([("", 1020), ("", 1007), ("", 1020)])
        await store.create("/a", b"x")
        assert (await store.get("/a")).data == b"x"

    with_store(body)


def test_the_model_detects_conflicts() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        await store.create("/a", b"0")

        async def add() -> None:
            while True:
                value = await store.get("/a")
                try:
                    await store.put("/a", b"%d" % (int(value.data) + 1), expect=value.version)
                    return
                except BadVersionError:
                    continue

        await asyncio.gather(*[add() for _ in range(20)])
        assert (await store.get("/a")).data == b"20"

    assert with_store(body).conflicts > 0


def test_a_closed_store_leaves_no_tokens_behind() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        for number in range(40):
            await store.create(f"/n/{number}")

    cluster = with_store(body)
    left = cluster.range(b"pt", b"pu", cluster.version)
    assert left == []


@pytest.mark.parametrize("code", [1021, 1039, 4100])
def test_a_commit_is_searched_only_after_errors_with_unknown_outcome(code: int) -> None:
    """Code 1039 is a change of the client version; 4100 stands for any other error."""

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        cluster.faults.append(("done", code))
        if code == 4100:  # not retryable
            with pytest.raises(IndeterminateError):
                await store.create("/a", b"mine")
        else:
            await store.create("/a", b"mine")
        assert (await store.get("/a")).data == b"mine"
        cluster.faults.append(("", 2000))
        with pytest.raises(MetadataUnavailableError):
            await store.create("/b", b"")
        assert await store.children("/") == ["a"]

    cluster = with_store(body)
    assert cluster.range(b"pt", b"pu", cluster.version) == []


def test_a_session_with_more_nodes_than_a_transaction_may_remove_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first transaction ends the session; the last one removes its row."""
    monkeypatch.setattr("rhumbline.backends.fdb.store.END_BATCH_NODES_MAX", 10)

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        session = await store.session(60_000)
        for number in range(35):
            await store.create(f"/e/{number:02d}", ephemeral=session)
        await store.create("/e/stays")
        assert not await store._end_batch(session.owner, None)
        assert len(await store.children("/e")) == 26
        assert not await store.renew_lease(session.owner)
        with pytest.raises(SessionLostError):
            await store.create("/e/late", ephemeral=session)
        lease = (await store.leases())[session.owner]
        await store.end_lease(session.owner, lease.counter)  # as an observer does
        assert await store.children("/e") == ["stays"]
        assert await store.leases() == {}

    cluster = with_store(body)
    assert cluster.range(b"po", b"pp", cluster.version) == []


def test_a_session_with_many_long_paths_ends_within_the_transaction_limits() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        session = await store.session(60_000)
        deep = "/a-long-name-of-a-node" * 8
        for number in range(400):
            await store.create(f"{deep}/{number:04d}" + "n" * 700, ephemeral=session)
        await session.close()
        assert await store.children(deep) == []

    with_store(body)
