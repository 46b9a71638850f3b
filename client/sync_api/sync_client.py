"""The blocking forms of the client, its writers and its readers.

Every call blocks until its result is known. For throughput, append many records in one call and
read by batch. Iteration by record switches threads once per batch, not once per record.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import wraps
from typing import Any, ParamSpec, Self, TypeVar

from ...core.log.api.log_client import LogClient
from ...core.log.api.log_writer import LogWriter
from ...core.log.policy import StreamPolicy
from ...core.log.read.record_batch import Record, RecordBatch
from ...core.log.read.stream_reader import StreamReader
from ...core.log.write.batch import AppendManyResult
from ...core.protocol.attributes.attribute_values import Headers
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import ClosedError, TooManyRequestsError
from ...core.protocol.start import EARLIEST, Start
from ..connect import connect as connect_asyncio
from ..topics import Topics
from .facade import Blocking, OpenedFacade
from .loop_thread import LoopThread
from .sync_namespace import SyncNamespace, SyncNamespaces
from .sync_topics import SyncTopics

T = TypeVar("T")
P = ParamSpec("P")


class SyncWriter(OpenedFacade[LogWriter]):
    """The blocking form of ``LogWriter``."""

    append = Blocking(LogWriter.append)
    append_numbered = Blocking(LogWriter.append_numbered)
    room = Blocking(LogWriter.room)
    flush = Blocking(LogWriter.flush)
    end_stream = Blocking(LogWriter.end_stream)

    def append_many(
        self,
        payloads: Sequence[bytes],
        txids: Sequence[int] | None = None,
        *,
        keys: Sequence[bytes | None] | None = None,
        headers: Sequence[Headers | None] | None = None,
        event_times: Sequence[int | None] | None = None,
    ) -> AppendManyResult:
        """Append records in order and wait for all; see ``LogWriter.append_many``.

        The call waits for room instead of raising TooManyRequestsError.
        """

        async def work(writer: LogWriter) -> AppendManyResult:
            while True:
                try:
                    return await writer.append_many(
                        payloads, txids, keys=keys, headers=headers, event_times=event_times
                    )
                except TooManyRequestsError:
                    await writer.room()

        return self.run(work)


class SyncReader(OpenedFacade[StreamReader]):
    """The blocking form of ``StreamReader``, by record or by batch."""

    def __init__(
        self, thread: LoopThread, inner: AbstractAsyncContextManager[StreamReader]
    ) -> None:
        super().__init__(thread, inner)
        self._batch: RecordBatch | None = None  # the batch that is read by record
        self._records: list[Record] = []
        self._next = 0

    @property
    def position(self) -> Dlsn:
        """The position after the last record or batch that was returned."""
        if self._next < len(self._records):
            return self._records[self._next].dlsn
        return self.inner.position

    def __iter__(self) -> Iterator[Record]:
        """Iterate over records; blocks at the tail and stops at the end of the stream."""
        while True:
            while self._next < len(self._records):
                self._next += 1
                yield self._records[self._next - 1]
            batch = self.next_batch()
            if batch is None:
                return
            self._records, self._next = batch.records(), 0
            self._batch = batch

    def batches(self) -> Iterator[RecordBatch]:
        """Iterate over batches; blocks at the tail and stops at the end of the stream."""
        while (batch := self.next_batch()) is not None:
            yield batch

    def next_batch(
        self, *, until: Dlsn | None = None, timeout_s: float | None = None
    ) -> RecordBatch | None:
        """Return the next batch; see ``StreamReader.next_batch``.

        Raises TimeoutError; the call may be repeated then and nothing is skipped.
        """
        unread = len(self._records) - self._next
        self._records, self._next = [], 0
        if unread:
            assert self._batch is not None
            return self._batch.without_first(len(self._batch) - unread)
        return self.run(lambda reader: reader.next_batch(until=until), timeout_s)


class SyncClient:
    """The blocking form of ``LogClient``. Use it with ``with``; threads may share it."""

    def __init__(self, make: Callable[[], LogClient]) -> None:
        self._make = make
        self._thread: LoopThread | None = None
        self._client: LogClient | None = None

    def __enter__(self) -> Self:
        """Open the client; raises what ``async with rhumbline.connect(...)`` raises."""
        thread = LoopThread()
        try:
            self._client = thread.call(self._open())
        except BaseException:
            thread.close()
            raise
        self._thread = thread
        return self

    async def _open(self) -> LogClient:
        client = self._make()
        await client.__aenter__()
        return client

    def __exit__(self, *_: object) -> None:
        """Close the client."""
        self.close()

    def close(self) -> None:
        """Close the client and its thread. Safe to repeat."""
        thread, self._thread = self._thread, None
        client, self._client = self._client, None
        if thread is not None and client is not None:
            try:
                thread.call(client.aclose())
            finally:
                thread.close()

    def call(self, work: Callable[[LogClient], Awaitable[T]]) -> T:
        """Run a call of the asyncio API: ``client.call(lambda c: c.namespace().describe("s"))``."""
        thread, client = self._opened()

        async def awaited() -> T:
            return await work(client)

        return thread.call(awaited())

    def wrapped(self, make: Callable[[LoopThread, LogClient], T]) -> T:
        """Return what ``make`` makes of the client's thread and of its asyncio form.

        For blocking forms of objects that other modules define.
        """
        return make(*self._opened())

    def namespace(self, name: str | None = None) -> SyncNamespace:
        """Return a namespace, by default the client's own; see ``LogClient.namespace``."""
        thread, client = self._opened()
        return SyncNamespace(thread, thread.call(_result(lambda: client.namespace(name))))

    @property
    def namespaces(self) -> SyncNamespaces:
        """All namespaces of the cluster."""
        thread, client = self._opened()
        return SyncNamespaces(thread, client.namespaces)

    def topics(self, namespace: str | None = None) -> SyncTopics:
        """Return the topics of a namespace, by default of the client's own."""
        thread, client = self._opened()
        return SyncTopics(thread, thread.call(_result(lambda: Topics(client, namespace))))

    def create_stream(self, name: str, policy: StreamPolicy | None = None) -> None:
        """Create a stream; see ``LogNamespace.create_stream``."""
        self.namespace().create_stream(name, policy)

    def writer(self, stream: str) -> SyncWriter:
        """Return a writer for ``with``; see ``LogClient.writer``."""
        thread, client = self._opened()
        return SyncWriter(thread, client.writer(stream))

    def reader(self, stream: str, start: Start = EARLIEST) -> SyncReader:
        """Return a reader for ``with``, which starts at ``start``; see ``LogClient.reader``."""
        thread, client = self._opened()
        return SyncReader(thread, client.reader(stream, start))

    def statistics(self) -> dict[str, Any]:
        """Return the counters and sizes of this client; see ``LogClient.statistics``."""
        thread, client = self._opened()
        return thread.call(_result(client.statistics))

    def _opened(self) -> tuple[LoopThread, LogClient]:
        if self._thread is None or self._client is None:
            raise ClosedError("the client is not open: use it with `with connect(...)`")
        return self._thread, self._client


async def _result(call: Callable[[], T]) -> T:
    """Return the result of a call that must be made in the client's event loop."""
    return call()


def _blocking(connect: Callable[P, LogClient]) -> Callable[P, SyncClient]:
    @wraps(connect)
    def connect_sync(*args: P.args, **kwargs: P.kwargs) -> SyncClient:
        return SyncClient(lambda: connect(*args, **kwargs))

    connect_sync.__doc__ = """Return a client of the cluster at ``uri``: ``with connect(...)``.

    Parameters and kinds of URI are those of ``rhumbline.connect``.
    """
    return connect_sync


connect = _blocking(connect_asyncio)
"""Return a client of the cluster at ``uri``: ``with connect(...)``.

Parameters and kinds of URI are those of ``rhumbline.connect``.
"""
