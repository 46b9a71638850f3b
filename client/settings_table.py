"""Reads tables of settings, as TOML has them, into the dataclasses that declare them.

Numbers may be written with their unit: ``"10ms"``, ``"64MiB"``. A field without a default is
required, and unknown keys are errors. All errors are collected.
"""

import difflib
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import is_dataclass
from enum import Enum
from typing import Any, TypeVar, get_args, get_origin

from ..core.protocol.errors import InvalidArgumentError
from ..core.runtime.settings import DeclaredSetting, Unit, faults_of, settings_of
from .units import parse_bytes, parse_ms

T = TypeVar("T")

LENGTH_MAX = 200
"""Maximum number of items in a list; a string may have ten times as many characters."""


def read_table(cls: type[T], table: Mapping[str, Any], where: str, errors: list[str]) -> T | None:
    """Return a ``cls`` with the values of a table; if the table is invalid, add to ``errors``."""
    declared = settings_of(cls)
    before = len(errors)
    for key in table:
        if key not in declared:
            errors.append(f"{where}: unknown key {key}{suggestion(key, declared)}")
    errors += [
        f"{where}: {name} is missing"
        for name, item in declared.items()
        if item.is_required and name not in table
    ]
    values: dict[str, Any] = {}
    for name, item in declared.items():
        if name in table:
            values[name] = _read_nested(item, item.kind, table[name], f"{where}.{name}", errors)
    values = {name: value for name, value in values.items() if value is not None}
    errors += [
        f"{where}.{name}: {fault}" for name, fault in faults_with_defaults(cls, values, table)
    ]
    return cls(**values) if len(errors) == before else None


def faults_with_defaults(
    cls: type, values: Mapping[str, Any], given: Container[str]
) -> Iterator[tuple[str, str]]:
    """Yield the faults of values with the defaults of the settings that were not ``given``.

    A given setting without a value, because it could not be read, is not checked.
    """
    defaults = {
        name: item.default
        for name, item in settings_of(cls).items()
        if not item.is_required and name not in given
    }
    yield from faults_of(cls, defaults | dict(values))


def read_value(declared: DeclaredSetting, value: object) -> Any:  # noqa: ANN401 - the setting's type
    """Return a value of a file, the environment or an option as the type of its setting.

    Bounds are not checked. Raises InvalidArgumentError.
    """
    return _read_single(declared, declared.kind, value)


def is_list(declared: DeclaredSetting) -> bool:
    """Return whether the value of a setting is a list of simple values."""
    return get_origin(declared.kind) is tuple and not declared.is_mapping


def read_list(declared: DeclaredSetting, value: object) -> tuple[Any, ...]:
    """Return the items of a list, or those of a string that commas separate.

    Raises InvalidArgumentError.
    """
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",") if part.strip()]
    if not isinstance(value, list):
        raise InvalidArgumentError(f"{value!r} is not a list")
    if len(value) > LENGTH_MAX:
        raise InvalidArgumentError(f"{len(value)} items, above the limit of {LENGTH_MAX}")
    kind = get_args(declared.kind)[0]
    return tuple(_read_single(declared, kind, item) for item in value)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown word: the nearest known one, or all."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=1)
    if close:
        return f"; did you mean {close[0]}?"
    return f" (known: {', '.join(names)})" if names else ""


def _read_nested(
    declared: DeclaredSetting,
    kind: Any,  # noqa: ANN401 - a type
    value: object,
    where: str,
    errors: list[str],
) -> Any:  # noqa: ANN401 - the setting's type
    """Read a value that may consist of tables and lists; None if it has errors."""
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return read_table(kind, value, where, errors)
    if get_origin(kind) is tuple and isinstance(value, list) and not declared.is_mapping:
        if len(value) <= LENGTH_MAX:
            item_kind = get_args(kind)[0]
            items = tuple(
                _read_nested(declared, item_kind, item, f"{where}[{number}]", errors)
                for number, item in enumerate(value, 1)
            )
            return None if None in items else items
        errors.append(f"{where}: {len(value)} items, above the limit of {LENGTH_MAX}")
        return None
    try:
        return _read_single(declared, kind, value)
    except InvalidArgumentError as error:
        errors.append(f"{where}: {error}")
        return None


def _read_single(declared: DeclaredSetting, kind: Any, value: object) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        if len(value) > 10 * LENGTH_MAX:
            raise InvalidArgumentError(
                f"{len(value)} characters, above the limit of {10 * LENGTH_MAX}"
            )
        value = _parse(declared, kind, value)
    if declared.is_mapping and isinstance(value, Mapping):
        entries = tuple((name, item) for name, item in sorted(value.items()))
        if all(isinstance(item, str) for _, item in entries):
            return entries
    elif value is None and declared.is_optional:
        return None
    elif (fault := declared.type_fault(kind, value)) is None:
        return value
    else:
        raise InvalidArgumentError(fault)
    raise InvalidArgumentError(f"{value!r} is not a table of strings")


def _parse(declared: DeclaredSetting, kind: Any, text: str) -> object:  # noqa: ANN401 - a type
    """Return a string as a value of the type; a string that has another form is returned."""
    if declared.is_optional and text.lower() == "none":
        return None
    if kind is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return {member.name.lower(): member for member in kind}.get(text.lower(), text)
    if kind not in (int, float):
        return text
    if declared.unit is Unit.MS:
        return parse_ms(text)
    if declared.unit is Unit.BYTES:
        return parse_bytes(text)
    try:
        return kind(text)
    except ValueError:
        return text
