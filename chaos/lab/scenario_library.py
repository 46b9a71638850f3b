"""Finds scenarios: in the library by name, or in a file of the user's."""

import tomllib
from pathlib import Path

from ...core.protocol.errors import ConfigurationError
from .scenario import Scenario
from .toml_tables import read_table

FOLDER = Path(__file__).resolve().parent.parent / "scenarios"
_BYTES_MAX = 256 * 1024


def names() -> list[str]:
    """The scenarios of the library."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


def load(name: str) -> Scenario:
    """The scenario ``name`` of the library, or the one in the file of that path.

    Raises ConfigurationError: there is none, or with all that is wrong with it.
    """
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    if not path.is_file() or (path.parent == FOLDER and path.stem not in names()):
        raise ConfigurationError(f"no scenario {name}: `rhumbline chaos ls` lists the library")
    if path.stat().st_size > _BYTES_MAX:
        raise ConfigurationError(f"{path}: more than {_BYTES_MAX} bytes are no scenario")
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except ConfigurationError as error:
        lines = str(error).splitlines()
        raise ConfigurationError("\n".join(f"{path.name}: {line}" for line in lines)) from error


def parse(text: str, name: str) -> Scenario:
    """A scenario from TOML text. Raises ConfigurationError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"not TOML: {error}") from error
    faults: list[str] = []
    if "name" in table:
        faults.append("name: a scenario is named by its file")
    scenario = read_table(Scenario, {**table, "name": name}, "scenario", faults)
    if scenario is None or faults:
        raise ConfigurationError("\n".join(faults))
    return scenario
