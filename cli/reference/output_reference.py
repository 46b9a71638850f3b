"""Generates the page and the JSON Schema of what commands print under ``--output json``."""

import json
from collections.abc import Iterator
from typing import Any

from ..output_events import EVENTS
from ..output_schema import Schema, schema_of
from .command_tree import all_commands

_SCHEMA_URI = "https://json-schema.org/draft/2020-12/schema"
_HEAD = """\
# Output of commands

Generated from the program; do not edit. Under `--output json` a command prints one JSON document to
standard output, and under `--output jsonl` each row of a list as a line of its own. The [JSON
Schema](output-schema.json) of these documents has a definition for each command. [Use it in
scripts](../how-to/use-in-scripts.md) explains the conventions.
"""


def output_schema() -> str:
    """Return the JSON Schema, with a definition for each command and each event on its line."""
    schemas = {path: schema_of(command.callback) for path, command in all_commands()}
    schemas |= {f"event {name}": schema for name, schema in EVENTS.items()}
    lines = [f"{json.dumps(name)}: {json.dumps(schema)}" for name, schema in schemas.items()]
    head = {"$schema": _SCHEMA_URI, "title": "Output of commands under --output json"}
    start = json.dumps(head)[:-1]
    return start + ', "$defs": {\n' + ",\n".join(lines) + "\n}}\n"


def output_page() -> str:
    """Return the page with the keys of each command's documents and of each event."""
    lines = [_HEAD]
    for path, command in all_commands():
        schema = schema_of(command.callback)
        assert schema is not None, f"{path} does not declare what it prints"
        lines += [f"## {path}\n", *_table(schema)]
    lines.append("## Lines on stderr\n")
    for name, schema in EVENTS.items():
        lines += [f"### {name}\n", *_table(schema)]
    return "\n".join(lines)


def _table(schema: Schema) -> Iterator[str]:
    kind, shown = "An object.", schema
    if schema["type"] == "array":
        kind, shown = "A list of objects.", schema["items"]
    yield f"{kind}\n"
    rows = list(_rows(shown, ""))
    if rows:
        yield "| key | type | meaning |\n|---|---|---|"
        yield from rows
        yield ""
    if shown["additionalProperties"] is True:
        yield "Further keys depend on what is shown.\n"


def _rows(schema: Schema, prefix: str) -> Iterator[str]:
    for key, field in schema.get("properties", {}).items():
        optional = "" if key in schema["required"] else " (may be absent)"
        meaning = str(field.get("description", "")).replace("|", "&#124;")
        yield f"| `{prefix}{key}` | {_type(field)}{optional} | {meaning} |"
        yield from _rows(_inner(field), f"{prefix}{key}{_step(field)}.")


def _inner(field: Schema) -> Schema:
    """Return the schema of the objects that a field holds, if it holds any."""
    found: Any = field
    if "array" in _names(field):
        found = field["items"]
    elif isinstance(field.get("additionalProperties"), dict):
        found = field["additionalProperties"]
    return found if isinstance(found, dict) else {}


def _step(field: Schema) -> str:
    if "array" in _names(field):
        return "[]"
    return ".*" if isinstance(field.get("additionalProperties"), dict) else ""


def _names(field: Schema) -> list[str]:
    kinds = field["type"]
    return [kinds] if isinstance(kinds, str) else list(kinds)


def _type(field: Schema) -> str:
    if "enum" in field:
        words = ", ".join(f"`{word}`" for word in field["enum"] if word is not None)
        return f"one of {words}" + (" or null" if None in field["enum"] else "")
    names = ["time" if "format" in field and one == "string" else one for one in _names(field)]
    text = " or ".join(names)
    if "array" in names and (inner := _type(field["items"])) not in ("object",):
        text = text.replace("array", f"array of {inner}")
    return text
