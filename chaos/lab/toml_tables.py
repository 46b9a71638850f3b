"""Reads TOML tables into frozen dataclasses, with checks, and reports all errors at once.

The type of a field determines the values that it accepts. ``limited`` adds the bounds of a number
or the list of allowed words. A field without a default is required. Unknown keys are errors.
"""

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

LENGTH_MAX = 200
"""Maximum number of items in a list; a string may have ten times as many characters."""


def limited(
    low: float = 0,
    high: float = 0,
    *,
    words: tuple[str, ...] = (),
    default: Any = MISSING,  # noqa: ANN401 - the field's type
) -> Any:  # noqa: ANN401 - as ``dataclasses.field``
    """Declare a field with bounds for a number, or with the allowed words for a string."""
    return field(default=default, metadata={"low": low, "high": high, "words": words})


def read_table(cls: type[T], table: Mapping[str, Any], where: str, errors: list[str]) -> T | None:
    """Return a ``cls`` with the values of a table; if the table is invalid, add to ``errors``."""
    hints = get_type_hints(cls)
    assert is_dataclass(cls)
    known = {item.name: item for item in fields(cls)}
    before = len(errors)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            errors.append(f"{where}: unknown key {key} ({hint})")
    values: dict[str, Any] = {}
    for name, item in known.items():
        if name in table:
            values[name] = _value(hints[name], table[name], f"{where}.{name}", item, errors)
        elif item.default is MISSING and item.default_factory is MISSING:
            errors.append(f"{where}: {name} is missing")
    return cls(**values) if len(errors) == before else None


def _value(hint: Any, value: Any, where: str, item: "Field[Any]", errors: list[str]) -> Any:  # noqa: ANN401
    if is_dataclass(hint):
        if isinstance(value, dict):
            return read_table(hint, value, where, errors)  # type: ignore[arg-type]
        return _add_error(errors, where, value, "a table")
    if get_origin(hint) is tuple:
        return _items(hint, value, where, item, errors)
    if hint is bool:
        return (
            value if isinstance(value, bool) else _add_error(errors, where, value, "true or false")
        )
    if hint is str:
        return _string(value, where, item, errors)
    assert hint in (int, float), hint
    is_number = isinstance(value, int if hint is int else int | float)
    if isinstance(value, bool) or not is_number:
        return _add_error(errors, where, value, "a whole number" if hint is int else "a number")
    low, high = item.metadata["low"], item.metadata["high"]
    if not low <= value <= high:
        return _add_error(errors, where, value, f"between {low:g} and {high:g}")
    return value


def _items(hint: Any, value: Any, where: str, item: "Field[Any]", errors: list[str]) -> Any:  # noqa: ANN401
    if not isinstance(value, list) or len(value) > LENGTH_MAX:
        return _add_error(errors, where, value, f"a list of at most {LENGTH_MAX} items")
    kind = get_args(hint)[0]
    return tuple(
        _value(kind, element, f"{where}[{index}]", item, errors)
        for index, element in enumerate(value, 1)
    )


def _string(value: Any, where: str, item: "Field[Any]", errors: list[str]) -> Any:  # noqa: ANN401
    words = item.metadata.get("words", ())
    if not isinstance(value, str) or (words and value not in words):
        return _add_error(
            errors, where, value, f"one of {', '.join(words)}" if words else "a string"
        )
    if len(value) > 10 * LENGTH_MAX:
        return _add_error(errors, where, value[:20], f"at most {10 * LENGTH_MAX} characters")
    return value


def _add_error(errors: list[str], where: str, value: object, wanted: str) -> None:
    errors.append(f"{where}: {value!r} is not {wanted}")
