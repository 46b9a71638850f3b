"""Codecs: the conversion between the values of an application and the payloads of records."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ..core.log.metadata.stream_schema import StreamSchema
from ..core.protocol.errors import PayloadError

T = TypeVar("T")
U = TypeVar("U")


class PayloadCodec(ABC, Generic[T]):
    """The conversion of values of one type to payloads and back. Codecs are immutable."""

    @property
    def schema(self) -> StreamSchema | None:
        """The schema of the payloads; None if they have none."""
        return None

    @abstractmethod
    def encode(self, value: T) -> bytes:
        """Return the payload of a value. Raises PayloadError."""

    @abstractmethod
    def decode(self, payload: bytes) -> T:
        """Return the value of a payload. Raises PayloadError, also for any damaged payload.

        Raises UnknownWriterSchemaError if the payload names a schema that is not known here.
        """

    def with_schemas(self, schemas: Sequence[StreamSchema]) -> "PayloadCodec[T]":
        """Return a codec that also decodes payloads of these schemas of the stream."""
        return self

    def mapped(
        self, to_value: Callable[[T], U], from_value: Callable[[U], T]
    ) -> "MappedCodec[T, U]":
        """Return a codec for another type, whose values are converted from and to this one's.

        Both functions may raise ValueError, TypeError or KeyError for a value that does not fit.
        """
        return MappedCodec(self, to_value, from_value)


class UnknownWriterSchemaError(PayloadError):
    """A payload names a schema that the codec does not know.

    Read the schemas of the stream again: its writer stored the schema before it wrote.
    """


class BytesCodec(PayloadCodec[bytes]):
    """Payloads as they are."""

    def encode(self, value: bytes) -> bytes:
        """See ``PayloadCodec``."""
        if not isinstance(value, bytes):
            raise PayloadError(f"{type(value).__name__} is not bytes")
        return value

    def decode(self, payload: bytes) -> bytes:
        """See ``PayloadCodec``."""
        return payload


class StrCodec(PayloadCodec[str]):
    """Strings, encoded in UTF-8."""

    def encode(self, value: str) -> bytes:
        """See ``PayloadCodec``."""
        if not isinstance(value, str):
            raise PayloadError(f"{type(value).__name__} is not str")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise PayloadError(f"the string cannot be encoded: {error}") from error

    def decode(self, payload: bytes) -> str:
        """See ``PayloadCodec``."""
        try:
            return payload.decode()
        except UnicodeDecodeError as error:
            raise PayloadError(f"the payload is not UTF-8: {error}") from error


class MappedCodec(PayloadCodec[U], Generic[T, U]):
    """A codec over another one; see ``PayloadCodec.mapped``."""

    def __init__(
        self, inner: PayloadCodec[T], to_value: Callable[[T], U], from_value: Callable[[U], T]
    ) -> None:
        self._inner = inner
        self._to_value = to_value
        self._from_value = from_value

    @property
    def schema(self) -> StreamSchema | None:
        """The schema of the inner codec."""
        return self._inner.schema

    def with_schemas(self, schemas: Sequence[StreamSchema]) -> "MappedCodec[T, U]":
        """See ``PayloadCodec``."""
        return MappedCodec(self._inner.with_schemas(schemas), self._to_value, self._from_value)

    def encode(self, value: U) -> bytes:
        """See ``PayloadCodec``."""
        try:
            inner = self._from_value(value)
        except (ValueError, TypeError, KeyError) as error:
            raise PayloadError(f"the value cannot be converted: {error}") from error
        return self._inner.encode(inner)

    def decode(self, payload: bytes) -> U:
        """See ``PayloadCodec``."""
        inner = self._inner.decode(payload)
        try:
            return self._to_value(inner)
        except (ValueError, TypeError, KeyError) as error:
            raise PayloadError(f"the payload does not fit the type: {error}") from error
