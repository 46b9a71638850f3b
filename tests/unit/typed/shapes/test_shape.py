"""The rule of reading, for every pair of shapes that means something."""

import pytest

from rhumbline.typed.shapes.shape import (
    ANY,
    Entries,
    Fields,
    FieldShape,
    Items,
    OneOf,
    Scalar,
    Shape,
    Symbols,
    faults,
)

INT, LONG, STRING = Scalar("int"), Scalar("long"), Scalar("string")
RED, RED_GREEN = Symbols(frozenset({"red"})), Symbols(frozenset({"red", "green"}))


def needed(shape: Shape) -> FieldShape:
    return FieldShape(shape, is_always_written=True, needs_value=True)


def optional(shape: Shape) -> FieldShape:
    return FieldShape(shape, is_always_written=False, needs_value=False)


READABLE = [
    (INT, INT),
    (LONG, INT),
    (Scalar(ANY), Fields({"a": needed(INT)})),
    (Items(LONG), Items(INT)),
    (Entries(LONG), Entries(INT)),
    (Entries(LONG), Fields({"a": needed(INT)})),
    (RED_GREEN, RED),
    (Symbols(frozenset({"red"}), has_default=True), RED_GREEN),
    (STRING, RED),
    (OneOf((INT, STRING)), STRING),
    (OneOf((INT, STRING)), OneOf((STRING, INT))),
    (LONG, OneOf((INT, LONG))),
    (Fields({"a": needed(INT)}), Fields({"a": needed(INT), "b": needed(INT)})),
    (Fields({"a": needed(INT), "b": optional(INT)}), Fields({"a": needed(INT)})),
]
UNREADABLE = [
    (INT, LONG, "value: long is not readable as int"),
    (INT, Scalar(ANY), "value: any is not readable as int"),
    (Items(INT), INT, "value: int is not readable as a list"),
    (Items(INT), Items(STRING), "[]: string is not readable as int"),
    (Entries(INT), Fields({"a": needed(STRING)}), "a: string is not readable as int"),
    (RED, RED_GREEN, "value: the symbols green are not known"),
    (INT, OneOf((INT, STRING)), "value: string is not readable as int"),
    (OneOf((INT, RED)), STRING, "value: string is none of int or an enumeration"),
    (
        Fields({"a": FieldShape(INT, is_always_written=True, needs_value=True)}),
        Fields({"b": needed(INT)}),
        "a: required, but absent",
    ),
    (Fields({"a": needed(INT)}), Fields({"a": optional(INT)}), "a: required, but sometimes absent"),
    (Fields({}, is_closed=True), Fields({"b": needed(INT)}), "b: not allowed"),
    (
        Fields({"a": needed(Fields({"b": needed(INT)}))}),
        Fields({"a": needed(Fields({"b": needed(STRING)}))}),
        "a.b: string is not readable as int",
    ),
    (Fields(), Entries(INT), "value: a map is not readable as a record"),
]


@pytest.mark.parametrize(("reader", "writer"), READABLE)
def test_readable_shapes(reader: Shape, writer: Shape) -> None:
    assert list(faults(reader, writer)) == []


@pytest.mark.parametrize(("reader", "writer", "fault"), UNREADABLE)
def test_unreadable_shapes_and_where(reader: Shape, writer: Shape, fault: str) -> None:
    assert list(faults(reader, writer)) == [fault]
