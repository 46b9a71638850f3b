"""The codec of Avro records, in Avro's single-object encoding.

Each payload begins with the fingerprint of the schema that it was written with, so a reader decodes
the records of every schema that the stream has had.
"""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro
from fastavro.schema import (
    SchemaParseException,
    UnknownType,
    fingerprint,
    to_parsing_canonical_form,
)

from ..core.log.metadata.stream_schema import SchemaKind, StreamSchema
from ..core.protocol.errors import InvalidArgumentError, PayloadError
from .payload_codec import PayloadCodec, UnknownWriterSchemaError

AvroValue = dict[str, Any]
"""A record as fastavro has it, by field name."""

_MARKER = b"\xc3\x01"
_PREFIX_BYTES = 10
_FAULTS = (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, AttributeError)


class AvroCodec(PayloadCodec[AvroValue]):
    """Records of an Avro schema. ``mapped`` makes a codec of another type from it."""

    def __init__(self, schema: Mapping[str, Any] | str, known: Sequence[StreamSchema] = ()) -> None:
        """Raises InvalidArgumentError. ``known`` are other schemas of the stream."""
        definition = schema if isinstance(schema, str) else json.dumps(schema, sort_keys=True)
        self._schema = StreamSchema(SchemaKind.AVRO, definition)
        self._parsed, self._prefix = _parsed(definition)
        self._writers = {self._prefix: self._parsed}
        for other in known:
            if other.kind is SchemaKind.AVRO:
                parsed, prefix = _parsed(other.definition)
                self._writers.setdefault(prefix, parsed)

    @property
    def schema(self) -> StreamSchema:
        """The schema with which values are written and to which they are read."""
        return self._schema

    def with_schemas(self, schemas: Sequence[StreamSchema]) -> "AvroCodec":
        """See ``PayloadCodec``."""
        return AvroCodec(self._schema.definition, schemas)

    def encode(self, value: AvroValue) -> bytes:
        """See ``PayloadCodec``."""
        out = BytesIO()
        out.write(self._prefix)
        try:
            fastavro.schemaless_writer(out, self._parsed, value, strict_allow_default=True)
        except _FAULTS as error:
            raise PayloadError(f"the value does not fit the schema: {error}") from error
        return out.getvalue()

    def decode(self, payload: bytes) -> AvroValue:
        """See ``PayloadCodec``."""
        prefix = payload[:_PREFIX_BYTES]
        if not prefix.startswith(_MARKER) or len(prefix) < _PREFIX_BYTES:
            raise PayloadError("the payload is not in Avro's single-object encoding")
        writer = self._writers.get(prefix)
        if writer is None:
            raise UnknownWriterSchemaError(
                f"no schema of the stream has the fingerprint {prefix[2:].hex()}"
            )
        source = BytesIO(payload)
        source.seek(_PREFIX_BYTES)
        try:
            value = fastavro.schemaless_reader(source, writer, self._parsed)
        except _FAULTS as error:
            raise PayloadError(f"the payload does not fit the schema: {error}") from error
        if not isinstance(value, dict):
            raise PayloadError(f"the payload is {type(value).__name__}, not a record")
        return value


def _parsed(definition: str) -> tuple[Any, bytes]:
    """Return the parsed schema and the prefix of its payloads. Raises InvalidArgumentError."""
    try:
        plain = json.loads(definition)
        parsed = fastavro.parse_schema(plain)
        digest = fingerprint(to_parsing_canonical_form(plain), "CRC-64-AVRO")
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError) as error:
        raise InvalidArgumentError(f"the Avro schema is not valid: {error}") from error
    return parsed, _MARKER + bytes.fromhex(digest)
