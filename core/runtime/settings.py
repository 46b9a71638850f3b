"""Declared settings: type, unit, bounds, default and text of a field, stated once.

A dataclass of settings declares each field with ``setting``. The annotation is its type, and its
name ends with its unit by the style guide: ``_ms``, ``_bytes``. Everything that reads, checks,
describes or draws values uses the declaration: the constructor, files, the environment, options of
commands, the reference page, scenarios and the plans of the simulator.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import cache
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from ..protocol.errors import ConfigurationError, InvalidArgumentError

Check = Callable[[Any], object]
"""Raises InvalidArgumentError if a value is not valid."""


class Unit(StrEnum):
    """The unit of a number; its value is used in names and messages."""

    MS = "ms"
    BYTES = "bytes"
    NONE = ""


def setting(
    default: Any = MISSING,  # noqa: ANN401 - the field's type
    text: str = "",
    *,
    low: float | None = None,
    high: float | None = None,
    words: tuple[str, ...] = (),
    check: Check | None = None,
    not_above: str = "",
    needs: str = "",
    draws: tuple[Any, ...] = (),
) -> Any:  # noqa: ANN401 - as ``dataclasses.field``
    """Declare a field of a dataclass of settings; without a default the field is required.

    ``low`` and ``high`` are inclusive. ``words`` are the valid strings. ``not_above`` names the
    field that must be at least as large, ``needs`` the one that must be set if this one is.
    ``draws`` are the values that simulated runs choose from, with repetitions as weights.
    """
    metadata = {
        "text": text,
        "low": low,
        "high": high,
        "words": words,
        "check": check,
        "not_above": not_above,
        "needs": needs,
        "draws": draws,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class DeclaredSetting:
    """The declaration of one field. ``kind`` is its type, without None if ``is_optional``."""

    name: str
    kind: Any
    is_optional: bool
    is_required: bool
    default: Any
    text: str = ""
    low: float | None = None
    high: float | None = None
    words: tuple[str, ...] = ()
    check: Check | None = None
    not_above: str = ""
    needs: str = ""
    draws: tuple[Any, ...] = ()

    @property
    def unit(self) -> Unit:
        """The unit of a number, from its name."""
        parts = self.name.split("_")
        return next((unit for unit in (Unit.MS, Unit.BYTES) if unit in parts), Unit.NONE)

    @property
    def type_text(self) -> str:
        """The type in words, with an article."""
        return self._text_of(self.kind)

    @property
    def choices(self) -> tuple[str, ...]:
        """The valid strings, if there is a limited number of them."""
        if isinstance(self.kind, type) and issubclass(self.kind, Enum):
            return tuple(member.name.lower() for member in self.kind)
        return ("true", "false") if self.kind is bool else self.words

    @property
    def bounds_text(self) -> str:
        """The bounds in words; empty without bounds."""
        unit = f" {self.unit}" if self.unit else ""
        if self.low is not None and self.high is not None:
            return f"between {self.low:.15g} and {self.high:.15g}{unit}"
        if self.low is not None:
            return f"at least {self.low:.15g}{unit}"
        return "" if self.high is None else f"at most {self.high:.15g}{unit}"

    @property
    def is_mapping(self) -> bool:
        """True if the value is a tuple of (name, value) pairs: a table of strings in a file."""
        return get_origin(self.kind) is tuple and get_origin(get_args(self.kind)[0]) is tuple

    def fault(self, value: object) -> str | None:
        """Return what is wrong with a value, which the text begins with; None if it is valid."""
        if value is None and self.is_optional:
            return None
        if (fault := self._shape_fault(value)) is not None:
            return fault
        if isinstance(value, int | float) and not self._is_within(value):
            return f"{value!r} is not {self.bounds_text}"
        if self.check is not None:
            try:
                self.check(value)
            except InvalidArgumentError as error:
                return str(error)
        return None

    def type_fault(self, kind: Any, value: object) -> str | None:  # noqa: ANN401 - a type
        """Return what is wrong with the type of a value, or of an item of a list of ``kind``."""
        if self.words and kind is str:
            is_valid = value in self.words
        elif kind in (int, float):
            is_valid = type(value) is int or type(value) is kind
        else:
            is_valid = isinstance(value, get_origin(kind) or kind)
        return None if is_valid else f"{_short(value)} is not {self._text_of(kind)}"

    def _shape_fault(self, value: object) -> str | None:
        fault = self.type_fault(self.kind, value)
        if fault is None and isinstance(value, tuple) and not self.is_mapping:
            kind = get_args(self.kind)[0]
            return next((f for item in value if (f := self.type_fault(kind, item))), None)
        return fault

    def _text_of(self, kind: Any) -> str:  # noqa: ANN401 - a type
        if self.words and kind is str:
            return f"one of {', '.join(self.words)}"
        if kind in (int, float):
            by_unit = {Unit.MS: "a duration", Unit.BYTES: "a size"}
            return by_unit.get(self.unit, "a whole number" if kind is int else "a number")
        if kind is bool:
            return "true or false"
        if isinstance(kind, type) and issubclass(kind, Enum):
            return f"one of {', '.join(self.choices)}"
        if kind is self.kind and self.is_mapping:
            return "a table of strings"
        if is_dataclass(kind):
            return "a table"
        return "a list" if get_origin(kind) is tuple else "a string"

    def _is_within(self, value: float) -> bool:
        return not (
            (self.low is not None and value < self.low)
            or (self.high is not None and value > self.high)
        )


def settings_of(cls: type) -> Mapping[str, DeclaredSetting]:
    """Return the declarations of a dataclass by name, in order."""
    return _settings_of(cls)


@cache
def _settings_of(cls: type) -> Mapping[str, DeclaredSetting]:
    hints = get_type_hints(cls)
    found: dict[str, DeclaredSetting] = {}
    for item in fields(cls):
        kind, is_optional = _without_none(hints[item.name])
        declared = dict(item.metadata)
        if get_origin(kind) is Literal:
            kind, declared["words"] = str, get_args(kind)
        default = item.default if item.default_factory is MISSING else item.default_factory()
        found[item.name] = DeclaredSetting(
            item.name, kind, is_optional, default is MISSING, default, **declared
        )
    return found


def check_settings(
    value: object, what: str, error: type[InvalidArgumentError] = ConfigurationError
) -> None:
    """Check all fields of a dataclass of settings.

    Raises ``error``, which begins with ``what`` and lists every fault.
    """
    values = {name: getattr(value, name) for name in settings_of(type(value))}
    faults = list(faults_of(type(value), values))
    if faults:
        raise error(f"{what}: " + "; ".join(f"{name}={fault}" for name, fault in faults))


def faults_of(cls: type, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (name, fault) for every invalid value of ``cls``, and for valid ones that conflict."""
    declared = settings_of(cls)
    valid: dict[str, Any] = {}
    for name, value in values.items():
        fault = declared[name].fault(value)
        if fault is None:
            valid[name] = value
        else:
            yield name, fault
    for name, value in valid.items():
        above, needed = declared[name].not_above, declared[name].needs
        if above in valid and value > valid[above]:
            yield name, f"{value!r} is above {above}={valid[above]!r}"
        if needed in valid and value and not valid[needed]:
            yield name, f"{value!r} needs {needed}, which is not set"


