"""The shapes of JSON Schemas, as far as schemas of types use the language."""

import json
from typing import Any

from .shape import ANY, Entries, Fields, FieldShape, Items, OneOf, Scalar, Shape, Symbols

_REFERENCE = "#/$defs/"
_ANYTHING = Scalar(ANY)


def json_shape(definition: str) -> Shape:
    """Return the shape of a JSON Schema. Raises ValueError, KeyError or TypeError if malformed."""
    schema = json.loads(definition)
    return _shape(schema, schema.get("$defs", {}), ())


def _shape(schema: Any, defs: dict[str, Any], path: tuple[str, ...]) -> Shape:  # noqa: ANN401
    if not isinstance(schema, dict):
        return _ANYTHING
    reference = schema.get("$ref")
    if reference is not None:
        name = reference.removeprefix(_REFERENCE)
        if name in path:  # a recursive type is compared by its name
            return Scalar(f"reference to {name}")
        return _shape(defs[name], defs, (*path, name))
    options = schema.get("anyOf") or schema.get("oneOf")
    if options:
        return OneOf(tuple(_shape(option, defs, path) for option in options))
    names = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if names is not None:
        return Symbols(frozenset(map(json.dumps, names)))
    kind = schema.get("type")
    if isinstance(kind, list):
        return OneOf(tuple(_shape({**schema, "type": each}, defs, path) for each in kind))
    if kind == "object":
        return _object(schema, defs, path)
    if kind == "array":
        return Items(_shape(schema.get("items"), defs, path))
    return _ANYTHING if kind is None else Scalar(_formatted(kind, schema))


def _formatted(kind: str, schema: dict[str, Any]) -> str:
    """Return the name of a scalar type; a string of a format is a type of its own."""
    form = schema.get("format") or schema.get("contentEncoding")
    return f"string ({form})" if kind == "string" and form else kind


def _object(schema: dict[str, Any], defs: dict[str, Any], path: tuple[str, ...]) -> Shape:
    properties = schema.get("properties")
    others = schema.get("additionalProperties")
    if properties is None:
        return Entries(_shape(others, defs, path))
    required = schema.get("required", [])
    members = {
        name: FieldShape(_shape(value, defs, path), name in required, name in required)
        for name, value in properties.items()
    }
    return Fields(members, is_closed=others is False)
