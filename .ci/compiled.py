"""Builds the compiled form of the package: a wheel for this platform, and its unpacked content.

mypyc compiles the modules that pyproject.toml lists under `tool.rhumbline.compiled` to machine
code. All other modules, and the sources of the compiled ones, are included unchanged. The build
works on a copy, so a checkout never holds a compiled module that is older than its source.

    python .ci/compiled.py [FOLDER]      (default: build/compiled)

The results are FOLDER/dist/rhumbline-*.whl and FOLDER/rhumbline; with `PYTHONPATH=FOLDER` Python
imports the latter instead of the checkout. A C compiler and the headers of this Python are needed.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from packages import ROOT, product_folders

_AT_ROOT = ("README.md", "LICENSE")
_AS_USUAL = 'package-dir = { rhumbline = "." }\n'

_SETUP = """
import os
import tomllib
from mypyc.build import mypycify
from setuptools import setup

modules = tomllib.load(open("pyproject.toml", "rb"))["tool"]["rhumbline"]["compiled"]
paths = [f"rhumbline/{module}" for module in modules]
options = ["--config-file", "pyproject.toml", "--explicit-package-bases"]
setup(
    ext_modules=mypycify([*options, *paths], separate=True),
    options={"build_ext": {"parallel": os.cpu_count()}},
)
"""


def copy_product(folder: Path) -> None:
    """Copy the product and its build files, with the package in a folder of its name."""
    shutil.rmtree(folder, ignore_errors=True)
    package = folder / "rhumbline"
    for top in product_folders():
        ignore = shutil.ignore_patterns("__pycache__", "*.so")
        shutil.copytree(top, package / top.name, ignore=ignore)
    for path in (*sorted(ROOT.glob("*.py")), ROOT / "py.typed"):
        shutil.copy2(path, package / path.name)
    for name in _AT_ROOT:
        shutil.copy2(ROOT / name, folder / name)
    project = (ROOT / "pyproject.toml").read_text()
    assert _AS_USUAL in project
    (folder / "pyproject.toml").write_text(project.replace(_AS_USUAL, ""))
    (folder / "setup.py").write_text(_SETUP)


def build(folder: Path) -> Path:
    """Build the wheel below ``folder`` and unpack it there; return the wheel."""
    source = folder / "source"
    copy_product(source)
    dist = folder / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "wheel"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--no-deps", "--no-index", "--wheel-dir", dist, "."],
        cwd=source,
        env={**os.environ, "MAKEFLAGS": "", "CFLAGS": "-O2 -g0 -w"},
        check=True,
    )
    (wheel,) = dist.glob("*.whl")
    shutil.rmtree(folder / "rhumbline", ignore_errors=True)
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return wheel


if __name__ == "__main__":
    print(build(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/compiled").resolve()))
