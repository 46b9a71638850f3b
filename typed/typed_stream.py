"""Typed streams: writers and readers of the values of an application.

A ``TypedStream`` is declared once, in a module that producers and consumers share. It needs no
connection; ``writer`` and ``reader`` open it with a client. ``sync_writer`` and ``sync_reader`` do
the same with the client for programs without asyncio.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Generic, Protocol, TypeVar

from ..client.sync_api.sync_client import SyncClient
from ..core.log.metadata.stream_schema import (
    Compatibility,
    SchemaHistory,
    StreamSchema,
    StreamSchemas,
)
from ..core.log.read.stream_reader import StreamReader
from ..core.protocol.errors import InvalidArgumentError, MetadataUnavailableError
from ..core.protocol.start import EARLIEST, Start
from .payload_codec import PayloadCodec
from .schema_check import check_new_schema, check_reader_schema
from .sync_streams import SyncTypedReader, SyncTypedWriter
from .typed_records import Interceptor, PayloadWriter, TypedReader, TypedWriter

T = TypeVar("T")

_ATTEMPTS_MAX = 20


class HasSchemas(Protocol):
    """The part of a namespace that a typed stream uses."""

    @property
    def schemas(self) -> StreamSchemas:
        """The schemas of the streams' payloads."""
        ...


class OpensStreams(Protocol):
    """A client of the cluster or of its proxies, as a typed stream uses it."""

    def namespace(self) -> HasSchemas:
        """Return the client's namespace."""
        ...

    def writer(self, stream: str) -> AbstractAsyncContextManager[PayloadWriter]:
        """Open a writer."""
        ...

    def reader(self, stream: str, start: Start = ...) -> AbstractAsyncContextManager[StreamReader]:
        """Open a reader."""
        ...


class TypedStream(Generic[T]):
    """The declaration of a stream of values: its name, its codec, and who sees the values.

    If the codec has a schema, a writer stores it with the stream when it opens it, as a new version
    unless the stream has it already, and a reader checks that it can read all versions. Both raise
    IncompatibleSchemaError otherwise, before they write or read anything.
    """

    def __init__(
        self,
        name: str,
        codec: PayloadCodec[T],
        *,
        interceptors: Sequence[Interceptor[T]] = (),
        compatibility: Compatibility = Compatibility.BACKWARD,
        stores_schema: bool = True,
    ) -> None:
        """``compatibility`` is stored with the first schema, and must be the stored one later.

        Without ``stores_schema`` schemas are neither stored nor checked. Interceptors see a value
        in this order before it is appended, and in the reverse order after it was read.
        """
        self.name = name
        self.codec = codec
        self.compatibility = compatibility
        self._interceptors = tuple(interceptors)
        self._schema = codec.schema if stores_schema else None

    @asynccontextmanager
    async def writer(self, client: OpensStreams) -> AsyncIterator[TypedWriter[T]]:
        """Open a writer, after its schema was checked and stored.

        Raises IncompatibleSchemaError, InvalidArgumentError (the stream has another compatibility,
        or too many schemas), and what ``client.writer`` raises.
        """
        if self._schema is not None:
            await self._add_schema(client.namespace().schemas, self._schema)
        async with client.writer(self.name) as inner:
            yield TypedWriter(inner, self.codec, self._interceptors)

    @asynccontextmanager
    async def reader(
        self, client: OpensStreams, start: Start = EARLIEST
    ) -> AsyncIterator[TypedReader[T]]:
        """Open a reader at ``start``, after its schema was checked.

        Raises IncompatibleSchemaError, and what ``client.reader`` raises.
        """
        codec, schemas = self.codec, None
        if self._schema is not None:
            schemas = client.namespace().schemas
            history = await schemas.read(self.name)
            check_reader_schema(self.name, self._schema, history)
            codec = codec.with_schemas(history.schemas)
        async with client.reader(self.name, start) as inner:
            yield TypedReader(inner, codec, self._interceptors, schemas)

    def sync_writer(self, client: SyncClient) -> SyncTypedWriter[T]:
        """Return a writer for ``with``, which opens it like ``writer``."""
        return client.wrapped(lambda thread, inner: SyncTypedWriter(thread, self.writer(inner)))

    def sync_reader(self, client: SyncClient, start: Start = EARLIEST) -> SyncTypedReader[T]:
        """Return a reader for ``with``, which opens it at ``start`` like ``reader``."""
        return client.wrapped(
            lambda thread, inner: SyncTypedReader(thread, self.reader(inner, start))
        )

    async def _add_schema(self, schemas: StreamSchemas, schema: StreamSchema) -> None:
        for _ in range(_ATTEMPTS_MAX):
            history = await schemas.read(self.name)
            if not history.schemas:
                history = SchemaHistory(self.compatibility)
            if history.compatibility is not self.compatibility:
                raise InvalidArgumentError(
                    f"stream {self.name} has the compatibility {history.compatibility}, not "
                    f"{self.compatibility}: declare that, or set it with "
                    "namespace.schemas.set_compatibility"
                )
            check_new_schema(self.name, schema, history)
            if schema in history.schemas:
                return
            if await schemas.add(self.name, schema, history) is not None:
                return
        raise MetadataUnavailableError(
            f"stream {self.name}: its schema was not stored in {_ATTEMPTS_MAX} attempts, because "
            "other programs stored theirs"
        )
