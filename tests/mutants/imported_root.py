"""Verifies that a process imports the product whose source is mutated, not that of another copy."""

from pathlib import Path

import rhumbline


def check_imported_root(folder: Path) -> None:
    """End the process unless ``rhumbline`` is imported from ``folder``.

    The tests of another copy of the repository would run instead, and every mutant would survive.
    """
    imported = Path(rhumbline.__file__).resolve().parent
    if imported != folder.resolve():
        raise SystemExit(
            f"rhumbline is imported from {imported}, not from {folder.resolve()}: run the Python "
            "in whose environment this copy of the repository is installed"
        )
