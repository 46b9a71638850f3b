"""Builds rhumbline-lab (PEP 517): folders of the repository, as parts of the package rhumbline.

The folders are beside this one, where setuptools would not find them, so a build works on a copy in
which they are below ``rhumbline/``. A source distribution is such a copy, and is built as it is.

An editable installation holds the name, the version and the pytest plugin only: the modules come
from an editable installation of rhumbline, whose package is the whole repository.

Two builds of one commit are equal, byte for byte: times come from SOURCE_DATE_EPOCH, or are fixed.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta

HERE = Path(__file__).resolve().parent
FOLDERS = ("bench", "chaos", "testing")
_FILES = ("build_backend.py", "MANIFEST.in", "pyproject.toml", "README.md")
_FIXED_EPOCH = "1767225600"
_IGNORED = shutil.ignore_patterns("__pycache__", "*.so")

Options = dict[str, Any] | None

get_requires_for_build_sdist = build_meta.get_requires_for_build_sdist
get_requires_for_build_wheel = build_meta.get_requires_for_build_wheel
get_requires_for_build_editable = build_meta.get_requires_for_build_editable


def build_sdist(sdist_directory: str, config_settings: Options = None) -> str:
    """Build the source distribution and return its name."""
    folder = os.path.abspath(sdist_directory)
    with _source(FOLDERS):
        return build_meta.build_sdist(folder, config_settings)


def build_wheel(
    wheel_directory: str, config_settings: Options = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel and return its name."""
    folder = os.path.abspath(wheel_directory)
    with _source(FOLDERS):
        return build_meta.build_wheel(folder, config_settings)


def build_editable(
    wheel_directory: str, config_settings: Options = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel without modules and return its name."""
    folder = os.path.abspath(wheel_directory)
    with _source(()):
        return build_meta.build_wheel(folder, config_settings)


@contextmanager
def _source(folders: tuple[str, ...]) -> Iterator[None]:
    """Enter a folder with the files of a build."""
    os.environ.setdefault("SOURCE_DATE_EPOCH", _FIXED_EPOCH)
    root = HERE.parent
    if (HERE / "rhumbline").is_dir():
        with chdir(HERE):
            yield
        return
    with tempfile.TemporaryDirectory(prefix="rhumbline-lab-") as work:
        for name in folders:
            shutil.copytree(root / name, Path(work) / "rhumbline" / name, ignore=_IGNORED)
        for path in (*(HERE / name for name in _FILES), root / "LICENSE"):
            shutil.copy2(path, work)
        with chdir(work):
            yield
