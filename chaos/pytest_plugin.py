"""A pytest plugin: the fixture ``rhumbline_cluster`` makes clusters in virtual time.

``--rhumbline-seeds N`` runs each test that uses it with N seeds, from ``--rhumbline-seed`` on; the
id of a test names its seed.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .rehearsal import MakeRehearsal

_SEED = "rhumbline_seed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of the plugin."""
    group = parser.getgroup("rhumbline_cluster")
    group.addoption("--rhumbline-seed", type=int, default=1, help="first seed of clusters")
    group.addoption("--rhumbline-seeds", type=int, default=1, help="seeds for each test")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that uses a cluster runs once for each seed."""
    if _SEED in metafunc.fixturenames:
        first = metafunc.config.getoption("--rhumbline-seed")
        count = metafunc.config.getoption("--rhumbline-seeds")
        seeds = range(first, first + count)
        metafunc.parametrize(_SEED, seeds, ids=[f"seed={seed}" for seed in seeds])


@pytest.fixture
def rhumbline_cluster(rhumbline_seed: int) -> Iterator["MakeRehearsal"]:
    """Makes a cluster: ``rhumbline_cluster(regions=3, rtt_ms=20)``; see ``Rehearsal``."""
    from .rehearsal import Rehearsal

    made: list[Rehearsal] = []

    def make(**settings: object) -> Rehearsal:
        cluster = Rehearsal(**{"seed": rhumbline_seed, **settings})  # type: ignore[arg-type]
        made.append(cluster)
        return cluster

    yield make
    for cluster in made:
        cluster.close()
