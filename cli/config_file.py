"""Loads settings from a TOML file, the environment and the command line.

A later source overrides an earlier one: default, file, ``RHUMBLINE_SECTION__KEY``, option. Unknown
sections and keys are errors, and all errors are reported at once. This is the only module that
reads configuration files or the environment.
"""

import ast
import inspect
import os
import textwrap
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..client.settings import Settings
from ..core.protocol.errors import ConfigurationError, InvalidArgumentError
from .units import parse_bytes, parse_ms

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
    """The description of a setting, for ``config explain`` and the reference page."""

    section: str
    name: str
    type: str
    default: Any
    doc: str
    env: str


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
        file = next((Path(name) for name in DEFAULT_FILES if Path(name).is_file()), None)
    faults: list[str] = []
    values: _Values = {}
    if file is not None:
        _add_table(_read_toml(file), str(file), values, faults)
    _add_environment(environ, values, faults)
    for name, value in (options or {}).items():
        if value is not None:
            section, _, key = name.partition(".")
            values[section, key] = (value, "option")
    sections: dict[str, Any] = {f.name: _build(f, values, faults) for f in fields(Settings)}
    if faults:
        raise ConfigurationError("\n".join(faults))
    sources = {f"{section}.{key}": source for (section, key), (_, source) in values.items()}
    return Loaded(Settings(**sections), file, sources)


def all_keys() -> Iterator[Key]:
    """Yield the description of every setting, in order."""
    for section in fields(Settings):
        cls = _section_class(section)
        docs, hints = _field_docs(cls), get_type_hints(cls)
        for f in fields(cls):
            env = f"{ENV_PREFIX}{section.name}__{f.name}".upper()
            shown = _type_text(f.name, hints[f.name])
            yield Key(section.name, f.name, shown, _default(f), docs.get(f.name, ""), env)


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
    known = _known()
    for section, content in table.items():
        if section not in known:
            faults.append(f"{source}: unknown section [{section}]{_near(section, known)}")
        elif not isinstance(content, dict):
            faults.append(f"{source}: {section} must be a section: [{section}]")
        else:
            for key, value in content.items():
                if key in known[section]:
                    values[section, key] = (value, source)
                else:
                    near = _near(key, known[section])
                    faults.append(f"{source}: unknown key {key} in [{section}]{near}")


def _add_environment(environ: Mapping[str, str], values: _Values, faults: list[str]) -> None:
    known = _known()
    for name in sorted(environ):
        if not name.startswith(ENV_PREFIX) or "__" not in name:
            continue
        section, _, key = name.removeprefix(ENV_PREFIX).lower().partition("__")
        key, _, part = key.partition("__")
        if section not in known or key not in known[section]:
            faults.append(
                f"environment: unknown setting {name}{_near(key, known.get(section, ()))}"
            )
        elif part:  # one entry of a table, e.g. ...__ADVERTISED_ADDRESSES__EU
            before, _ = values.get((section, key), ({}, ""))
            values[section, key] = ({**before, part: environ[name]}, f"environment {name}")
        else:
            values[section, key] = (environ[name], f"environment {name}")


def _near(word: str, known: Iterable[str]) -> str:
    import difflib

    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f" (known: {', '.join(names)})" if names else ""


# --- values -------------------------------------------------------------------------------------


def _build(section: "Field[Any]", values: _Values, faults: list[str]) -> object:
    """Build the dataclass of a section. A value with an error is replaced by its default."""
    cls = _section_class(section)
    hints = get_type_hints(cls)
    given: dict[str, Any] = {}
    for f in fields(cls):
        if (section.name, f.name) in values:
            value, source = values[section.name, f.name]
            try:
                given[f.name] = _convert(f.name, hints[f.name], value)
            except InvalidArgumentError as error:
                faults.append(f"{source}: {section.name}.{f.name}: {error}")
    try:
        return cls(**given)
    except ConfigurationError as error:
        faults.append(f"[{section.name}] {error}")
        return None


def _convert(name: str, hint: object, value: object) -> object:
    if hint is bool:
        return _to_bool(value)
    if hint in (int, int | None):
        return _to_int(name, value)
    if hint is float:
        return _to_float(value)
    if hint in (str, str | None) and isinstance(value, str):
        return value
    if get_origin(hint) is Literal:
        if value in get_args(hint):
            return value
        raise InvalidArgumentError(f"{value!r} is not one of {', '.join(map(str, get_args(hint)))}")
    if get_origin(hint) is tuple and isinstance(value, Mapping):
        entries = [(key, item) for key, item in sorted(value.items()) if isinstance(item, str)]
        if len(entries) == len(value):
            return tuple(entries)
    raise InvalidArgumentError(f"{value!r} is not {_type_text(name, hint)}")


def _to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise InvalidArgumentError(f"{value!r} is neither true nor false")


def _to_int(name: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        if _is_duration(name):
            return parse_ms(value)
        if _is_size(name):
            return parse_bytes(value)
        if value.lstrip("-").isdigit():
            return int(value)
    raise InvalidArgumentError(f"{value!r} is not {_type_text(name, int)}")


def _to_float(value: object) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError):
            return float(value)
    raise InvalidArgumentError(f"{value!r} is not a number")


def _is_duration(name: str) -> bool:
    return "ms" in name.split("_")


def _is_size(name: str) -> bool:
    return "bytes" in name.split("_")


# --- descriptions of settings -------------------------------------------------------------------


def _section_class(section: "Field[Any]") -> type[Any]:
    cls: type[Any] = get_type_hints(Settings)[section.name]
    return cls


@cache
def _known() -> dict[str, tuple[str, ...]]:
    return {s.name: tuple(f.name for f in fields(_section_class(s))) for s in fields(Settings)}


def _default(f: "Field[Any]") -> object:
    return f.default if f.default_factory is MISSING else f.default_factory()


def _type_text(name: str, hint: object) -> str:
    if hint in (int, int | None):
        return "a duration" if _is_duration(name) else "a size" if _is_size(name) else "a number"
    if hint is float:
        return "a number"
    if get_origin(hint) is Literal:
        return " or ".join(repr(arg) for arg in get_args(hint))
    if get_origin(hint) is tuple:
        return "a table of strings"
    return "true or false" if hint is bool else "a string"


def _field_docs(cls: type) -> dict[str, str]:
    """Return the string literal below each field of a dataclass; "" for a field without one."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(tree, ast.ClassDef)
    docs: dict[str, str] = {}
    for node, after in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            docs[node.target.id] = ""
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                docs[node.target.id] = " ".join(str(after.value.value).split())
    return docs
