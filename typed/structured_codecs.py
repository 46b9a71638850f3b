"""Codecs of Python types in JSON and MessagePack, by ``msgspec``.

The type is a dataclass, a TypedDict, a NamedTuple, a ``msgspec.Struct``, or a type that consists of
them and of builtins. What is decoded has been checked against it.
"""

import json
from typing import Any, TypeVar

import msgspec

from ..core.log.metadata.stream_schema import SchemaKind, StreamSchema
from ..core.protocol.errors import InvalidArgumentError, PayloadError
from .payload_codec import PayloadCodec

T = TypeVar("T")

_FAULTS = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)


class JsonCodec(PayloadCodec[T]):
    """Values of a type, as JSON in UTF-8."""

    def __init__(self, kind: type[T]) -> None:
        """Raises InvalidArgumentError if the type has no form in JSON."""
        self._decoder = _decoder(msgspec.json.Decoder, kind)
        self._encoder = msgspec.json.Encoder()
        self._schema = _json_schema(kind)

    @property
    def schema(self) -> StreamSchema:
        """The JSON Schema of the type."""
        return self._schema

    def encode(self, value: T) -> bytes:
        """See ``PayloadCodec``."""
        try:
            return self._encoder.encode(value)
        except _FAULTS as error:
            raise PayloadError(f"the value has no form in JSON: {error}") from error

    def decode(self, payload: bytes) -> T:
        """See ``PayloadCodec``."""
        try:
            value: T = self._decoder.decode(payload)
        except _FAULTS as error:
            raise PayloadError(f"the payload does not fit the type: {error}") from error
        return value


class MsgpackCodec(PayloadCodec[T]):
    """Values of a type, as MessagePack."""

    def __init__(self, kind: type[T]) -> None:
        """Raises InvalidArgumentError if the type has no form in MessagePack."""
        self._decoder = _decoder(msgspec.msgpack.Decoder, kind)
        self._encoder = msgspec.msgpack.Encoder()
        self._schema = _json_schema(kind)

    @property
    def schema(self) -> StreamSchema:
        """The JSON Schema of the type; MessagePack has no schemas of its own."""
        return self._schema

    def encode(self, value: T) -> bytes:
        """See ``PayloadCodec``."""
        try:
            return self._encoder.encode(value)
        except _FAULTS as error:
            raise PayloadError(f"the value has no form in MessagePack: {error}") from error

    def decode(self, payload: bytes) -> T:
        """See ``PayloadCodec``."""
        try:
            value: T = self._decoder.decode(payload)
        except _FAULTS as error:
            raise PayloadError(f"the payload does not fit the type: {error}") from error
        return value


def _decoder(make: Any, kind: object) -> Any:  # noqa: ANN401 - two classes without a common base
    try:
        return make(kind)
    except TypeError as error:
        raise InvalidArgumentError(f"{kind!r:.80} is not a type of payloads: {error}") from error


def _json_schema(kind: object) -> StreamSchema:
    found = msgspec.json.schema(kind)
    return StreamSchema(SchemaKind.JSON, json.dumps(found, sort_keys=True, separators=(",", ":")))
