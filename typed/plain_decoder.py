"""Decodes the payloads of a stream by the schemas that it has stored, without a program's types."""

import json
from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError, Message
from google.protobuf.message_factory import GetMessageClass

from ..core.log.metadata.stream_schema import SchemaHistory, SchemaKind, StreamSchema
from ..core.protocol.errors import InvalidArgumentError, PayloadError
from .shapes.avro_schema import avro_shape
from .shapes.json_schema import json_shape
from .shapes.shape import ANY, Fields, FieldShape, Items, OneOf, Scalar, Shape

_F = FieldDescriptor
_SCALARS = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), "int"),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), "long"),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), "uint32"),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), "uint64"),
    _F.TYPE_BOOL: "boolean",
    _F.TYPE_FLOAT: "float",
    _F.TYPE_DOUBLE: "double",
    _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "bytes",
    _F.TYPE_ENUM: "string",
}
_MSGPACK_MAPS = frozenset((*range(0x80, 0x90), 0xDE, 0xDF))
"""The first byte of a map in MessagePack, which no JSON text begins with."""


class PlainDecoder:
    """Decodes payloads to dicts whose keys are the fields of the stream's newest schema.

    Raises InvalidArgumentError if the stream has no schema, or one that is not of a record.
    Supported are Avro, JSON Schema (payloads in JSON or MessagePack) and Protobuf.
    """

    def __init__(self, history: SchemaHistory) -> None:
        if not history.schemas:
            raise InvalidArgumentError("the stream has no schema")
        newest = history.schemas[-1]
        try:
            match newest.kind:
                case SchemaKind.AVRO:
                    definitions = [
                        _without_logical_types(one.definition)
                        for one in history.schemas
                        if one.kind is SchemaKind.AVRO
                    ]
                    shape = avro_shape(definitions[-1])
                    self._decode: Callable[[bytes], Mapping[str, Any]] = _avro(definitions)
                case SchemaKind.JSON:
                    shape = json_shape(newest.definition)
                    self._decode = _decode_object
                case SchemaKind.PROTOBUF:
                    descriptor = _descriptor(newest.definition)
                    shape = _message_shape(descriptor, ())
                    self._decode = _protobuf(descriptor)
                case _:
                    raise InvalidArgumentError(f"schemas in {newest.kind} are not decoded")
        except (ValueError, KeyError, TypeError, DecodeError) as error:
            raise InvalidArgumentError(f"the stream's schema is malformed: {error}") from error
        if not isinstance(shape, Fields):
            raise InvalidArgumentError("the stream's schema does not describe a record with fields")
        self.shape = shape
        """The fields of a payload."""

    def decode(self, payload: bytes) -> Mapping[str, Any]:
        """Return the fields of a payload. Raises PayloadError."""
        return self._decode(payload)


def _avro(definitions: list[str]) -> Callable[[bytes], Mapping[str, Any]]:
    from .avro_codec import AvroCodec

    others = [StreamSchema(SchemaKind.AVRO, one) for one in definitions[:-1]]
    return AvroCodec(definitions[-1], others).decode


def _without_logical_types(definition: str) -> str:
    """Return an Avro schema whose values are decoded as they are stored, such as times in ms."""

    def plain(part: Any) -> Any:  # noqa: ANN401 - any JSON
        if isinstance(part, list):
            return [plain(one) for one in part]
        if isinstance(part, dict):
            return {name: plain(one) for name, one in part.items() if name != "logicalType"}
        return part

    return json.dumps(plain(json.loads(definition)), sort_keys=True)


def _decode_object(payload: bytes) -> Mapping[str, Any]:
    try:
        if payload and payload[0] in _MSGPACK_MAPS:
            import msgspec

            found = msgspec.msgpack.decode(payload)
        else:
            found = json.loads(payload)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise PayloadError(f"the payload is not an object: {error}") from error
    if not isinstance(found, dict):
        raise PayloadError(f"the payload is {type(found).__name__}, not an object")
    return found


def _descriptor(definition: str) -> Descriptor:
    name, _, encoded = definition.partition(":")
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(b64decode(encoded, validate=True)).file:
        pool.Add(file)
    return pool.FindMessageTypeByName(name)


def _message_shape(message: Descriptor, path: tuple[str, ...]) -> Shape:
    if message.full_name in path:
        return Scalar(ANY)
    members = {}
    for field in message.fields:
        if field.message_type is not None:
            shape = _message_shape(field.message_type, (*path, message.full_name))
        else:
            shape = Scalar(_SCALARS[field.type])
        whole: Shape = Items(shape) if field.is_repeated else shape
        members[field.name] = FieldShape(whole, field.is_required, field.is_required)
    return Fields(members)


def _protobuf(descriptor: Descriptor) -> Callable[[bytes], Mapping[str, Any]]:
    message_class = GetMessageClass(descriptor)

    def decode(payload: bytes) -> Mapping[str, Any]:
        message = message_class()
        try:
            message.ParseFromString(payload)
        except DecodeError as error:
            raise PayloadError(f"the payload is not a {descriptor.full_name}: {error}") from error
        return _fields_of(message)

    return decode


def _fields_of(message: Message) -> dict[str, Any]:
    """Return the fields of a message; those without a value are None if the message tells."""
    found: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if field.is_repeated:
            entry = field.message_type
            if entry is not None and entry.GetOptions().map_entry:
                inner = entry.fields_by_name["value"]
                found[field.name] = [
                    {"key": key, "value": _plain(inner, one)} for key, one in value.items()
                ]
            else:
                found[field.name] = [_plain(field, one) for one in value]
        elif field.has_presence and not message.HasField(field.name):
            found[field.name] = None
        else:
            found[field.name] = _plain(field, value)
    return found


def _plain(field: Any, value: Any) -> Any:  # noqa: ANN401 - a field descriptor, and its value
    if field.message_type is not None:
        return _fields_of(value)
    if field.enum_type is not None:
        name = field.enum_type.values_by_number.get(value)
        return str(value) if name is None else name.name
    return value


def only_value(shape: Shape) -> Shape:
    """Return the one shape of an optional value, without null; other choices are unchanged."""
    if isinstance(shape, OneOf):
        options = [option for option in shape.options if option != Scalar("null")]
        if len(options) == 1:
            return options[0]
    return shape
