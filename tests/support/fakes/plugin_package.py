"""An installed package with entry points, as far as ``importlib.metadata`` can tell."""

from collections.abc import Mapping
from pathlib import Path


def install(folder: Path, name: str, code: str, entries: Mapping[str, Mapping[str, str]]) -> None:
    """Write the module ``name`` and its metadata, version 1.0, into ``folder``.

    ``entries`` maps groups of entry points to the values by name. The caller adds the folder to
    ``sys.path``.
    """
    (folder / f"{name}.py").write_text(code)
    information = folder / f"{name}-1.0.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines: list[str] = []
    for group, values in entries.items():
        lines += [f"[{group}]", *(f"{key} = {value}" for key, value in values.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
