"""TOML tables as frozen dataclasses: typed, bounded, unknown keys refused, all faults at once.

A field says by its type what it takes, and by ``limited`` between which bounds a number lies or
which words there are. What has no default is required.
"""

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")

LENGTH_MAX = 200
"""Longest text, and most items of a list."""


def limited(
    low: float = 0,
    high: float = 0,
    *,
    words: tuple[str, ...] = (),
    default: Any = MISSING,  # noqa: ANN401 - of the field's own type
) -> Any:  # noqa: ANN401 - as ``dataclasses.field``
    """A field between two bounds, or one of some words."""
    return field(default=default, metadata={"low": low, "high": high, "words": words})


def read_table(cls: type[T], table: Mapping[str, Any], where: str, faults: list[str]) -> T | None:
    """The dataclass ``cls`` from a table; None if it has faults, which are added to the list."""
    hints = get_type_hints(cls)
    assert is_dataclass(cls)
    known = {item.name: item for item in fields(cls)}
    before = len(faults)
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(known)}"
            faults.append(f"{where}: unknown key {key} ({hint})")
    values: dict[str, Any] = {}
    for name, item in known.items():
        if name in table:
            values[name] = _value(hints[name], table[name], f"{where}.{name}", item, faults)
        elif item.default is MISSING and item.default_factory is MISSING:
            faults.append(f"{where}: {name} is missing")
    return cls(**values) if len(faults) == before else None


def _value(hint: Any, value: Any, where: str, item: "Field[Any]", faults: list[str]) -> Any:  # noqa: ANN401
    if is_dataclass(hint):
        if isinstance(value, dict):
            return read_table(hint, value, where, faults)  # type: ignore[arg-type]
        return _fault(faults, where, value, "a table")
    if get_origin(hint) is tuple:
        return _items(hint, value, where, item, faults)
    if hint is bool:
        return value if isinstance(value, bool) else _fault(faults, where, value, "true or false")
    if hint is str:
        return _text(value, where, item, faults)
    assert hint in (int, float), hint
    is_number = isinstance(value, int if hint is int else int | float)
    if isinstance(value, bool) or not is_number:
        return _fault(faults, where, value, "a whole number" if hint is int else "a number")
    low, high = item.metadata["low"], item.metadata["high"]
    if not low <= value <= high:
        return _fault(faults, where, value, f"between {low:g} and {high:g}")
    return value


def _items(hint: Any, value: Any, where: str, item: "Field[Any]", faults: list[str]) -> Any:  # noqa: ANN401
    if not isinstance(value, list) or len(value) > LENGTH_MAX:
        return _fault(faults, where, value, f"a list of at most {LENGTH_MAX} items")
    kind = get_args(hint)[0]
    return tuple(
        _value(kind, one, f"{where}[{place}]", item, faults) for place, one in enumerate(value, 1)
    )


def _text(value: Any, where: str, item: "Field[Any]", faults: list[str]) -> Any:  # noqa: ANN401
    words = item.metadata.get("words", ())
    if not isinstance(value, str) or (words and value not in words):
        return _fault(faults, where, value, f"one of {', '.join(words)}" if words else "a text")
    if len(value) > 10 * LENGTH_MAX:
        return _fault(faults, where, value[:20], f"at most {10 * LENGTH_MAX} characters")
    return value


def _fault(faults: list[str], where: str, value: object, wanted: str) -> None:
    faults.append(f"{where}: {value!r} is not {wanted}")
