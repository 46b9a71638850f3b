"""Builds the package (PEP 517): the modules of the hot path compiled, where that is possible.

`pip install rhumbline` and `pip install .` call it. A wheel is compiled by mypyc if there is a C
compiler for this Python; otherwise it is pure, and the build says why. RHUMBLINE_BUILD=compiled
makes that an error, and RHUMBLINE_BUILD=pure skips the compilation. Both forms behave in the same
way; `rhumbline --version --verbose` says which one is installed.

Two builds of one commit are equal, byte for byte: times come from SOURCE_DATE_EPOCH, or are fixed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from setuptools import build_meta

ROOT = Path(__file__).resolve().parent.parent
_MYPY = "mypy[mypyc]>=2.4,<3"
_FIXED_EPOCH = "1767225600"
_AS_USUAL = 'package-dir = { rhumbline = "." }\n'

_SETUP = """
import os
import tomllib
from mypyc.build import mypycify
from setuptools import setup

modules = tomllib.load(open("pyproject.toml", "rb"))["tool"]["rhumbline"]["compiled"]
paths = [f"rhumbline/{module}" for module in modules]
options = ["--config-file", "mypy.ini", "--explicit-package-bases"]
setup(
    ext_modules=mypycify([*options, *paths], separate=True),
    options={"build_ext": {"parallel": os.cpu_count()}},
)
"""
_MYPY_INI = "[mypy]\nignore_missing_imports = True\nfollow_imports = silent\n"
"""The types are checked by `make types`; here, packages of other projects may be missing, which
makes names unknown in modules that are not compiled."""

Options = dict[str, Any] | None

get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_editable = build_meta.get_requires_for_build_editable
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable
build_editable = build_meta.build_editable


def get_requires_for_build_wheel(config_settings: Options = None) -> list[str]:
    """Return what a build needs besides setuptools."""
    needed = list(build_meta.get_requires_for_build_wheel(config_settings))
    return needed if _form() == "pure" else [*needed, _MYPY]


def build_sdist(sdist_directory: str, config_settings: Options = None) -> str:
    """Build the source distribution and return its name."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", _FIXED_EPOCH)
    return build_meta.build_sdist(sdist_directory, config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Options = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel and return its name."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", _FIXED_EPOCH)
    form = _form()
    if form != "pure":
        reason = "mypyc is not installed"
        if find_spec("mypyc") is not None:
            try:
                return compiled_wheel(Path(wheel_directory))
            except subprocess.CalledProcessError as error:
                reason = f"the compilation failed (exit code {error.returncode}, see above)"
        if form == "compiled":
            raise SystemExit(f"rhumbline: no compiled wheel: {reason}")
        print(f"rhumbline: building the pure form: {reason}", file=sys.stderr)
    return build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)


def compiled_wheel(folder: Path, root: Path = ROOT) -> str:
    """Compile a copy of the package into a wheel in ``folder``; return the wheel's name.

    The build works on a copy, so a checkout never holds a compiled module that is older than its
    source. Raises CalledProcessError.
    """
    with tempfile.TemporaryDirectory(prefix="rhumbline-build-") as work:
        source = Path(work) / "source"
        _copy(root, source)
        built = Path(work) / "wheel"
        built.mkdir()
        script = "import sys; from setuptools import build_meta as b; b.build_wheel(sys.argv[1])"
        maps = f"-ffile-prefix-map={source}=. -ffile-prefix-map={_folder_of('mypyc')}=mypyc"
        subprocess.run(
            [sys.executable, "-c", script, built],
            cwd=source,
            env={
                "SOURCE_DATE_EPOCH": _FIXED_EPOCH,
                **os.environ,
                "MAKEFLAGS": "",
                "CFLAGS": f"-O2 -g0 -w {maps}",
                "PYTHONHASHSEED": "0",
            },
            check=True,
        )
        (wheel,) = built.glob("*.whl")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(wheel, folder / wheel.name)
        return wheel.name


def _folder_of(package: str) -> Path:
    """Return the folder of a package; the C compiler notes the paths of its headers."""
    spec = find_spec(package)
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _form() -> str:
    form = os.environ.get("RHUMBLINE_BUILD", "")
    if form not in ("", "compiled", "pure"):
        raise SystemExit(f"rhumbline: RHUMBLINE_BUILD={form!r} is not compiled or pure")
    return form


def _copy(root: Path, folder: Path) -> None:
    """Copy the package and its build files, with the package in a folder of its name."""
    project = (root / "pyproject.toml").read_text()
    assert _AS_USUAL in project
    ignore = shutil.ignore_patterns("__pycache__", "*.so")
    tops = {
        name.split(".")[1]
        for name in tomllib.loads(project)["tool"]["setuptools"]["packages"]
        if "." in name
    }
    for top in sorted(tops):
        shutil.copytree(root / top, folder / "rhumbline" / top, ignore=ignore)
    for path in (*sorted(root.glob("*.py")), root / "py.typed"):
        shutil.copy2(path, folder / "rhumbline" / path.name)
    for name in ("README.md", "LICENSE"):
        shutil.copy2(root / name, folder / name)
    (folder / "pyproject.toml").write_text(
        project.replace(_AS_USUAL, "")
        .replace('build-backend = "build_backend"', 'build-backend = "setuptools.build_meta"')
        .replace('backend-path = [".ci"]\n', "")
    )
    (folder / "mypy.ini").write_text(_MYPY_INI)
    (folder / "setup.py").write_text(_SETUP)
