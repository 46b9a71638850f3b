"""A pytest plugin: ``rhumbline_cluster`` simulates clusters, ``rhumbline_server`` runs real ones.

``--rhumbline-seeds N`` runs each test that uses the fixture with N consecutive seeds, the first of
which is ``--rhumbline-seed``. The id of a test contains its seed.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .local_server import LocalServerFactory
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


@pytest.fixture
def rhumbline_server(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator["LocalServerFactory"]:
    """Return a function that starts a ``LocalServer``: ``rhumbline_server(tokens=True)``."""
    from .local_server import LocalServer

    with ExitStack() as closing:

        def start(
            *, tls: bool = True, tokens: bool = False, access_control: bool = False
        ) -> LocalServer:
            directory = tmp_path_factory.mktemp("rhumbline-server")
            server = LocalServer(directory, tls=tls, tokens=tokens, access_control=access_control)
            return closing.enter_context(server)

        yield start
