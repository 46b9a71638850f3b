"""The schemas of streams in the metadata store (rule STR-48).

A stream has at most one node of schemas, which is changed by compare-and-set: a program adds its
schema to the history that it has checked, or reads the history again and checks once more.
"""

from ...protocol.errors import (
    BadVersionError,
    CorruptionError,
    IndeterminateError,
    InvalidArgumentError,
    MetadataUnavailableError,
    NodeExistsError,
    NoNodeError,
)
from ...protocol.metadata_record import decode_metadata_record, encode_metadata_record
from ...runtime.metadata_store import Check, Create, MetadataStore, Put, Version
from .stream_schema import Compatibility, SchemaHistory, SchemaKind, StreamSchema, StreamSchemas
from .stream_store import CONTENTION_MAX, StreamStore

_FORMAT = 1


class SchemaStore(StreamSchemas):
    """The schemas of the streams of one namespace."""

    def __init__(self, store: MetadataStore, namespace: str) -> None:
        self._store = store
        self._streams = StreamStore(store, namespace)

    async def read(self, stream: str) -> SchemaHistory:
        """See ``StreamSchemas``."""
        await self._streams.record(stream)
        return (await self._read(stream))[0]

    async def replace(self, stream: str, before: SchemaHistory, after: SchemaHistory) -> bool:
        """See ``StreamSchemas``."""
        path = self._streams.paths(stream).schemas
        data = _encode(after)
        for _ in range(CONTENTION_MAX):
            record, record_version = await self._streams.record(stream)
            self._streams.check_changeable(stream, record)
            found, version = await self._read(stream)
            if found == after or _has_added(found, before, after):
                return True
            if found.schemas != before.schemas or (version and found != before):
                return False
            change = Create(path, data) if version is None else Put(path, data, expect=version)
            check = Check(self._streams.paths(stream).stream, record_version)
            try:
                await self._store.txn([check, change])
            except (BadVersionError, NodeExistsError, NoNodeError, IndeterminateError):
                continue  # if the change was made, the next attempt finds it
            return True
        raise MetadataUnavailableError(
            f"stream {stream}: its schemas were not changed in {CONTENTION_MAX} attempts, because "
            "other processes changed it"
        )

    async def _read(self, stream: str) -> tuple[SchemaHistory, Version | None]:
        try:
            value = await self._store.get(self._streams.paths(stream).schemas)
        except NoNodeError:
            return SchemaHistory(), None
        return decode_schema_history(stream, value.data), value.version


def _has_added(found: SchemaHistory, before: SchemaHistory, after: SchemaHistory) -> bool:
    """True if ``found`` begins with the schemas of ``after``, which adds some to ``before``."""
    count = len(after.schemas)
    return count > len(before.schemas) and found.schemas[:count] == after.schemas


def _encode(history: SchemaHistory) -> bytes:
    schemas = [[schema.kind.value, schema.definition] for schema in history.schemas]
    return encode_metadata_record(
        _FORMAT, {"compatibility": history.compatibility.value, "schemas": schemas}
    )


def decode_schema_history(stream: str, data: bytes) -> SchemaHistory:
    """Decode the node of a stream's schemas. Raises CorruptionError."""
    what = f"schemas of stream {stream}"
    fields = decode_metadata_record(
        what, data, version=_FORMAT, fields={"compatibility": str, "schemas": list}
    )
    try:
        schemas = tuple(
            StreamSchema(SchemaKind(kind), definition) for kind, definition in fields["schemas"]
        )
        return SchemaHistory(Compatibility(fields["compatibility"]), schemas)
    except (InvalidArgumentError, TypeError, ValueError) as error:
        raise CorruptionError(f"{what}: {error}") from error