def plain_fields(value: object) -> dict[str, Any]:
    """Return the fields of a dataclass of settings as plain values, by name."""
    return {name: plain_value(getattr(value, name)) for name in settings_of(type(value))}


def plain_value(value: object) -> Any:  # noqa: ANN401 - the values of JSON
    """Return the value of a setting as JSON has it: a nested dataclass as the list of its values,
    an enumeration's member as its name in lower case."""
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, tuple):
        return [plain_value(item) for item in value]
    if is_dataclass(value):
        return [plain_value(getattr(value, item.name)) for item in fields(value)]
    return value


def from_plain_value(declared: DeclaredSetting, value: Any) -> Any:  # noqa: ANN401
    """Return the value of a setting from its plain value; it is not checked.

    Raises KeyError or TypeError if the value has another form.
    """
    if value is None:
        return None
    if isinstance(declared.kind, type) and issubclass(declared.kind, Enum):
        return declared.kind[value.upper()]
    if isinstance(declared.kind, type) and is_dataclass(declared.kind):
        return declared.kind(*value)
    return tuple(value) if get_origin(declared.kind) is tuple else value


def _without_none(hint: Any) -> tuple[Any, bool]:  # noqa: ANN401 - a type
    if get_origin(hint) is not UnionType:
        return hint, False
    (kind,) = (part for part in get_args(hint) if part is not type(None))
    return kind, True


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."
