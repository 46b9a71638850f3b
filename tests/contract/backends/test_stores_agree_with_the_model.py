"""Hypothesis: any program has the same outcome on a store as on the memory store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from rhumbline.backends.conformance.model import HANDLES, Step, programs, run_program
from rhumbline.backends.open import open_store
from rhumbline.core.runtime.metadata_store import MetadataStore
from rhumbline.tests.support import servers

LOCAL = settings(max_examples=200, deadline=None)
REMOTE = settings(max_examples=40, deadline=None)


class Bench:
    """A loop with handles that stay open over all examples."""

    def __init__(self, uri: str) -> None:
        self.runner = asyncio.Runner()
        self.handles: list[MetadataStore] = self.runner.run(self._open(uri))

    def check(self, program: list[Step]) -> None:
        self.runner.run(run_program(program, self.handles))

    def close(self) -> None:
        self.runner.run(self._close())
        self.runner.close()

    async def _open(self, uri: str) -> list[MetadataStore]:
        return [await open_store(uri) for _ in range(HANDLES)]

    async def _close(self) -> None:
        for handle in self.handles:
            await handle.close()


@pytest.fixture(scope="module")
def memory() -> Iterator[Bench]:
    yield from benches("memory:model")


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    path: Path = tmp_path_factory.mktemp("model")
    yield from benches(f"sqlite://{path}/metadata.db")


@pytest.fixture(scope="module")
def zookeeper() -> Iterator[Bench]:
    yield from benches(f"zk://{servers.zookeeper().address}/model")


@pytest.fixture(scope="module")
def etcd() -> Iterator[Bench]:
    yield from benches(f"etcd://{servers.etcd().address}/model")


def benches(uri: str) -> Iterator[Bench]:
    bench = Bench(uri)
    yield bench
    bench.close()


@LOCAL
@given(program=programs())
def test_memory(memory: Bench, program: list[Step]) -> None:
    memory.check(program)


@LOCAL
@given(program=programs())
def test_sqlite(sqlite: Bench, program: list[Step]) -> None:
    sqlite.check(program)


@pytest.mark.needs_server("zookeeper")
@REMOTE
@given(program=programs())
def test_zookeeper(zookeeper: Bench, program: list[Step]) -> None:
    zookeeper.check(program)


@pytest.mark.needs_server("etcd")
@REMOTE
@given(program=programs())
def test_etcd(etcd: Bench, program: list[Step]) -> None:
    etcd.check(program)
