"""Hypothesis: any program has the same outcome on a store as on the memory store."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from rhumbline.backends.conformance.model import HANDLES, Step, programs, run_program
from rhumbline.backends.open import open_store
from rhumbline.core.runtime.metadata_store import MetadataStore


class Bench:
    """A loop with handles that stay open over all examples."""

    def __init__(self, uri: str) -> None:
        self.runner = asyncio.Runner()
        self.handles: list[MetadataStore] = self.runner.run(self._open(uri))

    async def _open(self, uri: str) -> list[MetadataStore]:
        return [await open_store(uri) for _ in range(HANDLES)]

    def check(self, program: list[Step]) -> None:
        self.runner.run(run_program(program, self.handles))

    async def _close(self) -> None:
        for handle in self.handles:
            await handle.close()

    def close(self) -> None:
        self.runner.run(self._close())
        self.runner.close()


@pytest.fixture(scope="module", params=["memory", "sqlite"])
def bench(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Bench]:
    path: Path = tmp_path_factory.mktemp("model")
    uris = {"memory": "memory:model", "sqlite": f"sqlite://{path}/metadata.db"}
    bench = Bench(uris[request.param])
    yield bench
    bench.close()


@settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(program=programs())
def test_any_program_has_the_models_outcome(bench: Bench, program: list[Step]) -> None:
    bench.check(program)
