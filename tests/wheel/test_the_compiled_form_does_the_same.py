"""The compiled form of the package (`make compiled`) does the same as the source.

It is made in ``build/compiled`` and kept, as a compiler takes its time. The tests of core and
proxies run on it in a process of their own; tests that hand stand-ins to classes which take only
their own kind when compiled are left out, by name.
"""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = pytest.mark.timeout(900)

COMPILED = ROOT / "build/compiled"
_WHERE = """
import importlib, sys
for name in sys.argv[1:]:
    print(importlib.import_module(name).__file__)
"""
STAND_INS = ["test_connections_answer_every_request_once.py"]


def run(*command: str, cwd: Path = ROOT) -> str:
    """What a command prints when it finds the compiled form first. Raises AssertionError."""
    environment = {**os.environ, "PYTHONPATH": str(COMPILED)}
    done = subprocess.run(
        command, cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """The compiled form of what is in the checkout now."""
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.is_file():
        pytest.skip(f"no C headers of this Python: {header}")
    run("make", "--no-print-directory", "compiled")
    link = COMPILED / "rhumbline/tests"
    link.unlink(missing_ok=True)
    link.symlink_to(ROOT / "tests")


def test_every_module_of_the_list_is_machine_code() -> None:
    modules = source_tree.pyproject()["tool"]["rhumbline"]["compiled"]
    names = ["rhumbline." + name.removesuffix(".py").replace("/", ".") for name in modules]
    files = run(sys.executable, "-c", _WHERE, *names).split()
    assert len(files) == len(names)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    assert [file for file in files if not file.endswith(suffix)] == []
    assert all(Path(file).is_relative_to(COMPILED) for file in files)


@pytest.mark.seeds(3)
def test_a_simulated_run_is_the_same_to_the_last_event(seed: int) -> None:
    command = [sys.executable, "-m", "rhumbline.chaos.simulation", "--plan", "swarm"]
    command += ["--seed", str(seed), "--quiet"]
    plain = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "every promise was kept" in plain
    assert run(*command) == plain


def test_core_and_proxies_pass_their_tests() -> None:
    left_out = [f"--ignore-glob=*/{name}" for name in STAND_INS]
    tests = [f"tests/unit/{name}" for name in ("core/bookie", "core/ledger", "core/log", "proxies")]
    printed = run(
        sys.executable, "-m", "pytest", "-q", *left_out, *tests, cwd=COMPILED / "rhumbline"
    )
    assert " passed" in printed.splitlines()[-1]
    print(printed.splitlines()[-1])
