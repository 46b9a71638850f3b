"""The schemas of a stream's payloads: what is stored with the stream (rule STR-48).

The service does not interpret payloads. Programs that share a stream store the schema of their
payloads with it, so that each of them can check its own schema when it opens the stream.
"""

from dataclasses import dataclass
from enum import StrEnum

from ...protocol.errors import InvalidArgumentError

SCHEMA_CHARACTERS_MAX = 32 * 1024
"""Maximum length of one schema."""
SCHEMAS_CHARACTERS_MAX = 64 * 1024
"""Maximum length of all schemas of a stream together."""
SCHEMA_VERSIONS_MAX = 64
"""Maximum number of schemas of a stream."""


class SchemaKind(StrEnum):
    """The language of a schema."""

    JSON = "json-schema"
    """JSON Schema, of payloads in JSON or MessagePack."""
    AVRO = "avro"
    """An Avro schema as JSON."""
    PROTOBUF = "protobuf"
    """The full name of a message, a colon, and a serialized FileDescriptorSet in Base64."""
    ARROW = "arrow"
    """A serialized Arrow schema in Base64."""


class Compatibility(StrEnum):
    """The relation that a new schema must have to every schema that the stream has."""

    NONE = "none"
    """Not checked."""
    BACKWARD = "backward"
    """A program with the new schema can read all records. Update consumers first."""
    FORWARD = "forward"
    """A program with an old schema can read new records. Update producers first."""
    FULL = "full"
    """Both. Programs can be updated in any order."""


@dataclass(frozen=True, slots=True)
class StreamSchema:
    """One schema, in the language that ``kind`` names."""

    kind: SchemaKind
    definition: str

    def __post_init__(self) -> None:
        if not 0 < len(self.definition) <= SCHEMA_CHARACTERS_MAX:
            raise InvalidArgumentError(
                f"a schema of {len(self.definition)} characters is not between 1 and "
                f"{SCHEMA_CHARACTERS_MAX}"
            )


@dataclass(frozen=True, slots=True)
class SchemaHistory:
    """All schemas of a stream. The version of a schema is its index plus one."""

    compatibility: Compatibility = Compatibility.BACKWARD
    schemas: tuple[StreamSchema, ...] = ()

    def extended(self, schema: StreamSchema) -> "SchemaHistory":
        """Return the history with one more version. Raises InvalidArgumentError if it is full."""
        size = sum(len(known.definition) for known in (*self.schemas, schema))
        if len(self.schemas) == SCHEMA_VERSIONS_MAX or size > SCHEMAS_CHARACTERS_MAX:
            raise InvalidArgumentError(
                f"the stream has {len(self.schemas)} schemas; with another one they would have "
                f"{size} characters, of at most {SCHEMAS_CHARACTERS_MAX} in at most "
                f"{SCHEMA_VERSIONS_MAX} schemas"
            )
        return SchemaHistory(self.compatibility, (*self.schemas, schema))
