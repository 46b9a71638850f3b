"""Typed writers and readers, their records, and the interceptors that see them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ..core.log.metadata.stream_schema import StreamSchemas
from ..core.log.read.record_batch import Record, RecordBatch
from ..core.log.read.stream_reader import StreamReader
from ..core.log.write.batch import Append, AppendMany
from ..core.protocol.attributes.attribute_values import Headers
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.errors import InvalidArgumentError, PayloadError
from .payload_codec import PayloadCodec, UnknownWriterSchemaError

T = TypeVar("T")
U = TypeVar("U")


class PayloadWriter(Protocol):
    """The methods of a stream's writer that a typed writer uses; those of core and thin client."""

    def append(
        self,
        payload: bytes,
        txid: int | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        event_time: int | None = None,
    ) -> Append:
        """See ``StreamWriter.append``."""
        ...

    def append_many(
        self,
        payloads: Sequence[bytes],
        txids: Sequence[int] | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> AppendMany:
        """See ``StreamWriter.append_many``."""
        ...

    def append_numbered(
        self,
        producer: bytes,
        first_sequence: int,
        payloads: Sequence[bytes],
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> AppendMany:
        """See ``StreamWriter.append_numbered``."""
        ...

    async def room(self) -> None:
        """See ``StreamWriter.room``."""
        ...

    async def flush(self) -> None:
        """See ``StreamWriter.flush``."""
        ...


@dataclass(frozen=True, slots=True)
class OutgoingRecord(Generic[T]):
    """A value that is to be appended, with the attributes of its record."""

    value: T
    txid: int | None = None
    key: bytes | None = None
    headers: Headers | None = None
    event_time: int | None = None
    """Milliseconds since the Unix epoch."""


class Interceptor(Generic[T]):
    """A pair of functions that see every value before its append and every record after its read.

    Subclasses override one or both. What they raise reaches the caller of ``append`` or of the
    iteration; the value was then not appended.
    """

    def before_append(self, record: OutgoingRecord[T]) -> OutgoingRecord[T]:
        """Return what to append in place of ``record``; see ``dataclasses.replace``."""
        return record

    def after_read(self, record: "TypedRecord[T]") -> "TypedRecord[T]":
        """Return the record to deliver in place of ``record``; see ``TypedRecord.with_value``."""
        return record


class TypedRecord(Generic[T]):
    """A record with its decoded value."""

    __slots__ = ("record", "value")

    def __init__(self, record: Record, value: T) -> None:
        self.record = record
        """The record as it is in the stream, with payload, creation time and producer."""
        self.value = value

    @property
    def dlsn(self) -> Dlsn:
        """The permanent position of the record."""
        return self.record.dlsn

    @property
    def txid(self) -> int:
        """The txid of the record."""
        return self.record.txid

    @property
    def key(self) -> bytes | None:
        """The key; None if the record has none."""
        return self.record.key

    @property
    def headers(self) -> Headers:
        """The headers, bytes by name."""
        return self.record.headers

    @property
    def event_time(self) -> int | None:
        """The event time in milliseconds since the Unix epoch; None if the record has none."""
        return self.record.event_time

    def with_value(self, value: T) -> "TypedRecord[T]":
        """Return the same record with another value."""
        return TypedRecord(self.record, value)

    def __repr__(self) -> str:
        """Return the position, the txid and the beginning of the value."""
        return f"TypedRecord({self.dlsn}, txid={self.txid}, {self.value!r:.80})"


class TypedWriter(Generic[T]):
    """Appends values. ``TypedStream.writer`` opens it."""

    def __init__(
        self,
        inner: PayloadWriter,
        codec: PayloadCodec[T],
        interceptors: Sequence[Interceptor[T]] = (),
    ) -> None:
        self.inner = inner
        """The writer of the payloads."""
        self._codec = codec
        self._interceptors = tuple(interceptors)

    def append(
        self,
        value: T,
        txid: int | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        event_time: int | None = None,
    ) -> Append:
        """Append a value without waiting, as ``StreamWriter.append`` does with a payload.

        Raises PayloadError if the value cannot be encoded; then nothing was appended.
        """
        out = self._intercepted(OutgoingRecord(value, txid, key, headers, event_time))
        payload = self._codec.encode(out.value)
        return self.inner.append(
            payload, out.txid, key=out.key, headers=out.headers, event_time=out.event_time
        )

    def append_many(
        self,
        values: Sequence[T],
        txids: Sequence[int] | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
    ) -> AppendMany:
        """Append values in order, as ``StreamWriter.append_many`` does with payloads.

        The txids of an interceptor are ignored. Raises PayloadError if a value cannot be encoded;
        then nothing was appended.
        """
        out = self._outgoing(values, keys)
        return self.inner.append_many(
            [self._codec.encode(record.value) for record in out],
            txids,
            keys=_column([record.key for record in out]),
            headers=_column([record.headers for record in out]),
            event_times=_column([record.event_time for record in out]),
        )

    def append_numbered(
        self,
        producer: bytes,
        first_sequence: int,
        values: Sequence[T],
        *,
        keys: Sequence[bytes | None] | None = None,
    ) -> AppendMany:
        """Append values that ``producer`` numbers, as ``StreamWriter.append_numbered`` does.

        The call may be repeated; what the interceptors made of the values when they were first
        stored stays. Raises as ``append_many``.
        """
        out = self._outgoing(values, keys)
        return self.inner.append_numbered(
            producer,
            first_sequence,
            [self._codec.encode(record.value) for record in out],
            keys=_column([record.key for record in out]),
            headers=_column([record.headers for record in out]),
            event_times=_column([record.event_time for record in out]),
        )

    async def room(self) -> None:
        """Wait for room; see ``StreamWriter.room``."""
        await self.inner.room()

    async def flush(self) -> None:
        """Wait until every record so far is acknowledged; see ``StreamWriter.flush``."""
        await self.inner.flush()

    def _outgoing(
        self, values: Sequence[T], keys: Sequence[bytes | None] | None
    ) -> list[OutgoingRecord[T]]:
        given = keys or [None] * len(values)
        if len(given) != len(values):
            raise InvalidArgumentError(f"{len(values)} values have {len(given)} keys")
        return [
            self._intercepted(OutgoingRecord(value, key=key))
            for value, key in zip(values, given, strict=True)
        ]

    def _intercepted(self, record: OutgoingRecord[T]) -> OutgoingRecord[T]:
        for interceptor in self._interceptors:
            record = interceptor.before_append(record)
        return record


class TypedReader(Generic[T]):
    """Iterates the records of a stream with their values. ``TypedStream.reader`` opens it.

    A payload that cannot be decoded raises PayloadError with a note that names the record;
    ``failed`` is that record, and iterating again continues after it.
    """

    def __init__(
        self,
        inner: StreamReader,
        codec: PayloadCodec[T],
        interceptors: Sequence[Interceptor[T]] = (),
        schemas: StreamSchemas | None = None,
    ) -> None:
        self.inner = inner
        """The reader of the payloads."""
        self.failed: Record | None = None
        """The last record whose payload could not be decoded."""
        self._codec = codec
        self._interceptors = tuple(reversed(interceptors))
        self._schemas = schemas

    @property
    def position(self) -> Dlsn:
        """The position after the last record that was returned or failed."""
        return self.inner.position

    def __aiter__(self) -> "TypedReader[T]":
        """Return the reader itself."""
        return self

    async def __anext__(self) -> TypedRecord[T]:
        """Return the next record. Waits at the tail; see ``StreamReader``."""
        return await self._decode(await anext(self.inner))

    async def next_batch(self, *, until: Dlsn | None = None) -> list[TypedRecord[T]] | None:
        """Return the next records, at least one; see ``StreamReader.next_batch``.

        If one of them cannot be decoded, none is returned; ``failed`` is the first such record, and
        a caller that wants the others opens a reader at their positions.
        """
        batch: RecordBatch | None = await self.inner.next_batch(until=until)
        if batch is None:
            return None
        return [await self._decode(record) for record in batch.records()]

    async def _decode(self, record: Record) -> TypedRecord[T]:
        try:
            value = await self._value(record.payload)
        except PayloadError as error:
            self.failed = record
            error.add_note(f"stream {self.inner.stream}, record {record.dlsn}")
            raise
        found = TypedRecord(record, value)
        for interceptor in self._interceptors:
            found = interceptor.after_read(found)
        return found

    async def _value(self, payload: bytes) -> T:
        try:
            return self._codec.decode(payload)
        except UnknownWriterSchemaError:
            if self._schemas is None:
                raise
            history = await self._schemas.read(self.inner.stream)
            self._codec = self._codec.with_schemas(history.schemas)
            return self._codec.decode(payload)


def _column(values: list[U | None]) -> list[U | None] | None:
    """Return the values, or None if there is none."""
    return None if all(value is None for value in values) else values
