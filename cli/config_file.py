"""Loads settings from a TOML file, the environment and the command line.

A later source overrides an earlier one: default, file, ``RHUMBLINE_SECTION__KEY``, option. Unknown
sections and keys are errors, and all errors are reported at once. This is the only module that
reads configuration files or the environment.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

from ..client.settings import Settings
from ..client.settings_table import (
    faults_with_defaults,
    is_list,
    read_list,
    read_value,
    suggestion,
)
from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from ..core.runtime.settings import DeclaredSetting, settings_of

ENV_PREFIX = "RHUMBLINE_"
ENV_FILE = "RHUMBLINE_CONFIG"
DEV_DIRECTORY = "rhumbline-dev"
DEFAULT_FILES = (
    "rhumbline.toml",
    f"{DEV_DIRECTORY}/rhumbline.toml",
    "/etc/rhumbline/rhumbline.toml",
)

_Values = dict[tuple[str, str], tuple[Any, str]]
"""Maps (section, key) to (value, source)."""


@dataclass(frozen=True, slots=True)
class Key:
    """A setting of a section, for ``config explain`` and the reference page."""

    section: str
    setting: DeclaredSetting

    @property
    def name(self) -> str:
        """The name in the file: ``section.key``."""
        return f"{self.section}.{self.setting.name}"

    @property
    def env(self) -> str:
        """The environment variable."""
        return f"{ENV_PREFIX}{self.section}__{self.setting.name}".upper()

    @property
    def values(self) -> str:
        """The valid values in words: type and bounds."""
        return ", ".join(filter(None, (self.setting.type_text, self.setting.bounds_text)))


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings, the file that was read (if any), and the source of each value that is set."""

    settings: Settings
    file: Path | None
    sources: Mapping[str, str]


def load_settings(
    file: Path | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    options: Mapping[str, Any] | None = None,
) -> Loaded:
    """Read and check all sources. ``options`` maps ``section.key`` to a value; None means not set.

    Without ``file``, the file named by RHUMBLINE_CONFIG is read, or else the first of DEFAULT_FILES
    that exists. Raises ConfigurationError, which lists every error.
    """
    if file is None and environ.get(ENV_FILE):
        file = Path(environ[ENV_FILE])
    if file is None:
        file = next((path for path in _default_files() if path.is_file()), None)
    faults: list[str] = []
    values: _Values = {}
    if file is not None:
        _add_table(_read_toml(file), str(file), values, faults)
    _add_environment(environ, values, faults)
    _add_options(options or {}, values, faults)
    sections = {name: _build(name, cls, values, faults) for name, cls in _sections().items()}
    if faults:
        raise ConfigurationError("\n".join(faults))
    sources = {f"{section}.{key}": source for (section, key), (_, source) in values.items()}
    return Loaded(Settings(**sections), file, sources)


def _default_files() -> Iterator[Path]:
    """Yield DEFAULT_FILES; a working directory that the user may not search has no settings."""
    may_search = os.access(os.curdir, os.X_OK)
    yield from (path for path in map(Path, DEFAULT_FILES) if may_search or path.is_absolute())


def all_keys() -> Iterator[Key]:
    """Yield every setting, in order."""
    for section, cls in _sections().items():
        for declared in settings_of(cls).values():
            yield Key(section, declared)


# --- sources ------------------------------------------------------------------------------------


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ConfigurationError(f"{file}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file}: invalid TOML: {error}") from error


def _add_table(table: Mapping[str, Any], source: str, values: _Values, faults: list[str]) -> None:
    for section, content in table.items():
        if section not in _sections():
            near = suggestion(section, _sections())
            faults.append(f"{source}: unknown section [{section}]{near}")
        elif not isinstance(content, dict):
            faults.append(f"{source}: {section} must be a section: [{section}]")
        else:
            known = _declared(section)
            for key, value in content.items():
                if key in known:
                    values[section, key] = (value, source)
                else:
                    faults.append(
                        f"{source}: unknown key {key} in [{section}]{suggestion(key, known)}"
                    )


def _add_environment(environ: Mapping[str, str], values: _Values, faults: list[str]) -> None:
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or "__" not in name:
            continue
        section, _, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        key, _, part = key.partition("__")
        known = _declared(section) if section in _sections() else {}
        if key not in known:
            faults.append(f"environment: unknown setting {name}{suggestion(key, known)}")
        elif part:  # one entry of a table, e.g. ...__ADVERTISED_ADDRESSES__EU
            before, _ = values.get((section, key), ({}, ""))
            values[section, key] = ({**before, part: environ[name]}, f"environment {name}")
        else:
            values[section, key] = (environ[name], f"environment {name}")


def _add_options(options: Mapping[str, Any], values: _Values, faults: list[str]) -> None:
    for name, value in options.items():
        if value is None:
            continue
        section, _, key = name.partition(".")
        known = _declared(section) if section in _sections() else {}
        if key not in known:
            near = suggestion(key, known) if known else suggestion(section, _sections())
            faults.append(f"option: unknown setting {name}{near}")
        else:
            values[section, key] = (value, "option")


# --- values -------------------------------------------------------------------------------------


def _build(section: str, cls: type, values: _Values, faults: list[str]) -> Any:  # noqa: ANN401
    """Build the dataclass of a section; None if it has a fault."""
    before = len(faults)
    given: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for name, declared in settings_of(cls).items():
        if (section, name) in values:
            value, sources[name] = values[section, name]
            try:
                read = read_list if is_list(declared) else read_value
                given[name] = read(declared, value)
            except InvalidArgumentError as error:
                faults.append(f"{sources[name]}: {section}.{name}: {error}")
    faults += [
        f"{sources.get(name, 'default')}: {section}.{name}: {fault}"
        for name, fault in faults_with_defaults(cls, given, sources)
    ]
    return cls(**given) if len(faults) == before else None


@cache
def _sections() -> Mapping[str, type]:
    hints = get_type_hints(Settings)
    return {section.name: hints[section.name] for section in fields(Settings)}


def _declared(section: str) -> Mapping[str, DeclaredSetting]:
    return settings_of(_sections()[section])
