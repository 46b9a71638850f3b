"""The files of this repository, committed or to be committed, for the tidy tests."""

import ast
import subprocess
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
TYPE_LINK = ".typecheck"


@cache
def files() -> tuple[Path, ...]:
    """Return every file that git tracks or would add, relative to the root, sorted."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    paths = (Path(name) for name in listed.split("\0") if name)
    return tuple(sorted({path for path in paths if (ROOT / path).is_file()}))


@cache
def pyproject() -> dict[str, Any]:
    """Return pyproject.toml, parsed."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


@cache
def packages() -> tuple[str, ...]:
    """Return the dotted names of all packages in the tree."""
    command = ["python3", ".ci/packages.py"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return tuple(done.stdout.split())


def folder_of(package: str) -> Path:
    """Return the folder of a package, relative to the root."""
    return Path(*package.split(".")[1:])


def product_folders() -> list[str]:
    """Return the top-level folders with product code."""
    return sorted({package.split(".")[1] for package in packages() if "." in package})


def is_generated(path: Path) -> bool:
    """True if protoc generated the file."""
    return "_pb2" in path.name


def product_modules(*folders: str) -> list[Path]:
    """Return the hand-written product modules, of all or some folders (`core/protocol`)."""
    tops = product_folders()
    modules = [path for path in files() if path.suffix == ".py" and not is_generated(path)]
    product = [path for path in modules if path.parts[0] in tops or len(path.parts) == 1]
    if not folders:
        return product
    return [path for path in product if any(path.is_relative_to(folder) for folder in folders)]


def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse((ROOT / path).read_text(), str(path))


def markdown_files() -> list[Path]:
    """Return every markdown file."""
    return [path for path in files() if path.suffix == ".md"]
