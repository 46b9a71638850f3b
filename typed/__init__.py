"""Typed payloads: codecs, schemas that are stored with a stream, and typed writers and readers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.log.metadata.stream_schema import Compatibility, SchemaHistory, SchemaKind, StreamSchema
from ..core.protocol.installation import needs_extra
from .payload_codec import (
    BytesCodec,
    MappedCodec,
    PayloadCodec,
    StrCodec,
    UnknownWriterSchemaError,
)
from .schema_check import check_new_schema, check_reader_schema
from .sync_streams import SyncTypedReader, SyncTypedWriter
from .typed_records import Interceptor, OutgoingRecord, TypedReader, TypedRecord, TypedWriter
from .typed_stream import TypedStream

if TYPE_CHECKING:
    from .arrow_codec import ArrowCodec
    from .avro_codec import AvroCodec, AvroValue
    from .protobuf_codec import ProtobufCodec
    from .structured_codecs import JsonCodec, MsgpackCodec

__all__ = [
    "TypedStream",
    "TypedWriter",
    "TypedReader",
    "TypedRecord",
    "SyncTypedWriter",
    "SyncTypedReader",
    "Interceptor",
    "OutgoingRecord",
    "PayloadCodec",
    "MappedCodec",
    "BytesCodec",
    "StrCodec",
    "JsonCodec",
    "MsgpackCodec",
    "ProtobufCodec",
    "AvroCodec",
    "AvroValue",
    "ArrowCodec",
    "StreamSchema",
    "SchemaKind",
    "SchemaHistory",
    "Compatibility",
    "check_new_schema",
    "check_reader_schema",
    "UnknownWriterSchemaError",
]

_HOMES = {
    "JsonCodec": (".structured_codecs", "typed"),
    "MsgpackCodec": (".structured_codecs", "typed"),
    "ProtobufCodec": (".protobuf_codec", ""),
    "AvroCodec": (".avro_codec", "avro"),
    "AvroValue": (".avro_codec", "avro"),
    "ArrowCodec": (".arrow_codec", "arrow"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the names above
    """Imports a codec, and the package that it needs, when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, extra = _HOMES[name]
    with needs_extra(f"the codec {name}", extra):
        return getattr(import_module(module, __name__), name)
