"""Planted bugs as data: files with strings of the code and their replacements.

A bug is applied to a copy of the package, never to the package itself. A patch is refused unless
its old text occurs exactly once, so that it cannot silently become ineffective. The checker, the
simulator and the quorum arithmetic that the checker shares are never changed.
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
    """The patch does not apply to the code."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a text that occurs exactly once in a file of the package."""

    file: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class PlantedBug:
    """One bug: a title that states the fault, the edits, and the plan that should find it."""

    name: str
    title: str
    plan: str
    edits: tuple[Edit, ...]
    counts: tuple[str, ...] = ()
    """The invariants whose violation counts as finding the bug; empty: any invariant."""
    scope: str = ""
    """The scope of ``chaos/exploration`` that finds the bug; empty if none is known."""


def load(name: str) -> PlantedBug:
    """Return the planted bug with that name. Raises PatchError if there is none."""
    path = PATCHES / f"{name}.toml"
    if not path.is_file():
        raise PatchError(f"unknown planted bug {name!r}; known: {', '.join(names())}")
    data = tomllib.loads(path.read_text())
    edits = tuple(Edit(**edit) for edit in data["edit"])
    counts = tuple(data.get("counts", ()))
    return PlantedBug(name, data["title"], data["plan"], edits, counts, data.get("scope", ""))


def names() -> list[str]:
    """Return the names of all planted bugs: the numbered bugs in order, then the others."""
    return sorted((path.stem for path in PATCHES.glob("*.toml")), key=_order)


def _order(name: str) -> tuple[int, str]:
    digits = name[1:].partition("-")[0]
    return (int(digits), name) if name[0] == "b" and digits.isdigit() else (1000, name)


def copy_with(bug: PlantedBug | None, folder: Path) -> Path:
    """Copy the package to ``folder``/rhumbline with a planted bug (None: unchanged).

    Returns ``folder``. Raises PatchError if the patch does not apply.
    """
    copy = folder / "rhumbline"
    shutil.copytree(PACKAGE, copy, ignore=_LEFT_OUT)
    for edit in bug.edits if bug is not None else ():
        apply(edit, copy)
    return folder


def apply(edit: Edit, root: Path) -> None:
    """Apply an edit to a file below ``root``. Raises PatchError if it does not apply."""
    if edit.file.startswith(_NEVER_CHANGED):
        raise PatchError(f"{edit.file} is part of the checker and must not be changed")
    path = root / edit.file
    text = path.read_text()
    if text.count(edit.old) != 1:
        raise PatchError(
            f"{edit.file} contains the text {text.count(edit.old)} times, not once:\n{edit.old}"
        )
    path.write_text(text.replace(edit.old, edit.new))
