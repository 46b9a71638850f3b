"""Tests that any program has the same outcome on every store as on the memory store."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from rhumbline.backends.conformance.model import HANDLES, ModelStep, programs, run_program
from rhumbline.backends.fdb.store import FdbStore
from rhumbline.backends.open_store import open_store
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.tests.support.fakes.fdb_model import ModelCluster
from rhumbline.tests.support.servers import metadata_servers
from rhumbline.tests.support.servers.store_locations import fdb_uri, unique_name

LOCAL = settings(max_examples=200, deadline=None)
REMOTE = settings(max_examples=40, deadline=None)

THREADS_DRAW = pytest.mark.filterwarnings("ignore:Do not use the .random. module inside strategies")
"""A client's threads may draw random numbers (kazoo's jitter) while a program is generated."""


class OpenHandles:
    """An event loop with handles that stay open for all examples."""

    def __init__(self, open_handle: Callable[[], Awaitable[MetadataStore]]) -> None:
        self.runner = asyncio.Runner()
        self.handles: list[MetadataStore] = self.runner.run(self._open(open_handle))

    def check(self, program: list[ModelStep]) -> None:
        self.runner.run(run_program(program, self.handles))

    def close(self) -> None:
        self.runner.run(self._close())
        self.runner.close()

    async def _open(
        self, open_handle: Callable[[], Awaitable[MetadataStore]]
    ) -> list[MetadataStore]:
        return [await open_handle() for _ in range(HANDLES)]

    async def _close(self) -> None:
        for handle in self.handles:
            await handle.close()


@pytest.fixture(scope="module")
def memory() -> Iterator[OpenHandles]:
    yield from opened_handles("memory:model")


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenHandles]:
    path: Path = tmp_path_factory.mktemp("model")
    yield from opened_handles(f"sqlite://{path}/metadata.db")


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[OpenHandles]:
    yield from opened_handles(f"zk://{metadata_servers.zookeeper().address}/model")


@pytest.fixture(scope="module")
def etcd() -> Iterator[OpenHandles]:
    yield from opened_handles(f"etcd://{metadata_servers.etcd().address}/model")


@pytest.fixture(scope="module")
def fdb_model() -> Iterator[OpenHandles]:
    cluster = ModelCluster()

    async def open_handle() -> FdbStore:
        store = FdbStore("fdb:model", cluster, cluster.find_prefix(b"p"), 10_000)
        await store.start()
        return store

    yield from opened_handles(open_handle)


@pytest.fixture(scope="module")
def fdb() -> Iterator[OpenHandles]:
    yield from opened_handles(fdb_uri(unique_name()))


def opened_handles(target: str | Callable[[], Awaitable[MetadataStore]]) -> Iterator[OpenHandles]:
    handles = OpenHandles(target if not isinstance(target, str) else lambda: open_store(target))
    yield handles
    handles.close()


@LOCAL
@given(program=programs())
def test_memory(memory: OpenHandles, program: list[ModelStep]) -> None:
    memory.check(program)


@LOCAL
@given(program=programs())
def test_sqlite(sqlite: OpenHandles, program: list[ModelStep]) -> None:
    sqlite.check(program)


@pytest.mark.needs_server("zookeeper")
@THREADS_DRAW
@REMOTE
@given(program=programs())
def test_zookeeper(zookeeper: OpenHandles, program: list[ModelStep]) -> None:
    zookeeper.check(program)


@pytest.mark.needs_server("etcd")
@THREADS_DRAW
@REMOTE
@given(program=programs())
def test_etcd(etcd: OpenHandles, program: list[ModelStep]) -> None:
    etcd.check(program)


@THREADS_DRAW
@LOCAL
@given(program=programs())
def test_fdb_on_a_model_of_its_transactions(
    fdb_model: OpenHandles, program: list[ModelStep]
) -> None:
    fdb_model.check(program)


@THREADS_DRAW
@REMOTE
@given(program=programs())
def test_fdb(fdb: OpenHandles, program: list[ModelStep]) -> None:
    fdb.check(program)
