"""The codec of Protobuf messages."""

from base64 import b64encode
from typing import TypeVar

from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import Default as default_pool
from google.protobuf.message import DecodeError, EncodeError, Message

from ..core.log.metadata.stream_schema import SchemaKind, StreamSchema
from ..core.protocol.errors import PayloadError
from .payload_codec import PayloadCodec

M = TypeVar("M", bound=Message)


class ProtobufCodec(PayloadCodec[M]):
    """Messages of one generated class."""

    def __init__(self, message: type[M]) -> None:
        self._message = message
        descriptor = message.DESCRIPTOR
        files = FileDescriptorSet()
        _add_file(files, descriptor.file.name, set())
        encoded = b64encode(files.SerializeToString(deterministic=True)).decode("ascii")
        self._schema = StreamSchema(SchemaKind.PROTOBUF, f"{descriptor.full_name}:{encoded}")

    @property
    def schema(self) -> StreamSchema:
        """The message with the files that define it."""
        return self._schema

    def encode(self, value: M) -> bytes:
        """See ``PayloadCodec``."""
        if not isinstance(value, self._message):
            raise PayloadError(f"{type(value).__name__} is not {self._message.__name__}")
        try:
            return value.SerializeToString()
        except EncodeError as error:
            raise PayloadError(f"the message cannot be encoded: {error}") from error

    def decode(self, payload: bytes) -> M:
        """See ``PayloadCodec``."""
        value = self._message()
        try:
            value.ParseFromString(payload)
        except DecodeError as error:
            raise PayloadError(
                f"the payload is not a {self._message.DESCRIPTOR.full_name}: {error}"
            ) from error
        return value


def _add_file(files: FileDescriptorSet, name: str, seen: set[str]) -> None:
    """Add a file of the default pool after the files that it imports."""
    if name in seen:
        return
    seen.add(name)
    file = default_pool().FindFileByName(name)
    for imported in file.dependencies:
        _add_file(files, imported.name, seen)
    file.CopyToProto(files.file.add())
