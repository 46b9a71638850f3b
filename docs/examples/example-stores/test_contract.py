"""The two stores keep their contracts: one test for each check of Rhumbline's conformance kits."""

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def rhumbline_metadata_store(tmp_path: Path) -> str:
    return f"locked-file://{tmp_path}/metadata"


def test_the_metadata_store(rhumbline_metadata_check: Callable[[], None]) -> None:
    rhumbline_metadata_check()


@pytest.fixture
def rhumbline_cold_store(tmp_path: Path) -> str:
    return f"sqlite-cold://{tmp_path}/cold.db"


def test_the_cold_store(rhumbline_cold_check: Callable[[], None]) -> None:
    rhumbline_cold_check()
