"""The schema of what each command prints under ``--output json`` and ``jsonl``.

A command declares it with ``prints``, and every document is compared with it before it is printed.
Sizes are integers whose keys end with ``_bytes``, durations are milliseconds whose keys end with
``_ms``, and times are strings in ISO 8601 in UTC whose keys end with ``_at``.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

Schema = Mapping[str, Any]
"""A JSON Schema (2020-12) of the kinds that the functions of this module return."""

_KEY = re.compile(r"[a-z][a-z0-9_]*")
_ATTRIBUTE = "output_schema"
_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "object": Mapping,
    "array": (list, tuple),
    "null": type(None),
}

T = TypeVar("T", bound=Callable[..., Any])


def text(meaning: str, *words: str) -> Schema:
    """Return the schema of a string; ``words`` are the only values, if there are any."""
    return {"type": "string", "description": meaning} | ({"enum": list(words)} if words else {})


def integer(meaning: str) -> Schema:
    """Return the schema of a whole number."""
    return {"type": "integer", "description": meaning}


def number(meaning: str) -> Schema:
    """Return the schema of a number."""
    return {"type": "number", "description": meaning}


def flag(meaning: str) -> Schema:
    """Return the schema of true or false."""
    return {"type": "boolean", "description": meaning}


def time_at(meaning: str) -> Schema:
    """Return the schema of a time in ISO 8601, in UTC."""
    return {"type": "string", "format": "date-time", "description": meaning}


def maybe(schema: Schema) -> Schema:
    """Return the schema with null as a further value, for "not known" or "does not apply"."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    nullable = {**schema, "type": [*kinds, "null"]}
    return nullable | {"enum": [*schema["enum"], None]} if "enum" in schema else nullable


def listing(of: Schema, meaning: str) -> Schema:
    """Return the schema of a list."""
    return {"type": "array", "items": of, "description": meaning}


def table(of: Schema, meaning: str) -> Schema:
    """Return the schema of an object whose keys are names, such as those of bookies."""
    return {"type": "object", "additionalProperties": of, "description": meaning}


def anything(meaning: str) -> Schema:
    """Return the schema of an object whose keys are described elsewhere."""
    return {"type": "object", "additionalProperties": True, "description": meaning}


def record(
    fields: Mapping[str, Schema], *, optional: Sequence[str] = (), is_open: bool = False
) -> Schema:
    """Return the schema of an object with these keys.

    Those of ``optional`` may be absent; ``is_open`` allows further keys.
    """
    for key in fields:
        assert _KEY.fullmatch(key), f"{key!r} is not in snake_case"
    return {
        "type": "object",
        "properties": dict(fields),
        "required": [key for key in fields if key not in optional],
        "additionalProperties": is_open,
    }


def rows(row: Schema) -> Schema:
    """Return the schema of a list of objects; under jsonl, each is a line of its own."""
    return {"type": "array", "items": row}


def done(fields: Mapping[str, Schema]) -> Schema:
    """Return the schema of a command that changes something: the keys, and what was done."""
    return record({**fields, "message": text("What was done, in words.")})


def prints(schema: Schema) -> Callable[[T], T]:
    """Declare what a command prints under ``--output json``; stands below the command's options."""

    def declare(command: T) -> T:
        setattr(command, _ATTRIBUTE, schema)
        return command

    return declare


def schema_of(callback: Callable[..., Any] | None) -> Schema | None:
    """Return the declared schema of a command's callback; None if it declares none."""
    return getattr(callback, _ATTRIBUTE, None)


def faults(value: object, schema: Schema, at: str = "$") -> Iterator[str]:
    """Yield each difference between a JSON value and its schema."""
    kinds = schema.get("type", [])
    names = [kinds] if isinstance(kinds, str) else kinds
    if not any(_has_type(value, name) for name in names):
        yield f"{at}: {value!r} is not of type {' or '.join(names)}"
    elif "enum" in schema and value not in schema["enum"]:
        yield f"{at}: {value!r} is not one of {schema['enum']}"
    elif isinstance(value, Mapping):
        yield from _faults_of_object(value, schema, at)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from faults(item, schema["items"], f"{at}[{index}]")


def _faults_of_object(value: Mapping[str, Any], schema: Schema, at: str) -> Iterator[str]:
    known, others = schema.get("properties", {}), schema["additionalProperties"]
    yield from (f"{at}: {key} is missing" for key in schema.get("required", ()) if key not in value)
    for key, item in value.items():
        if key in known:
            yield from faults(item, known[key], f"{at}.{key}")
        elif isinstance(others, Mapping):
            yield from faults(item, others, f"{at}.{key}")
        elif not others:
            yield f"{at}: {key} is not declared"


def _has_type(value: object, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])
