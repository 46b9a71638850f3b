"""The schema of the output: every command has one, with the units that its keys promise."""

from collections.abc import Iterator

import click
import pytest

from rhumbline.cli.output_schema import (
    Schema,
    anything,
    faults,
    flag,
    integer,
    listing,
    maybe,
    record,
    rows,
    schema_of,
    table,
    text,
)
from rhumbline.cli.reference.command_tree import all_commands

COMMANDS = dict(all_commands())
NUMBERS = ({"integer"}, {"integer", "null"}, {"number"}, {"number", "null"})


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_declares_what_it_prints(path: str) -> None:
    command = COMMANDS[path]
    schema = schema_of(command.callback)
    assert schema is not None, "declare it with `prints`, see docs/contributing/common-changes.md"
    assert schema["type"] in ("object", "array")
    (output,) = (option for option in command.params if "--output" in option.opts)
    assert isinstance(output.type, click.Choice)
    assert tuple(output.type.choices) == ("table", "json", "jsonl")


@pytest.mark.parametrize("path", COMMANDS)
def test_keys_say_the_units_of_their_values(path: str) -> None:
    for key, schema in fields_of(schema_of(COMMANDS[path].callback) or {}):
        kinds = {schema["type"]} if isinstance(schema["type"], str) else set(schema["type"])
        if key.endswith(("_bytes", "_ms", "_bytes_per_second")):
            assert kinds in NUMBERS, key
        if key.endswith("_at"):
            assert schema.get("format") == "date-time", key
        assert not key.endswith(("_s", "_kib", "_mib", "_seconds", "_time")), key


def fields_of(schema: Schema) -> Iterator[tuple[str, Schema]]:
    for key, field in schema.get("properties", {}).items():
        yield key, field
        yield from fields_of(field)
    for below in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(below, dict):
            yield from fields_of(below)


ROW = record(
    {
        "name": text("Name."),
        "state": maybe(text("State.", "up", "down")),
        "count": integer("Count."),
        "parts": listing(record({"is_good": flag("Good.")}), "Parts."),
        "sizes": table(integer("Size."), "By name."),
        "more": anything("More."),
    },
    optional=("more",),
)
GOOD = {"name": "a", "state": None, "count": 1, "parts": [{"is_good": True}], "sizes": {"x": 2}}


def test_a_document_that_follows_its_schema_has_no_faults() -> None:
    assert list(faults([GOOD, GOOD | {"state": "up", "more": {"any": [1]}}], rows(ROW))) == []


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"name": 1}, "$.name: 1 is not of type string"),
        ({"count": True}, "$.count: True is not of type integer"),
        ({"count": "1"}, "$.count: '1' is not of type integer"),
        ({"state": "gone"}, "$.state: 'gone' is not one of ['up', 'down', None]"),
        ({"parts": [{"is_good": None}]}, "$.parts[0].is_good: None is not of type boolean"),
        ({"parts": [{}]}, "$.parts[0]: is_good is missing"),
        ({"sizes": {"x": 0.5}}, "$.sizes.x: 0.5 is not of type integer"),
        ({"extra": 1}, "$: extra is not declared"),
    ],
)
def test_each_difference_from_the_schema_is_found(change: dict[str, object], fault: str) -> None:
    assert list(faults(GOOD | change, ROW)) == [fault]
    without = {key: value for key, value in GOOD.items() if key != "count"}
    assert list(faults(without, ROW)) == ["$: count is missing"]


def test_keys_are_in_snake_case() -> None:
    with pytest.raises(AssertionError, match="not in snake_case"):
        record({"two words": integer("No.")})
