"""A mutation is a file of data: which text of which file is replaced by what.

It is applied to a copy of the package, never to the package itself, and production code knows
nothing of it. A patch whose old text is not there exactly once is refused, so that a patch cannot
silently stop being one. The checker and the simulator are never changed, nor is the quorum
arithmetic that the checker shares.
"""

import shutil
import tomllib
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent.parent
PATCHES = Path(__file__).resolve().parent / "patches"

_LEFT_OUT = shutil.ignore_patterns(".*", "__pycache__", "tests", "docs", "build", "dist")
_NEVER_CHANGED = ("chaos/", "core/protocol/quorum.py", "core/protocol/ledger_metadata.py")


class PatchError(Exception):
    """The patch does not fit the code any more."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a text that stands exactly once in a file of the package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One bug: what is wrong with the code, and the plan that is to find it."""

    name: str
    title: str
    plan: str
    edits: tuple[Edit, ...]
    counts: tuple[str, ...] = ()
    """The invariants that this bug breaks; what else happens is no find. Empty: any of them."""


def load(name: str) -> PlantedBug:
    """The mutation of that name. Raises PatchError when there is none."""
    path = PATCHES / f"{name}.toml"
    if not path.is_file():
        raise PatchError(f"no mutation {name!r}; there are: {', '.join(names())}")
    data = tomllib.loads(path.read_text())
    edits = tuple(Edit(**edit) for edit in data["edit"])
    return PlantedBug(name, data["title"], data["plan"], edits, tuple(data.get("counts", ())))


def names() -> list[str]:
    """All mutations: the numbered bugs in order, then the others."""
    return sorted((path.stem for path in PATCHES.glob("*.toml")), key=_order)


def _order(name: str) -> tuple[int, str]:
    digits = name[1:].partition("-")[0]
    return (int(digits), name) if name[0] == "b" and digits.isdigit() else (1000, name)


def copy_with(mutation: PlantedBug | None, folder: Path) -> Path:
    """Copies the package to ``folder``/rhumbline and applies the mutation; returns ``folder``.

    None: an unchanged copy. Raises PatchError.
    """
    copy = folder / "rhumbline"
    shutil.copytree(PACKAGE, copy, ignore=_LEFT_OUT)
    for edit in mutation.edits if mutation is not None else ():
        apply(edit, copy)
    return folder


def apply(edit: Edit, root: Path) -> None:
    """Changes one file below ``root``. Raises PatchError."""
    if edit.file.startswith(_NEVER_CHANGED):
        raise PatchError(f"{edit.file} is part of what judges")
    path = root / edit.file
    text = path.read_text()
    if text.count(edit.old) != 1:
        raise PatchError(f"{edit.file} has {text.count(edit.old)} times:\n{edit.old}")
    path.write_text(text.replace(edit.old, edit.new))
