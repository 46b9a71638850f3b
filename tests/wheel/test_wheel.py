"""The wheels, built from a clean copy, work in a bare environment outside of the checkout."""

import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.cli.exit_codes import EXIT_USAGE
from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = pytest.mark.timeout(400)


LAB = ("bench", "chaos", "testing")
FOLDERS = [name for name in source_tree.product_folders() if name not in LAB]
PIP = ("-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with wheels that were built from source distributions, as for a release."""
    copy = tmp_path_factory.mktemp("copy")
    for path in source_tree.files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, copy / path, follow_symlinks=False)
    build = (sys.executable, "-m", "build", "--no-isolation", "--outdir", copy / "dist")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RHUMBLINE_BUILD", "pure")  # test_compiled_package.py builds the other form
        run(*build, ".", cwd=copy)
    run(*build, "lab", cwd=copy)
    return copy / "dist"


@pytest.fixture(scope="module")
def bare(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the bin folder of an environment with only the base dependencies and rhumbline."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    install = (folder / "env/bin/python", *PIP, "install", "--no-compile")
    run(*install, "--require-hashes", "-r", ROOT / "requirements.lock", cwd=folder)
    run(*install, "--no-index", "--find-links", wheels, "rhumbline", cwd=folder)
    yield folder / "env/bin"
    shutil.rmtree(folder)


@pytest.fixture
def with_lab(bare: Path, wheels: Path) -> Iterator[Path]:
    """Yield the same folder while rhumbline-lab is installed too."""
    python = (bare / "python", *PIP)
    run(*python, "install", "--no-index", "--find-links", wheels, "rhumbline[lab]", cwd=bare)
    yield bare
    run(*python, "uninstall", "--yes", "rhumbline-lab", cwd=bare)


def held(wheel: Path) -> set[str]:
    """Return the names of the files in a wheel, without those about it."""
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if ".dist-info/" not in name}


def imports(*packages: str) -> str:
    """Return a program that imports packages."""
    return f"import {', '.join(packages)}"


def test_wheels_hold_all_of_the_product_and_nothing_else(wheels: Path) -> None:
    base, lab = sorted(wheels.glob("*.whl"))
    product = {p for p in source_tree.files() if p.parts[0] in FOLDERS}
    public = {p for p in source_tree.files() if len(p.parts) == 1 and p.suffix == ".py"}
    expected = product | public | {Path("py.typed")}
    assert held(base) == {f"rhumbline/{path.as_posix()}" for path in expected}
    of_lab = {p for p in source_tree.files() if p.parts[0] in LAB}
    assert held(lab) == {f"rhumbline/{path.as_posix()}" for path in of_lab}


def test_declared_dependencies_are_enough(bare: Path) -> None:
    run(bare / "python", "-m", "pip", "check", cwd=bare)


def test_command_runs(bare: Path) -> None:
    assert "Usage" in run(bare / "rhumbline", "--help", cwd=bare)
    assert run(bare / "rhumbline", "--version", cwd=bare).strip()


@pytest.mark.parametrize("command", ["bench", "chaos"])
def test_commands_of_the_lab_say_how_to_get_it(bare: Path, command: str) -> None:
    done = subprocess.run([bare / "rhumbline", command, "ls"], capture_output=True, text=True)
    assert done.returncode == EXIT_USAGE
    assert done.stderr == (
        f"rhumbline: `rhumbline {command}` needs rhumbline-lab: pip install 'rhumbline[lab]'\n"
    )


def test_every_package_imports(bare: Path) -> None:
    public = ("errors", "plugins", "policies", "settings", "stores", "sync", "topics")
    modules = [f"rhumbline.{name}" for name in public]
    packages = [p for p in source_tree.packages() if not {*LAB} & {*p.split(".")[1:2]}]
    run(bare / "python", "-W", "error", "-c", imports(*packages, *modules), cwd=bare)


def test_the_lab_is_added_by_an_extra(with_lab: Path) -> None:
    run(with_lab / "python", "-m", "pip", "check", cwd=with_lab)
    packages = [name for name in source_tree.packages() if name != "rhumbline.testing"]
    run(with_lab / "python", "-W", "error", "-c", imports(*packages), cwd=with_lab)
    assert "region-cut-off" in run(with_lab / "rhumbline", "chaos", "ls", cwd=with_lab)
    assert "takeover" in run(with_lab / "rhumbline", "bench", "--help", cwd=with_lab)
    script = (
        "from importlib.metadata import entry_points; "
        "print([e.value for e in entry_points(group='pytest11')])"
    )
    assert run(with_lab / "python", "-c", script, cwd=with_lab).strip() == "['rhumbline.testing']"


def test_folders_are_not_importable_at_top_level(bare: Path) -> None:
    names = [*source_tree.product_folders(), "tests", "docs"]
    script = f"from importlib.util import find_spec; print([n for n in {names} if find_spec(n)])"
    assert run(bare / "python", "-c", script, cwd=bare).strip() == "[]"


def test_data_is_found_through_importlib_resources(bare: Path) -> None:
    data = [
        path.as_posix()
        for path in source_tree.files()
        if path.suffix != ".py" and (path.parts[0] in FOLDERS or path.name == "py.typed")
    ]
    script = (
        "from importlib.resources import files; root = files('rhumbline'); "
        f"print([p for p in {data} if not root.joinpath(p).is_file()])"
    )
    assert data
    assert run(bare / "python", "-c", script, cwd=bare).strip() == "[]"
