"""Loads scenarios, from the library by name or from a user's file."""

import tomllib
from pathlib import Path

from ...client.settings_table import read_table
from ...core.protocol.errors import ConfigurationError
from .scenario import Scenario

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
_BYTES_MAX = 256 * 1024


def names() -> list[str]:
    """Return the names of the scenarios in the library."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Scenario:
    """Return the library's scenario ``name``, or read the file ``name`` if it ends in ``.toml``.

    Raises ConfigurationError if there is none, or with all errors in the file.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file() or (path.parent == FOLDER and path.stem not in names()):
        raise ConfigurationError(f"unknown scenario {name}: `rhumbline chaos ls` lists the library")
    if path.stat().st_size > _BYTES_MAX:
        size = path.stat().st_size
        raise ConfigurationError(f"{path}: {size} bytes, above the limit of {_BYTES_MAX} bytes")
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except ConfigurationError as error:
        lines = str(error).splitlines()
        raise ConfigurationError("\n".join(f"{path.name}: {line}" for line in lines)) from error


def parse(text: str, name: str) -> Scenario:
    """Parse a scenario from a TOML string. Raises ConfigurationError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"invalid TOML: {error}") from error
    errors: list[str] = []
    if "name" in table:
        errors.append("name: not allowed; a scenario is named after its file")
    scenario = read_table(Scenario, {**table, "name": name}, "scenario", errors)
    if scenario is None or errors:
        raise ConfigurationError("\n".join(errors))
    return scenario
