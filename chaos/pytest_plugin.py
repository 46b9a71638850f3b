"""A pytest plugin: the fixture ``rhumbline_cluster`` creates simulated clusters.

``--rhumbline-seeds N`` runs each test that uses the fixture with N consecutive seeds, the first of
which is ``--rhumbline-seed``. The id of a test contains its seed.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .rehearsal import RegionName, RehearsalFactory

_SEED = "rhumbline_seed"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's command-line options."""
    group = parser.getgroup("rhumbline_cluster")
    group.addoption("--rhumbline-seed", type=int, default=1, help="first seed of each test")
    group.addoption(
        "--rhumbline-seeds", type=int, default=1, help="number of seeds to run each test with"
    )


def parametrize_seeds(metafunc: pytest.Metafunc) -> None:
    """Parametrize each test that uses ``rhumbline_cluster`` by seed."""
    if _SEED in metafunc.fixturenames:
        first = metafunc.config.getoption("--rhumbline-seed")
        count = metafunc.config.getoption("--rhumbline-seeds")
        seeds = range(first, first + count)
        metafunc.parametrize(_SEED, seeds, ids=[f"seed={seed}" for seed in seeds])


@pytest.fixture
def rhumbline_cluster(rhumbline_seed: int) -> Iterator["RehearsalFactory"]:
    """Return a function that creates a ``Rehearsal``: ``rhumbline_cluster(regions=3)``."""
    from .rehearsal import Rehearsal

    clusters: list[Rehearsal] = []

    def create(
        regions: "int | Sequence[RegionName]" = 3,
        *,
        bookies: int = 2,
        rtt_ms: float = 20.0,
        quorum: tuple[int, int, int, int] | None = None,
        seed: int | None = None,
    ) -> Rehearsal:
        cluster = Rehearsal(
            regions,
            bookies=bookies,
            rtt_ms=rtt_ms,
            quorum=quorum,
            seed=rhumbline_seed if seed is None else seed,
        )
        clusters.append(cluster)
        return cluster

    yield create
    for cluster in clusters:
        cluster.close()
