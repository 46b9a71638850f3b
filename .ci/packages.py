"""Lists the Python packages of this repository, and updates the list in pyproject.toml.

The repository root is the package `rhumbline`, and setuptools discovers nothing under a renamed
root, so pyproject.toml lists every package of the distribution `rhumbline`. The packages of
`rhumbline-lab` are found when it is built (lab/build_backend.py). Without arguments this script
prints the packages of both; with `--write` it rewrites the list in pyproject.toml.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOT_PRODUCT = {"tests", "docs", "build", "dist", "lab"}
LAB = {"bench", "chaos", "testing"}
"""Folders of the distribution rhumbline-lab."""
_LIST = re.compile(r"^packages = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL)


def product_folders(root: Path = ROOT) -> list[Path]:
    """Return the top-level folders with product code, sorted."""
    return sorted(
        folder
        for folder in root.iterdir()
        if folder.is_dir()
        and not folder.name.startswith((".", "_"))
        and not folder.name.endswith(".egg-info")
        and folder.name not in NOT_PRODUCT
        and any(folder.rglob("*.py"))
    )


def packages(root: Path = ROOT) -> list[str]:
    """Return the dotted name of every folder with Python files, the root package first."""
    folders = {path.parent for top in product_folders(root) for path in top.rglob("*.py")}
    names = (".".join(("rhumbline", *folder.relative_to(root).parts)) for folder in folders)
    return ["rhumbline", *sorted(names)]


def base_packages(root: Path = ROOT) -> list[str]:
    """Return the packages of the distribution `rhumbline`."""
    return [name for name in packages(root) if not LAB.intersection(name.split(".")[1:2])]


def listed_block(names: list[str]) -> str:
    """Return the lines of pyproject.toml that list `names`."""
    return "packages = [\n" + "".join(f'    "{name}",\n' for name in names) + "]\n"


def write(root: Path = ROOT) -> None:
    """Rewrite the list in pyproject.toml."""
    pyproject = root / "pyproject.toml"
    text, count = _LIST.subn(lambda _: listed_block(base_packages(root)), pyproject.read_text())
    assert count == 1, "pyproject.toml must hold exactly one list of packages"
    if text != pyproject.read_text():
        pyproject.write_text(text)


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    else:
        print("\n".join(packages()))
