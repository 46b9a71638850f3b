"""Typed writers and readers for programs without asyncio. Every call waits for its result."""

from collections.abc import Iterator, Sequence
from typing import TypeVar

from ..client.sync_api.facade import Blocking, OpenedFacade
from ..core.log.read.record_batch import Record
from ..core.log.write.batch import AppendManyResult, AppendResult
from ..core.protocol.attributes.attribute_values import Headers
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.errors import TooManyRequestsError
from .typed_records import TypedReader, TypedRecord, TypedWriter

T = TypeVar("T")


class SyncTypedWriter(OpenedFacade[TypedWriter[T]]):
    """The blocking form of ``TypedWriter``. Use what ``TypedStream.sync_writer`` returns."""

    flush = Blocking(TypedWriter.flush)

    def append(
        self,
        value: T,
        txid: int | None = None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        event_time: int | None = None,
    ) -> AppendResult:
        """Append a value and wait; see ``TypedWriter.append``."""
        return self.run(
            lambda writer: writer.append(
                value, txid, key=key, headers=headers, event_time=event_time
            )
        )

    def append_many(
        self,
        values: Sequence[T],
        txids: Sequence[int] | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
    ) -> AppendManyResult:
        """Append values in order and wait for all; see ``TypedWriter.append_many``.

        The call waits for room instead of raising TooManyRequestsError.
        """

        async def work(writer: TypedWriter[T]) -> AppendManyResult:
            while True:
                try:
                    return await writer.append_many(values, txids, keys=keys)
                except TooManyRequestsError:
                    await writer.room()

        return self.run(work)

    def append_numbered(
        self,
        producer: bytes,
        first_sequence: int,
        values: Sequence[T],
        *,
        keys: Sequence[bytes | None] | None = None,
    ) -> AppendManyResult:
        """Append numbered values and wait; see ``TypedWriter.append_numbered``."""
        return self.run(
            lambda writer: writer.append_numbered(producer, first_sequence, values, keys=keys)
        )


class SyncTypedReader(OpenedFacade[TypedReader[T]]):
    """The blocking form of ``TypedReader``. Use what ``TypedStream.sync_reader`` returns.

    For throughput read by batch: iteration by record switches threads once per record.
    """

    @property
    def position(self) -> Dlsn:
        """The position after the last record that was returned or failed."""
        return self.inner.position

    @property
    def failed(self) -> Record | None:
        """The last record whose payload could not be decoded."""
        return self.inner.failed

    def __iter__(self) -> Iterator[TypedRecord[T]]:
        """Iterate over records; blocks at the tail and stops at the end of the stream.

        A payload that cannot be decoded raises PayloadError; iterating again continues after it.
        """
        while (record := self.next_record()) is not None:
            yield record

    def next_record(self, *, timeout_s: float | None = None) -> TypedRecord[T] | None:
        """Return the next record; None at the end of the stream.

        Raises PayloadError, and TimeoutError: the call may be repeated then.
        """
        return self.run(_next, timeout_s)

    def next_batch(
        self, *, until: Dlsn | None = None, timeout_s: float | None = None
    ) -> list[TypedRecord[T]] | None:
        """Return the next records; see ``TypedReader.next_batch``.

        Raises TimeoutError; the call may be repeated then and nothing is skipped.
        """
        return self.run(lambda reader: reader.next_batch(until=until), timeout_s)


async def _next(reader: TypedReader[T]) -> TypedRecord[T] | None:
    return await anext(reader, None)
