"""The shape of a schema, without the language it is written in, and the rule of reading.

A reader with one shape can read what was written with another one if ``faults`` finds nothing.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

ANY = "any"
"""The name of a scalar that may be anything."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts, by the name of its type."""

    name: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list of values of one shape."""

    item: "Shape"


@dataclass(frozen=True, slots=True)
class Entries:
    """A mapping from strings to values of one shape."""

    value: "Shape"


@dataclass(frozen=True, slots=True)
class Symbols:
    """One of several names. With a default a reader accepts any name."""

    names: frozenset[str]
    has_default: bool = False


@dataclass(frozen=True, slots=True)
class OneOf:
    """A value of one of several shapes."""

    options: tuple["Shape", ...]


@dataclass(frozen=True, slots=True)
class FieldShape:
    """A field of ``Fields``."""

    shape: "Shape"
    is_always_written: bool
    needs_value: bool
    """True if a reader cannot do without it."""


@dataclass(frozen=True, slots=True)
class Fields:
    """A value with named parts. A closed one is not readable if it has other parts."""

    members: Mapping[str, FieldShape] = field(default_factory=dict)
    is_closed: bool = False


Shape = Scalar | Items | Entries | Symbols | OneOf | Fields

_SIZES = (8, 16, 32, 64)
_WIDER = frozenset(
    {
        *((given, wanted) for given in ("int", "long") for wanted in ("float", "double")),
        *((given, wanted) for given in ("float", "halffloat") for wanted in ("double", "float")),
        *(("int", "long"), ("integer", "number"), ("string", "bytes"), ("bytes", "string")),
        *((f"int{low}", f"int{high}") for low in _SIZES for high in _SIZES if low < high),
        *((f"uint{low}", f"uint{high}") for low in _SIZES for high in _SIZES if low < high),
        *((f"uint{low}", f"int{high}") for low in _SIZES for high in _SIZES if low < high),
    }
)
"""(written type, type of the reader) of the scalars that a reader widens."""


def faults(reader: Shape, writer: Shape, at: str = "") -> Iterator[str]:
    """Yield why ``reader`` cannot read some of what was written as ``writer``; nothing if it can.

    Each text begins with the place in the schema.
    """
    if reader == Scalar(ANY):
        return
    if isinstance(writer, OneOf):
        for option in writer.options:
            yield from faults(reader, option, at)
    elif isinstance(reader, OneOf):
        if all(any(faults(option, writer, at)) for option in reader.options):
            yield f"{_place(at)}: {_name(writer)} is none of {_name(reader)}"
    else:
        yield from _plain_faults(reader, writer, at)


def _plain_faults(reader: Shape, writer: Shape, at: str) -> Iterator[str]:
    match reader, writer:
        case Items(wanted), Items(given):
            yield from faults(wanted, given, f"{at}[]")
        case Entries(wanted), Entries(given):
            yield from faults(wanted, given, f"{at}{{}}")
        case Entries(wanted), Fields(members):
            for name, member in members.items():
                yield from faults(wanted, member.shape, _join(at, name))
        case Symbols(), Symbols():
            unknown = sorted(writer.names - reader.names)
            if unknown and not reader.has_default:
                yield f"{_place(at)}: the symbols {', '.join(unknown)} are not known"
        case Fields(), Fields():
            yield from _field_faults(reader, writer, at)
        case _ if not _is_scalar_readable(reader, writer):
            yield f"{_place(at)}: {_name(writer)} is not readable as {_name(reader)}"


def _is_scalar_readable(reader: Shape, writer: Shape) -> bool:
    match reader, writer:
        case Scalar(wanted), Scalar(given):
            return wanted == given or (given, wanted) in _WIDER
        case Scalar(wanted), Symbols():
            return wanted == "string"
    return False


def _field_faults(reader: Fields, writer: Fields, at: str) -> Iterator[str]:
    for name, wanted in reader.members.items():
        given = writer.members.get(name)
        place = _join(at, name)
        if given is not None:
            yield from faults(wanted.shape, given.shape, place)
        if wanted.needs_value and (given is None or not given.is_always_written):
            yield f"{place}: required, but {'absent' if given is None else 'sometimes absent'}"
    if reader.is_closed:
        for name in writer.members:
            if name not in reader.members:
                yield f"{_join(at, name)}: not allowed"


def _join(at: str, name: str) -> str:
    return f"{at}.{name}" if at else name


def _place(at: str) -> str:
    return at or "value"


def _name(shape: Shape) -> str:
    match shape:
        case Scalar(name):
            return name
        case Items():
            return "a list"
        case Entries():
            return "a map"
        case Symbols():
            return "an enumeration"
        case OneOf(options):
            return " or ".join(_name(option) for option in options)
        case Fields():
            return "a record"
