"""The schemas of a stream's payloads: what is stored with the stream (rule STR-48).

The service does not interpret payloads. Programs that share a stream store the schema of their
payloads with it, so that each of them can check its own schema when it opens the stream.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from ...protocol.errors import InvalidArgumentError, MetadataUnavailableError

SCHEMA_CHARACTERS_MAX = 32 * 1024
"""Maximum length of one schema."""
SCHEMAS_CHARACTERS_MAX = 64 * 1024
"""Maximum length of all schemas of a stream together."""
SCHEMA_VERSIONS_MAX = 64
"""Maximum number of schemas of a stream."""

_ATTEMPTS_MAX = 20


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

    def __post_init__(self) -> None:
        size = sum(len(schema.definition) for schema in self.schemas)
        if len(self.schemas) > SCHEMA_VERSIONS_MAX or size > SCHEMAS_CHARACTERS_MAX:
            raise InvalidArgumentError(
                f"{len(self.schemas)} schemas of {size} characters are more than a stream can "
                f"have: {SCHEMAS_CHARACTERS_MAX} characters in {SCHEMA_VERSIONS_MAX} schemas"
            )

    def extended(self, schema: StreamSchema) -> "SchemaHistory":
        """Return the history with one more version. Raises InvalidArgumentError if it is full."""
        return SchemaHistory(self.compatibility, (*self.schemas, schema))


class StreamSchemas(ABC):
    """The schemas of the streams of a namespace, directly or through proxies."""

    @abstractmethod
    async def read(self, stream: str) -> SchemaHistory:
        """Return the schemas of a stream; none if none were added. Raises NoSuchStreamError."""

    @abstractmethod
    async def replace(self, stream: str, before: SchemaHistory, after: SchemaHistory) -> bool:
        """Replace the history ``before``, and return whether the stream has ``after`` now.

        Schemas that ``after`` adds are there even if other programs have added more behind them.
        False if the stream has another history: read and check again. Before the first schema, any
        compatibility may be replaced. Safe to repeat. Raises NoSuchStreamError,
        MetadataUnavailableError.
        """

    async def add(
        self, stream: str, schema: StreamSchema, after: SchemaHistory
    ) -> SchemaHistory | None:
        """Add a schema to the history that the caller has checked, and return the new history.

        None if the stream has another history. The first schema also sets the compatibility, that
        of ``after``. Raises as ``replace``, and InvalidArgumentError if the history is full.
        """
        target = after.extended(schema)
        return target if await self.replace(stream, after, target) else None

    async def set_compatibility(self, stream: str, compatibility: Compatibility) -> SchemaHistory:
        """Set which relation later schemas must have. Safe to repeat.

        Raises NoSuchStreamError, MetadataUnavailableError.
        """
        for _ in range(_ATTEMPTS_MAX):
            found = await self.read(stream)
            target = SchemaHistory(compatibility, found.schemas)
            if found == target or await self.replace(stream, found, target):
                return target
        raise MetadataUnavailableError(
            f"stream {stream}: its schemas were not changed in {_ATTEMPTS_MAX} attempts, because "
            "other processes changed them"
        )
