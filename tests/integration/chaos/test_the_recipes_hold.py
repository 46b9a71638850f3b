"""The examples that how-to/choose-how-to-write.md names pass their tests, and type-check."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rhumbline.tests.support.tidy.source_tree import ROOT

RECIPES = ("key_value_store", "change_propagation", "publish_subscribe")


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    for name in RECIPES:
        shutil.copytree(ROOT / "docs/examples" / name, tmp_path / name)
    return tmp_path


def test_the_recipes_pass_their_tests(recipes: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *RECIPES]
    run = subprocess.run(
        command, cwd=recipes, capture_output=True, text=True, timeout=280, check=False
    )
    assert run.returncode == 0, run.stdout


@pytest.mark.long
def test_the_recipes_are_typed_strictly(recipes: Path) -> None:
    config = recipes / "mypy.ini"  # an installed package reports no errors of its own
    config.write_text("[mypy]\nstrict = True\n[mypy-rhumbline.*]\nignore_errors = True\n")
    for name in RECIPES:
        folder = recipes / name
        command = [sys.executable, "-m", "mypy", "--cache-dir", str(recipes / "cache")]
        files = [str(path) for path in sorted(folder.glob("*.py"))]
        environment = {**os.environ, "MYPYPATH": f"{folder}:{ROOT / '.typecheck'}"}
        options = [
            "--config-file",
            str(config),
            "--ignore-missing-imports",
            "--follow-imports=silent",
        ]
        run = subprocess.run(
            [*command, *options, *files],
            cwd=folder, env=environment, capture_output=True, text=True, timeout=280, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stdout
