"""The wheel, built from a clean copy, works in a bare environment outside of the checkout."""

import shutil
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from rhumbline.tests.support.processes.plain_commands import run
from rhumbline.tests.support.tidy import source_tree
from rhumbline.tests.support.tidy.source_tree import ROOT

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a wheel that was built from a source distribution, as for a release."""
    copy = tmp_path_factory.mktemp("copy")
    for path in source_tree.files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / path, copy / path, follow_symlinks=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RHUMBLINE_BUILD", "pure")  # test_compiled_package.py builds the other form
        run(
            sys.executable,
            "-m",
            "build",
            "--no-isolation",
            "--outdir",
            copy / "dist",
            ".",
            cwd=copy,
        )
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Yield the bin folder of an environment with only the base dependencies and the wheel."""
    folder = tmp_path_factory.mktemp("bare")
    run(sys.executable, "-m", "venv", "env", cwd=folder)
    pip: list[str | Path] = [
        folder / "env/bin/python",
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
    ]
    lock = ROOT / "requirements.lock"
    run(*pip, "install", "--no-compile", "--require-hashes", "-r", lock, cwd=folder)
    run(*pip, "install", "--no-compile", "--no-deps", "--no-index", wheel, cwd=folder)
    yield folder / "env/bin"
    shutil.rmtree(folder)


def test_wheel_holds_all_of_the_product_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    folders = source_tree.product_folders()
    product = {p for p in source_tree.files() if p.parts[0] in folders}
    public = {p for p in source_tree.files() if len(p.parts) == 1 and p.suffix == ".py"}
    expected = product | public | {Path("py.typed")}
    assert held == {f"rhumbline/{path.as_posix()}" for path in expected}


def test_declared_dependencies_are_enough(bare: Path) -> None:
    run(bare / "python", "-m", "pip", "check", cwd=bare)


def test_command_runs(bare: Path) -> None:
    assert "Usage" in run(bare / "rhumbline", "--help", cwd=bare)
    assert run(bare / "rhumbline", "--version", cwd=bare).strip()


def test_every_package_imports(bare: Path) -> None:
    public = ("errors", "plugins", "policies", "settings", "stores", "sync", "topics")
    names = ", ".join((*source_tree.packages(), *(f"rhumbline.{name}" for name in public)))
    run(bare / "python", "-W", "error", "-c", f"import {names}", cwd=bare)


def test_folders_are_not_importable_at_top_level(bare: Path) -> None:
    names = [*source_tree.product_folders(), "tests", "docs"]
    script = f"from importlib.util import find_spec; print([n for n in {names} if find_spec(n)])"
    assert run(bare / "python", "-c", script, cwd=bare).strip() == "[]"


def test_data_is_found_through_importlib_resources(bare: Path) -> None:
    folders = source_tree.product_folders()
    data = [
        path.as_posix()
        for path in source_tree.files()
        if path.suffix != ".py" and (path.parts[0] in folders or path.name == "py.typed")
    ]
    script = (
        "from importlib.resources import files; root = files('rhumbline'); "
        f"print([p for p in {data} if not root.joinpath(p).is_file()])"
    )
    assert data
    assert run(bare / "python", "-c", script, cwd=bare).strip() == "[]"
