"""The conformance kit, run on every metadata store that is available."""

import asyncio
from pathlib import Path

import pytest

from rhumbline.backends.conformance.assertions import Skipped
from rhumbline.backends.conformance.kit import (
    ConformanceCheck,
    StoreUnderTest,
    all_checks,
    check_name,
    run_check,
)
from rhumbline.backends.fdb.store import FdbStore
from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.backends.open_store import open_store
from rhumbline.tests.support.fakes.fdb_model import ModelCluster
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.store_locations import fdb_uri


def run(check: ConformanceCheck, target: StoreUnderTest) -> None:
    try:
        asyncio.run(run_check(check, target))
    except Skipped as reason:
        pytest.skip(str(reason))


@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_memory(check: ConformanceCheck) -> None:
    tree = MemoryTree()

    async def open_handle() -> MemoryStore:
        return MemoryStore(tree)

    run(check, StoreUnderTest(open_handle))


@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_sqlite(check: ConformanceCheck, tmp_path: Path) -> None:
    uri = f"sqlite://{tmp_path}/metadata.db"
    run(check, StoreUnderTest(lambda: open_store(uri), uri))


@pytest.mark.needs_server("zookeeper")
@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_zookeeper(check: ConformanceCheck) -> None:
    uri = f"zk://{metadata_servers.zookeeper().address}/contract"
    run(check, StoreUnderTest(lambda: open_store(uri), uri, ttl_ms=800))


@pytest.mark.needs_server("etcd")
@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_etcd(check: ConformanceCheck) -> None:
    uri = f"etcd://{metadata_servers.etcd().address}/contract"
    run(check, StoreUnderTest(lambda: open_store(uri), uri, ttl_ms=1000))


@pytest.mark.needs_server("etcd")
def test_a_closed_etcd_store_leaves_nothing_to_the_next_event_loop() -> None:
    """gRPC reported cancelled watches to loops that had ended: errors in later ones."""
    uri = f"etcd://{metadata_servers.etcd().address}/contract"
    errors: list[str] = []

    async def open_and_close() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: errors.append(str(context.get("exception")))
        )
        await (await open_store(uri)).close()

    for _ in range(30):
        asyncio.run(open_and_close())
    assert not errors


@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_fdb_on_a_model_of_its_transactions(check: ConformanceCheck) -> None:
    cluster = ModelCluster()

    async def open_handle() -> FdbStore:
        store = FdbStore("fdb:model", cluster, cluster.find_prefix(b"prefix"), 10_000)
        await store.start()
        return store

    run(check, StoreUnderTest(open_handle))


@pytest.mark.parametrize("check", all_checks(), ids=check_name)
def test_fdb(check: ConformanceCheck) -> None:
    """Run only if the environment names a cluster, since no package registry has FoundationDB."""
    uri = fdb_uri("contract")
    run(check, StoreUnderTest(lambda: open_store(uri), uri))
