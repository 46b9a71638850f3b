"""The shapes of Avro schemas, by the rules of schema resolution of the Avro specification."""

import json
from typing import Any

from .shape import Entries, Fields, FieldShape, Items, OneOf, Scalar, Shape, Symbols


def avro_shape(definition: str) -> Shape:
    """Return the shape of an Avro schema. Raises ValueError, KeyError or TypeError if malformed."""
    return _shape(json.loads(definition), {}, "")


def _shape(schema: Any, named: dict[str, Shape], space: str) -> Shape:  # noqa: ANN401
    if isinstance(schema, list):
        return OneOf(tuple(_shape(option, named, space) for option in schema))
    if isinstance(schema, str):
        return named.get(_full_name(schema, space)) or named.get(schema) or Scalar(schema)
    kind = schema["type"]
    if kind == "array":
        return Items(_shape(schema["items"], named, space))
    if kind == "map":
        return Entries(_shape(schema["values"], named, space))
    if kind not in ("record", "error", "enum", "fixed"):
        return _shape(kind, named, space)
    name = _full_name(schema["name"], schema.get("namespace", space))
    space = name.rpartition(".")[0]
    if kind == "fixed":
        found: Shape = Scalar(f"fixed({schema['size']}) {name}")
    elif kind == "enum":
        found = Symbols(frozenset(schema["symbols"]), "default" in schema)
    else:
        named[name] = Scalar(f"record {name}")  # inside itself it is compared by its name
        members = {
            field["name"]: FieldShape(
                _shape(field["type"], named, space),
                is_always_written=True,
                needs_value="default" not in field,
            )
            for field in schema["fields"]
        }
        found = Fields(members)
    named[name] = found
    return found


def _full_name(name: str, space: str) -> str:
    return name if "." in name or not space else f"{space}.{name}"
