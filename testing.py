"""Clusters in virtual time for the tests of applications, with outages of regions.

pytest loads this module as a plugin when Rhumbline is installed: it provides the fixture
``rhumbline_cluster`` and the options ``--rhumbline-seed`` and ``--rhumbline-seeds``. The simulator
itself is imported only when a test uses a cluster.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .chaos.pytest_plugin import pytest_addoption, pytest_generate_tests, rhumbline_cluster

if TYPE_CHECKING:
    from .chaos.rehearsal import ProgramKilledError, Rehearsal, RehearsalFactory, RunningProgram

__all__ = [
    "Rehearsal",
    "RehearsalFactory",
    "RunningProgram",
    "ProgramKilledError",
    "rhumbline_cluster",
    "pytest_addoption",
    "pytest_generate_tests",
]

_LAZY = {"Rehearsal", "RehearsalFactory", "RunningProgram", "ProgramKilledError"}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - one of the lazy names
    """Imports the simulator when one of its names is first used."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".chaos.rehearsal", __package__), name)
