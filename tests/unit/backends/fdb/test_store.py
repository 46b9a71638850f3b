"""Tests of the FoundationDB store on a model of FoundationDB's transactions, with failing commits.

The model is tests/support/fakes/fdb_model.py. These tests show how Rhumbline handles errors, not
how FoundationDB behaves.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from rhumbline.backends.conformance.assertions import ChangeSignal, eventually
from rhumbline.backends.fdb.store import FdbStore
from rhumbline.backends.transaction_plan import SEQUENCE_DIGITS
from rhumbline.core.protocol.errors import (
    BadVersionError,
    IndeterminateError,
    LimitExceededError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionLostError,
)
from rhumbline.core.runtime.metadata_store import Create, Version
from rhumbline.tests.support.fakes.fdb_model import AGE_S_MAX, ModelCluster
from rhumbline.tests.support.fakes.jumping_loop import run_jumping
from rhumbline.tests.support.servers.lost_data import is_without_data


async def opened(cluster: ModelCluster, timeout_ms: int = 1_000) -> FdbStore:
    store = FdbStore("fdb:model", cluster, cluster.find_prefix(b"p"), timeout_ms)
    await store.start()
    return store


def with_store(
    body: Callable[[ModelCluster, FdbStore], Awaitable[None]], timeout_ms: int = 1_000
) -> ModelCluster:
    cluster = ModelCluster()

    async def run() -> None:
        store = await opened(cluster, timeout_ms)
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


def test_handles_that_change_one_node_conflict_and_lose_nothing() -> None:
    """The callers of one handle take turns; only those of different handles conflict."""

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        other = await opened(cluster)
        await store.create("/a", b"0")

        async def add(handle: FdbStore) -> None:
            while True:
                value = await handle.get("/a")
                try:
                    await handle.put("/a", b"%d" % (int(value.data) + 1), expect=value.version)
                    return
                except BadVersionError:
                    continue

        await asyncio.gather(*[add(handle) for handle in (store, other) for _ in range(20)])
        assert (await store.get("/a")).data == b"40"
        await other.close()

    assert with_store(body).conflicts > 0


def test_concurrent_writes_share_a_transaction_and_fail_alone() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        await store.create("/taken")
        for name in ("a", "b", "c"):
            await store.create(f"/n/{name}", b"old")
        before = cluster.commits
        results = await asyncio.gather(
            store.put("/n/a", b"new"),
            store.create("/taken"),
            store.delete("/n/b"),
            store.put("/none", b""),
            store.create("/n/d", b"made"),
            store.put("/n/c", b"", expect=Version("another")),
            return_exceptions=True,
        )
        assert cluster.commits == before + 1
        kinds = [type(result) for result in results]
        assert kinds == [str, NodeExistsError, type(None), NoNodeError, tuple, BadVersionError]
        assert await store.children("/n") == ["a", "c", "d"]
        assert (await store.get("/n/a")) == (b"new", results[0])
        assert (await store.get("/n/d")) == (b"made", results[4][1])  # type: ignore[index]
        assert (await store.get("/n/c")).data == b"old"

    with_store(body)


def test_concurrent_writes_that_depend_on_each_other_take_turns() -> None:
    """Parents, children and the same node: each write is decided on what the earlier ones left."""

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        results = await asyncio.gather(
            store.create("/a/b/c", b"1"),
            store.create("/a/b/d"),
            store.create("/a/b/c", b"2"),
            store.delete("/a/b"),
            return_exceptions=True,
        )
        kinds = [type(result) for result in results]
        assert kinds == [tuple, tuple, NodeExistsError, NotEmptyError]
        children = ("/a/b/c", "/a/b/d")
        await asyncio.gather(*[store.delete(path) for path in (*children, "/a/b")])
        assert await store.children("/a") == []
        first, second = await asyncio.gather(store.put("/a", b"x"), store.put("/a", b"y"))
        assert first != second
        assert await store.get("/a") == (b"y", second)

    with_store(body)


def test_concurrent_sequential_nodes_share_a_transaction() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        await store.create("/q/n-", sequential=True)
        before = cluster.commits
        made = await asyncio.gather(*[store.create("/q/n-", sequential=True) for _ in range(30)])
        names = [path.rpartition("-")[2] for path, _ in made]
        assert names == [f"{number:0{SEQUENCE_DIGITS}d}" for number in range(1, 31)]
        assert cluster.commits == before + 1

    with_store(body)


@pytest.mark.parametrize("kind", ["done", "not done"])
def test_a_shared_commit_with_an_unknown_result_takes_effect_once(kind: str) -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        await store.create("/taken")
        cluster.faults.append((kind, 1021))
        results = await asyncio.gather(
            *[store.create("/q/n-", sequential=True) for _ in range(5)],
            store.create("/taken"),
            return_exceptions=True,
        )
        assert isinstance(results.pop(), NodeExistsError)
        names = [path.rpartition("/")[2] for path, _ in results]  # type: ignore[misc]
        assert await store.children("/q") == names
        for path, version in results:  # type: ignore[misc]
            assert (await store.get(path)).version == version

    with_store(body)


def test_a_write_is_never_refused_because_of_an_old_version() -> None:
    """A write may begin at the version of the last commit, but a refusal needs the current one."""

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        other = await opened(cluster)
        path, version = await store.create("/a", b"1")
        for _ in range(5):
            version = await other.put(path, b"2", expect=version)
            await other.create("/b")
            version = await store.put(path, b"3", expect=version)
            await store.delete("/b")
        with pytest.raises(NoNodeError):
            await other.put("/b", b"")
        await other.close()

    with_store(body)


def test_handles_that_write_the_same_nodes_soon_read_at_the_current_version() -> None:
    """A write at an old version meets a conflict once, and not with every further write."""

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        other = await opened(cluster)
        await store.create("/q/n-", sequential=True)
        for _ in range(30):
            await other.create("/q/n-", sequential=True)
            await store.create("/q/n-", sequential=True)
        assert len(await store.children("/q")) == 61
        assert cluster.conflicts <= 4
        await other.close()

    with_store(body)


ROUND_TRIP_S = 0.001


@pytest.mark.run_by(runner=run_jumping)
async def test_round_trips_of_each_operation() -> None:
    """A write takes two: reads at the version of the last commit, and the commit.

    The first write after a second needs one more for a version. Before, a write took four and more.
    """
    loop = asyncio.get_running_loop()
    cluster = ModelCluster(clock=loop.time, round_trip_s=ROUND_TRIP_S)
    store = await opened(cluster, timeout_ms=10_000)
    await store._leases.aclose()  # its reads take no turns of their own
    await store.create("/a/b/c/n")
    await store.create("/q/n-", sequential=True)

    async def trips(*calls: Awaitable[object]) -> float:
        began = loop.time()
        await asyncio.gather(*calls)
        return round((loop.time() - began) / ROUND_TRIP_S, 3)

    found = {
        "put": await trips(store.put("/a/b/c/n", b"x")),
        "create": await trips(store.create("/a/b/c/m")),
        "create below missing nodes": await trips(store.create("/d/e/f")),
        "sequential": await trips(store.create("/q/n-", sequential=True)),
        "30 sequential": await trips(*[store.create("/q/n-", sequential=True) for _ in range(30)]),
        "30 puts": await trips(*[store.create(f"/a/b/c/{n}") for n in range(30)]),
        "delete": await trips(store.delete("/a/b/c/m")),
        "get": await trips(store.get("/a/b/c/n")),
        "children": await trips(store.children("/a", limit=2)),
    }
    await asyncio.sleep(2)
    found["put after a pause"] = await trips(store.put("/a/b/c/n", b"y"))
    await store.close()
    assert found == {
        "put": 2,
        "create": 2,
        "create below missing nodes": 3,
        "sequential": 3,
        "30 sequential": 3,
        "30 puts": 2,
        "delete": 2,
        "get": 2,
        "children": 2,
        "put after a pause": 3,
    }


@pytest.mark.run_by(runner=run_jumping)
async def test_a_listing_needs_no_transaction_longer_than_five_seconds() -> None:
    """It takes half a minute here, and lists every node that exists all the time, each once."""
    loop = asyncio.get_running_loop()
    cluster = ModelCluster(clock=loop.time)
    store = await opened(cluster, timeout_ms=60_000)
    names = [f"{number:04d}" for number in range(0, 2_000, 2)]
    for number in range(0, len(names), 50):
        await store.txn([Create(f"/dir/{name}") for name in names[number : number + 50]])
    cluster.round_trip_s, cluster.page_pairs = 0.1, 1
    writer = asyncio.create_task(_change_meanwhile(store, names))
    began = loop.time()
    found = await store.children("/dir")
    assert loop.time() - began > AGE_S_MAX
    writer.cancel()
    assert found == sorted(set(found))
    assert set(names[:-1]) <= set(found)
    assert await store.children("/dir", after="0010-new", limit=2) == ["0012", "0012-new"]
    cluster.round_trip_s = 0
    await store.close()


async def _change_meanwhile(store: FdbStore, names: list[str]) -> None:
    """Create nodes between those of ``names``, and delete the last one."""
    await store.delete(f"/dir/{names[-1]}")
    for name in names:
        await store.create(f"/dir/{name}-new")
        await asyncio.sleep(0.2)


def test_a_transaction_above_the_limit_of_foundationdb_is_refused_before_it_is_sent() -> None:
    """Deep paths need many keys: eight creations that pass all other limits exceed 10 MB."""

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        before = cluster.commits
        deep = ["/" + "/".join([f"{number:02d}", *"x" * 500]) for number in range(8)]
        with pytest.raises(LimitExceededError, match="above the limit of 10000000 bytes"):
            await store.txn([Create(path) for path in deep])
        assert cluster.commits == before

    with_store(body, timeout_ms=60_000)


def test_writes_that_wait_in_an_outage_are_refused_at_their_deadline() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        await store.create("/a")
        cluster.is_stopped = True
        results = await asyncio.gather(
            *[store.put("/a", b"%d" % number) for number in range(5)], return_exceptions=True
        )
        assert {type(result) for result in results} == {MetadataUnavailableError}
        cluster.is_stopped = False
        await store.put("/a", b"after")

    with_store(body)


def test_ten_thousand_watches_need_no_tasks_and_few_transactions() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        paths = [f"/n/{number}" for number in range(10_000)]
        for start in range(0, len(paths), 50):
            await store.txn([Create(path) for path in paths[start : start + 50]])
        fired: Counter[str] = Counter()
        tasks = len(asyncio.all_tasks())
        begun = cluster.begun
        for path in paths:
            store.watch(path, partial(fired.update, [path]))
        await _until(lambda: len(fired) == len(paths))
        assert len(asyncio.all_tasks()) <= tasks + 1
        assert cluster.begun - begun < 200
        fired.clear()
        before = cluster.begun
        for path in paths[:100]:
            await store.put(path, b"new")
        await _until(lambda: len(fired) == 100)
        assert sorted(fired) == sorted(paths[:100])
        assert cluster.begun - before < 400

    with_store(body)


async def _until(condition: Callable[[], bool]) -> None:
    async def holds() -> bool:
        return condition()

    await eventually(holds, "the condition")


def test_a_closed_store_leaves_no_tokens_behind() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        for number in range(40):
            await store.create(f"/n/{number}")

    cluster = with_store(body)
    left = cluster.range(b"p0t", b"p0u", cluster.version)
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
    assert cluster.range(b"p0t", b"p0u", cluster.version) == []


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
    assert cluster.range(b"p0o", b"p0p", cluster.version) == []


def test_a_session_with_many_long_paths_ends_within_the_transaction_limits() -> None:
    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        session = await store.session(60_000)
        deep = "/a-long-name-of-a-node" * 8
        for number in range(400):
            await store.create(f"{deep}/{number:04d}" + "n" * 700, ephemeral=session)
        await session.close()
        assert await store.children(deep) == []

    with_store(body)


def test_a_cluster_that_lost_its_data_is_a_new_store(caplog: pytest.LogCaptureFixture) -> None:
    """The handle uses the new prefix of its directory; nothing of the old store is valid there."""
    caplog.set_level(logging.ERROR, logger="rhumbline.backends.fdb.store")

    async def body(cluster: ModelCluster, store: FdbStore) -> None:
        _, old = await store.create("/n", b"old")
        session = await store.session(2_000)
        await store.create("/claim", ephemeral=session)
        changes = ChangeSignal()
        store.watch("/n", changes.notify)
        await changes.drain()
        cluster.lose_data()
        with pytest.raises(MetadataUnavailableError, match="no longer in FoundationDB"):
            await store.put("/n", b"x")

        await eventually(partial(is_without_data, store, "/n"), "the handle uses the new store")
        await changes.drain()
        _, new = await store.create("/n", b"new")
        await changes.wait_notified("a change in the new store")
        with pytest.raises(BadVersionError):
            await store.put("/n", b"x", expect=old)
        other = await opened(cluster)
        assert await other.get("/n") == (b"new", new)
        await other.close()
        await _until(lambda: session.is_lost)
        assert all(key.startswith(b"p1") for key in cluster.keys)

    with_store(body)
    lines = [record.getMessage() for record in caplog.records]
    assert lines == ["metadata lost uri=fdb:model"]
