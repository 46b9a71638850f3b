"""The shapes of Protobuf messages: fields go by their numbers, and types by their wire form."""

from base64 import b64decode

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool

from .shape import Fields, FieldShape, Items, Scalar, Shape

_F = FieldDescriptor
_WIRE_TYPES = {
    **dict.fromkeys(
        (_F.TYPE_INT32, _F.TYPE_INT64, _F.TYPE_UINT32, _F.TYPE_UINT64, _F.TYPE_BOOL, _F.TYPE_ENUM),
        "varint",
    ),
    **dict.fromkeys((_F.TYPE_SINT32, _F.TYPE_SINT64), "zigzag"),
    **dict.fromkeys((_F.TYPE_FIXED32, _F.TYPE_SFIXED32), "fixed32"),
    **dict.fromkeys((_F.TYPE_FIXED64, _F.TYPE_SFIXED64), "fixed64"),
    _F.TYPE_FLOAT: "float32",
    _F.TYPE_DOUBLE: "float64",
    _F.TYPE_STRING: "string",
    _F.TYPE_BYTES: "bytes",
}


def protobuf_shape(definition: str) -> Shape:
    """Return the shape of a message. Raises ValueError, KeyError or TypeError if malformed."""
    name, _, encoded = definition.partition(":")
    files = FileDescriptorSet.FromString(b64decode(encoded, validate=True))
    pool = DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return _message(pool.FindMessageTypeByName(name), ())


def _message(message: Descriptor, path: tuple[str, ...]) -> Shape:
    if message.full_name in path:  # a recursive message is compared by its name
        return Scalar(f"message {message.full_name}")
    inside = (*path, message.full_name)
    return Fields(
        {
            f"field {field.number}": FieldShape(
                _field(field, inside), field.is_required, field.is_required
            )
            for field in message.fields
        }
    )


def _field(field: FieldDescriptor, path: tuple[str, ...]) -> Shape:
    if field.message_type is not None:
        shape = _message(field.message_type, path)
    else:
        shape = Scalar(_WIRE_TYPES[field.type])
    return Items(shape) if field.is_repeated else shape
