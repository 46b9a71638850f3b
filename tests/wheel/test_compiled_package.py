"""The compiled form of the package (`make compiled`) behaves like the source.

It is built in ``build/compiled`` and kept there, because compiling takes minutes. The unit tests of
core and proxies run on it in a separate process. Test files that pass fakes to compiled classes,
which accept only their declared types, are excluded by name.
"""

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.compiled_form import COMPILED, compiled_wheel
from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

_WHERE = """
import importlib, sys
for name in sys.argv[1:]:
    print(importlib.import_module(name).__file__)
"""
STAND_INS = [
    "test_bookie_connection.py",
    "test_commit_group.py",
    "test_group_queue.py",
    "test_group_split.py",
    "test_partial_frames.py",
    "test_write_log.py",
]


def run_compiled(*command: str) -> str:
    """Run a command that imports the compiled form."""
    return run(*command, cwd=ROOT, python_path=COMPILED)


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Build the compiled form of the checkout."""
    compiled_wheel()
    link = COMPILED / "rhumbline/tests"
    link.unlink(missing_ok=True)
    link.symlink_to(ROOT / "tests")


def test_every_listed_module_is_compiled() -> None:
    modules = source_tree.pyproject()["tool"]["rhumbline"]["compiled"]
    names = ["rhumbline." + name.removesuffix(".py").replace("/", ".") for name in modules]
    files = run_compiled(sys.executable, "-c", _WHERE, *names).split()
    assert len(files) == len(names)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert [file for file in files if not file.endswith(suffix)] == []
    assert all(Path(file).is_relative_to(COMPILED) for file in files)


@pytest.mark.seeds(3)
def test_simulated_runs_have_the_same_trace(seed: int) -> None:
    command = [sys.executable, "-m", "rhumbline.chaos.simulation", "--plan", "swarm"]
    command += ["--seed", str(seed), "--quiet"]
    plain = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "no invariant was violated" in plain
    assert run_compiled(*command) == plain


def test_core_and_proxies_pass_their_unit_tests() -> None:
    left_out = [f"--ignore-glob=*/{name}" for name in STAND_INS]
    tests = [f"tests/unit/{name}" for name in ("core/bookie", "core/ledger", "core/log", "proxies")]
    printed = run(
        sys.executable,
        "-m",
        "pytest",
        "-q",
        *left_out,
        *tests,
        python_path=COMPILED,
        cwd=COMPILED / "rhumbline",
    )
    assert " passed" in printed.splitlines()[-1]
    print(printed.splitlines()[-1])
