"""The decision whether the schema of a program may be used with a stream (rule STR-48)."""

from collections.abc import Callable, Iterator, Mapping

from ..core.log.metadata.stream_schema import Compatibility, SchemaHistory, SchemaKind, StreamSchema
from ..core.protocol.errors import IncompatibleSchemaError, InvalidArgumentError
from ..core.protocol.installation import needs_extra
from .shapes.avro_schema import avro_shape
from .shapes.json_schema import json_shape
from .shapes.shape import Shape, faults

_FAULTS_MAX = 5


def shape_of(schema: StreamSchema) -> Shape:
    """Return the shape of a schema. Raises InvalidArgumentError if it is malformed."""
    try:
        return _SHAPES[schema.kind](schema.definition)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidArgumentError(f"the {schema.kind} schema is malformed: {error!r}") from error


def _protobuf_shape(definition: str) -> Shape:
    from .shapes.protobuf_schema import protobuf_shape

    return protobuf_shape(definition)


def _arrow_shape(definition: str) -> Shape:
    with needs_extra("an Arrow schema", "arrow"):
        from .shapes.arrow_schema import arrow_shape
    return arrow_shape(definition)


_SHAPES: Mapping[SchemaKind, Callable[[str], Shape]] = {
    SchemaKind.JSON: json_shape,
    SchemaKind.AVRO: avro_shape,
    SchemaKind.PROTOBUF: _protobuf_shape,
    SchemaKind.ARROW: _arrow_shape,
}


def check_new_schema(stream: str, schema: StreamSchema, history: SchemaHistory) -> None:
    """Raise IncompatibleSchemaError unless a writer may write with ``schema``.

    A schema that the stream has already is compatible.
    """
    if history.compatibility is Compatibility.NONE or schema in history.schemas:
        return
    backward = history.compatibility in (Compatibility.BACKWARD, Compatibility.FULL)
    forward = history.compatibility in (Compatibility.FORWARD, Compatibility.FULL)
    found: list[str] = []
    for version, known in enumerate(history.schemas, 1):
        if backward:
            found += _reasons(schema, known, f"records of version {version} with the new schema")
        if forward:
            found += _reasons(known, schema, f"new records with version {version}")
    _raise_if(stream, found, f"a new schema must be {history.compatibility} compatible")


def check_reader_schema(stream: str, schema: StreamSchema, history: SchemaHistory) -> None:
    """Raise IncompatibleSchemaError unless a reader with ``schema`` can read every version.

    Nothing is refused if the stream has no schema, or the compatibility ``none``.
    """
    if history.compatibility is Compatibility.NONE:
        return
    found: list[str] = []
    for version, known in enumerate(history.schemas, 1):
        if known != schema:
            found += _reasons(schema, known, f"records of version {version}")
    _raise_if(stream, found, "the schema of the reader does not fit")


def _reasons(reader: StreamSchema, writer: StreamSchema, what: str) -> Iterator[str]:
    if reader.kind is not writer.kind:
        yield f"cannot read {what}: they are of the languages {reader.kind} and {writer.kind}"
        return
    for fault in faults(shape_of(reader), shape_of(writer)):
        yield f"cannot read {what}: {fault}"


def _raise_if(stream: str, found: list[str], rule: str) -> None:
    if found:
        shown = "; ".join(found[:_FAULTS_MAX])
        more = f"; and {len(found) - _FAULTS_MAX} more" if len(found) > _FAULTS_MAX else ""
        raise IncompatibleSchemaError(f"stream {stream}: {rule}: {shown}{more}")
