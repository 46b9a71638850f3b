"""Tests of migrations between real stores and the FoundationDB model, under writes."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import pairwise
from pathlib import Path
from random import Random
from uuid import uuid4

import pytest

from rhumbline.backends.fdb.store import FdbStore
from rhumbline.backends.migrating_store import MigratingStore
from rhumbline.backends.migration import Migration, MigrationEnd
from rhumbline.backends.migration_fence import MovableStore
from rhumbline.backends.open_store import open_store, open_without_following
from rhumbline.core.metadata.cluster_layout import Paths, initialise_cluster
from rhumbline.core.metadata.ledger_store import LedgerStore
from rhumbline.core.runtime.metadata_store import Create
from rhumbline.tests.support.fakes.fdb_model import ModelCluster
from rhumbline.tests.support.fakes.migration_world import KEYS, Writers
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.store_locations import fdb_uri

NODES = 1_500
Opener = Callable[[str], Awaitable[MovableStore]]


async def fill(store: MovableStore | MigratingStore) -> None:
    """Create wide and deep parts of a tree, unusual names, and large and empty values."""
    batch = [Create(f"/wide/{number % 30}/n-{number}", b"%d" % number) for number in range(NODES)]
    for start in range(0, NODES, 50):
        await store.txn(batch[start : start + 50])
    await store.create("/-odd.name!/~/Ωμέγα", b"x" * 90_000)
    await store.create("/a/b/c/d/e/f/g/h")


async def move(opener: Opener, source: str, target: str) -> None:
    began = time.monotonic()
    ends = [MigrationEnd(await opener(uri), uri) for uri in (source, target)]
    outcome = await Migration(ends[0], ends[1]).run()
    print(
        f"{source.partition(':')[0]} to {target.partition(':')[0]}: {outcome.nodes} nodes in "
        f"{time.monotonic() - began:.2f} s, {outcome.passes} passes, pause {outcome.pause_ms} ms, "
        f"next ledger {outcome.next_ledger_id}"
    )
    assert (await ends[0].store.fence_state()).successor == target
    assert (await ends[1].store.fence_state()).successor is None
    for end in ends:
        await end.store.close()


def route_over_real_servers() -> list[str]:
    name = f"live-{uuid4().hex[:8]}"
    zookeeper = f"zk://{metadata_servers.zookeeper().address}/{name}"
    return [zookeeper, f"etcd://{metadata_servers.etcd().address}/{name}", zookeeper]


def route_over_fdb() -> list[str]:
    fdb = fdb_uri(f"live-{uuid4().hex[:8]}")
    return [fdb, f"{fdb}-2", fdb]


@pytest.mark.parametrize(
    "route_of",
    [
        pytest.param(
            route_over_real_servers,
            id="real-servers",
            marks=[pytest.mark.needs_server("zookeeper"), pytest.mark.needs_server("etcd")],
        ),
        pytest.param(route_over_fdb, id="fdb"),
    ],
)
async def test_a_migration_under_writes_loses_nothing(
    route_of: Callable[[], list[str]], tmp_path: Path
) -> None:
    """No acknowledged write is lost or applied twice, and no number is used twice."""
    sqlite = f"sqlite://{tmp_path}/m.db"
    route = [sqlite, *route_of()]
    store = await open_store(sqlite)
    await Writers.prepare(store)
    await initialise_cluster(store, Random(1))
    ids = LedgerStore(store)
    for _ in range(40):
        await ids.next_id()
    await store.create(Paths().ledger(700), b"restored")
    await fill(store)
    writers = Writers(pause_s=0.02)
    handles = [await open_store(sqlite) for _ in range(KEYS)]
    tasks = [asyncio.create_task(writers.run(handle, key)) for key, handle in enumerate(handles)]
    given = [await ids.next_id()]
    for source, target in pairwise(route):
        done = sum(writers.known)
        await move(open_without_following, source, target)
        given.append(await ids.next_id())
        await asyncio.sleep(0.3)
        assert sum(writers.known) > done
    writers.is_stopped = True
    for task in tasks:
        await task
    await writers.check(store)
    assert store.uri == route[-1]
    assert given[0] < 700 < given[1] < given[2] < given[3]
    late = await open_store(sqlite)
    assert late.uri == route[-1]
    assert (await late.get("/-odd.name!/~/Ωμέγα")).data == b"x" * 90_000
    print(
        f"{sum(writers.known)} writes, {writers.refused} repeated, "
        f"longest pause of a writer {writers.longest_pause_s * 1000:.0f} ms"
    )
    for handle in (late, store, *handles):
        await handle.close()


async def test_a_migration_to_the_model_of_foundationdb_and_back_loses_nothing(
    tmp_path: Path,
) -> None:
    cluster = ModelCluster()

    async def opener(uri: str) -> MovableStore:
        if not uri.startswith("fdb"):
            return await open_without_following(uri)
        store = FdbStore(uri, cluster, cluster.find_prefix(uri.encode()), 10_000)
        await store.start()
        return store

    first = f"sqlite://{tmp_path}/m.db"
    store = MigratingStore(await opener(first), opener, 10_000)
    await Writers.prepare(store)
    await fill(store)
    writers = Writers()
    tasks = [asyncio.create_task(writers.run(store, key)) for key in range(KEYS)]
    for source, target in ((first, "fdb:x"), ("fdb:x", "fdb:y"), ("fdb:y", first)):
        await move(opener, source, target)
    writers.is_stopped = True
    for task in tasks:
        await task
    await writers.check(store)
    assert store.uri == first
    await store.close()
