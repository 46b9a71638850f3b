"""The client for programs without asyncio: the same core, run by an event loop in a thread.

Every call blocks until its result is known. For throughput, append many records in one call and
read by batch. Iteration by record switches threads once per batch, not once per record.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Self, TypeVar

from ..core.ledger.config import LedgerConfig
from ..core.log.config import ReaderConfig, WriterConfig
from ..core.log.policy import StreamPolicy
from ..core.log.read.record_batch import Record, RecordBatch
from ..core.log.read.stream_reader import StreamReader
from ..core.log.write.batch import AppendManyResult, AppendResult
from ..core.log.write.stream_writer import StreamWriter
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.errors import ClosedError, TooManyRequestsError
from ..core.protocol.start import EARLIEST, Start
from .connect import Client
from .system_runtime import run

T = TypeVar("T")


class _LoopThread:
    """An event loop in its own thread."""

    def __init__(self) -> None:
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=self._run, name="rhumbline", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        async def main() -> None:
            self._stop = asyncio.Event()
            self._loop.set_result(asyncio.get_running_loop())
            await self._stop.wait()

        try:
            run(main())
        except BaseException as error:
            if self._loop.done():
                raise
            self._loop.set_exception(error)

    def call(self, work: Coroutine[Any, Any, T], timeout_s: float | None = None) -> T:
        """Run ``work`` in the loop and return its result.

        An interrupt of the caller cancels the work. Raises TimeoutError after the work was
        cancelled.
        """
        if not self._thread.is_alive():
            work.close()
            raise ClosedError("the client is closed")

        async def bounded() -> T:
            async with asyncio.timeout(timeout_s):
                return await work

        answer = asyncio.run_coroutine_threadsafe(bounded(), self._loop.result())
        try:
            return answer.result()
        except BaseException:
            answer.cancel()
            raise

    def close(self) -> None:
        """Stop the loop and wait for the thread. Safe to repeat."""
        if self._thread.is_alive():
            assert self._stop is not None
            self._loop.result().call_soon_threadsafe(self._stop.set)
            self._thread.join()


class _Opened(Generic[T]):
    """Wraps a core object that ``with`` opens and closes."""

    def __init__(self, thread: _LoopThread, inner: AbstractAsyncContextManager[T]) -> None:
        self._thread = thread
        self._context = inner
        self._inner: T | None = None

    @property
    def inner(self) -> T:
        """The wrapped core object. Raises ClosedError outside of ``with``."""
        if self._inner is None:
            raise ClosedError("the object is not open; use it with `with`")
        return self._inner

    def __enter__(self) -> Self:
        self._inner = self._thread.call(_entered(self._context))
        return self

    def __exit__(self, *error: Any) -> None:  # noqa: ANN401 - what `with` passes
        self._inner = None
        self._thread.call(_exited(self._context, error))


class SyncWriter(_Opened[StreamWriter]):
    """The blocking form of ``StreamWriter``."""

    def append(self, payload: bytes, txid: int | None = None) -> AppendResult:
        """Append a record and wait for its acknowledgement; see ``StreamWriter.append``."""
        writer = self.inner

        async def work() -> AppendResult:
            return await writer.append(payload, txid)

        return self._thread.call(work())

    def append_many(
        self, payloads: Sequence[bytes], txids: Sequence[int] | None = None
    ) -> AppendManyResult:
        """Append records in order and wait for all; see ``StreamWriter.append_many``."""
        writer = self.inner

        async def work() -> AppendManyResult:
            while True:
                try:
                    return await writer.append_many(payloads, txids)
                except TooManyRequestsError:
                    await writer.room()

        return self._thread.call(work())

    def end_stream(self) -> None:
        """End the stream permanently; see ``StreamWriter.end_stream``."""
        self._thread.call(self.inner.end_stream())


class SyncReader(_Opened[StreamReader]):
    """The blocking form of ``StreamReader``, by record or by batch."""

    def __init__(
        self, thread: _LoopThread, inner: AbstractAsyncContextManager[StreamReader]
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
        return self._thread.call(self.inner.next_batch(until=until), timeout_s)


class SyncClient:
    """The blocking form of ``Client``. Use it with ``with``; threads may share it."""

    def __init__(self, make: Callable[[], Client]) -> None:
        self._make = make
        self._thread: _LoopThread | None = None
        self._client: Client | None = None

    def __enter__(self) -> Self:
        """Open the client; see ``Client.__aenter__``."""
        thread = _LoopThread()
        try:
            self._client = thread.call(self._open())
        except BaseException:
            thread.close()
            raise
        self._thread = thread
        return self

    async def _open(self) -> Client:
        client = self._make()
        await client.__aenter__()
        return client

    def __exit__(self, *_: object) -> None:
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

    def call(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run a call of the asyncio API: ``client.call(lambda c: c.namespace().describe("s"))``."""
        thread, client = self._opened()

        async def awaited() -> T:
            return await work(client)

        return thread.call(awaited())

    def create_stream(self, name: str, policy: StreamPolicy | None = None) -> None:
        """Create a stream; see ``Namespace.create_stream``."""
        self.call(lambda client: client.namespace().create_stream(name, policy))

    def writer(self, stream: str) -> SyncWriter:
        """Return a writer for ``with``, which takes over the stream; see ``Client.writer``."""
        thread, client = self._opened()
        return SyncWriter(thread, client.writer(stream))

    def reader(self, stream: str, start: Start = EARLIEST) -> SyncReader:
        """Return a reader for ``with``, which starts at ``start``; see ``Client.reader``."""
        thread, client = self._opened()
        return SyncReader(thread, client.reader(stream, start))

    def _opened(self) -> tuple[_LoopThread, Client]:
        if self._thread is None or self._client is None:
            raise ClosedError("the client is not open: use it with `with connect(...)`")
        return self._thread, self._client


def connect(
    uri: str,
    *,
    namespace: str = "default",
    region: str | None = None,
    ledger: LedgerConfig | None = None,
    writer: WriterConfig | None = None,
    reader: ReaderConfig | None = None,
    regional_metadata: Mapping[str, str] | None = None,
) -> SyncClient:
    """Return a client of the cluster whose metadata is at ``uri``: ``with connect(...) as client``.

    The parameters are those of ``rhumbline.connect``.
    """
    return SyncClient(
        lambda: Client(
            uri,
            namespace=namespace,
            region=region,
            ledger=ledger,
            writer=writer,
            reader=reader,
            regional_metadata=regional_metadata,
        )
    )


async def _entered(context: AbstractAsyncContextManager[T]) -> T:
    return await context.__aenter__()


async def _exited(context: AbstractAsyncContextManager[Any], error: Any) -> None:  # noqa: ANN401
    await context.__aexit__(*error)
