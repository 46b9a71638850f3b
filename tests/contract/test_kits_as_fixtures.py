"""The conformance kits as fixtures of pytest, as the tests of another package use them."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rhumbline.backends.memory import MemoryStore, MemoryTree
from rhumbline.testing import StoreUnderTest

BROKEN = """
import pytest
from rhumbline.stores import open_store
from rhumbline.testing import StoreUnderTest

@pytest.fixture
def rhumbline_metadata_store():
    async def new_store_for_each_handle():
        return await open_store("memory:")
    return StoreUnderTest(new_store_for_each_handle)

def test_store(rhumbline_metadata_check):
    rhumbline_metadata_check()

def test_cold_store_without_an_override(rhumbline_cold_check): ...
"""


@pytest.fixture
def rhumbline_metadata_store() -> StoreUnderTest:
    tree = MemoryTree()

    async def open_handle() -> MemoryStore:
        return MemoryStore(tree)

    return StoreUnderTest(open_handle)


@pytest.fixture
def rhumbline_cold_store(tmp_path: Path) -> str:
    return f"file://{tmp_path}/cold"


def test_a_metadata_store_is_checked(rhumbline_metadata_check: Callable[[], None]) -> None:
    rhumbline_metadata_check()


def test_a_cold_store_is_checked(rhumbline_cold_check: Callable[[], None]) -> None:
    rhumbline_cold_check()


def test_a_broken_store_fails_and_a_missing_override_is_explained(tmp_path: Path) -> None:
    (tmp_path / "test_broken.py").write_text(BROKEN)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k"]
    command += ["a_created_node_reads_back or an_empty_value or empty_objects_are_kept"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "FAILED test_broken.py::test_store[semantics.a_created_node_reads_back]" in done.stdout
    assert "override the fixture rhumbline_cold_store" in done.stdout
    assert "1 failed, 1 passed" in done.stdout


def test_other_runs_load_neither_the_kits_nor_the_simulator() -> None:
    script = "import sys, rhumbline.testing; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = [name for name in done.stdout.split() if name.startswith("rhumbline.")]
    heavy = ("open_store", ".core", ".kit", ".rehearsal", ".memory")
    assert [name for name in loaded if any(part in name for part in heavy)] == []
