"""Clusters for the tests of applications, and conformance kits for the tests of stores."""

# pytest loads this package as a plugin when rhumbline-lab is installed. The simulator and the kits
# are imported only when a test uses them.

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

from ..backends.conformance.pytest_fixtures import (
    parametrize_metadata_checks,
    rhumbline_metadata_check,
    rhumbline_metadata_store,
)
from ..chaos.pytest_plugin import (
    parametrize_seeds,
    pytest_addoption,
    rhumbline_cluster,
    rhumbline_server,
)
from ..coldstore.stores.pytest_fixtures import (
    parametrize_cold_checks,
    rhumbline_cold_check,
    rhumbline_cold_store,
)

if TYPE_CHECKING:
    from ..backends.conformance.kit import StoreUnderTest
    from ..chaos.local_server import LocalServer, LocalServerFactory
    from ..chaos.rehearsal import ProgramKilledError, Rehearsal, RehearsalFactory, RunningProgram

__all__ = [
    "Rehearsal",
    "RehearsalFactory",
    "RunningProgram",
    "ProgramKilledError",
    "rhumbline_cluster",
    "LocalServer",
    "LocalServerFactory",
    "rhumbline_server",
    "StoreUnderTest",
    "rhumbline_metadata_store",
    "rhumbline_metadata_check",
    "rhumbline_cold_store",
    "rhumbline_cold_check",
    "pytest_addoption",
    "pytest_generate_tests",
]

_LAZY = {
    "Rehearsal": "..chaos.rehearsal",
    "RehearsalFactory": "..chaos.rehearsal",
    "RunningProgram": "..chaos.rehearsal",
    "ProgramKilledError": "..chaos.rehearsal",
    "LocalServer": "..chaos.local_server",
    "LocalServerFactory": "..chaos.local_server",
    "StoreUnderTest": "..backends.conformance.kit",
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize tests by the seeds or checks that their fixtures use."""
    parametrize_seeds(metafunc)
    parametrize_metadata_checks(metafunc)
    parametrize_cold_checks(metafunc)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of the lazy names
    """Imports the module of a name when it is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LAZY[name], __package__), name)
