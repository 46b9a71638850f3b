"""What a producer holds in its hands: records on their way, and the light awaitables for them.

A *batch* is the buffer that becomes one entry. An append is a pair (batch, index) and nothing else:
no asyncio.Future and no callback per record. A batch is settled once, for all of its records.
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.dlsn import Dlsn
from ...protocol.errors import RhumblineError
from ...protocol.record_set import Kind
from ...protocol.trace_context import trace_extension
from ...runtime.tracing import Span

if TYPE_CHECKING:
    from .dedup_table import Sent

RECORD_OVERHEAD_BYTES = 16
"""Counted for each record beside its payload: its share of the columns and of our lists."""


class AppendManyResult(NamedTuple):
    """Acknowledged records of one call; they may lie in several entries."""

    first: Dlsn
    last: Dlsn
    record_count: int
    regions: tuple[str, ...]
    """Those that hold all of them."""


class Batch:
    """Records that will be one entry. Changed only by its writer."""

    __slots__ = (
        "bytes",
        "callbacks",
        "count",
        "created_ms",
        "entry_id",
        "failure",
        "first_slot",
        "first_txid",
        "is_done",
        "kind",
        "last_txid",
        "lssn",
        "payloads",
        "producers",
        "regions",
        "room",
        "sets",
        "span",
        "spare",
        "traces",
        "txids",
        "waiters",
    )

    def __init__(self, room: int, txid: int, created_ms: int, kind: Kind = Kind.DATA) -> None:
        self.kind = kind
        self.payloads: list[bytes] = []
        self.room = room
        """Bytes that still fit; -1: nothing is taken on the fast path."""
        self.spare = 0
        """Stands for ``room`` once that is -1."""
        self.first_txid = self.last_txid = txid
        self.txids: list[int] | None = None
        """One for each record, once an application gave one; else all are ``first_txid``."""
        self.created_ms = created_ms
        self.bytes = 0
        """Payloads and their overhead; set when it is full."""
        self.count = 0
        """Data records; set when it is encoded, or as sets are added."""
        self.sets: list[tuple[bytes, int, int | None]] = []
        """Encoded record sets: (it, its records, the txid to stamp into it)."""
        self.producers: list[Sent] = []
        """Those sets whose producers number them."""
        self.span: Span | None = None
        """Of its producer, if that is here and it is traced."""
        self.traces: list[str] = []
        """The spans that its entry follows from."""
        self.lssn = 0
        self.entry_id = -1
        self.first_slot = 0
        """Slot of its first record; above 0 when a proxy put others before it into the entry."""
        self.regions: tuple[str, ...] = ()
        self.failure: RhumblineError | None = None
        self.is_done = False
        self.waiters: list[asyncio.Future[None]] = []
        self.callbacks: list[Callable[[], None]] = []

    def take_txids(self, txids: Sequence[int]) -> None:
        """Notes the txids of the next records, which are not below the last one's.

        From the first application-given txid on every record has its own; the fast path, on which
        they share one, is closed then.
        """
        if self.txids is None:
            self.txids = [self.last_txid] * len(self.payloads)
            self.close_fast_path()
        self.txids.extend(txids)
        self.last_txid = txids[-1]

    def use_room(self, size: int) -> bool:
        """Whether ``size`` bytes fit; then they are taken."""
        if size > self.free_bytes():
            return False
        if self.room >= 0:
            self.room -= size
        else:
            self.spare -= size
        return True

    def free_bytes(self) -> int:
        """Bytes that still fit."""
        return self.room if self.room >= 0 else self.spare

    def trace(self, span: Span | None) -> None:
        """Its producer traces it, or not."""
        if span is not None:
            self.span = span
            self.traces.append(span.traceparent)

    def extension(self) -> bytes:
        """The extension area of the set that its producer makes of it."""
        return b"" if self.span is None else trace_extension(self.span.traceparent)

    def close_fast_path(self) -> None:
        """From now on only ``use_room`` takes room."""
        if self.room >= 0:
            self.spare, self.room = self.room, -1

    def settle(self, failure: RhumblineError | None, regions: tuple[str, ...]) -> None:
        """Acknowledged (``failure`` None) or failed, once and for all records."""
        assert not self.is_done
        self.is_done = True
        self.failure = failure
        self.regions = regions
        if self.span is not None:
            self.span.end(failure, regions=regions)
        waiters = self.waiters
        if waiters:
            self.waiters = []
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        callbacks = self.callbacks
        if callbacks:
            self.callbacks = []
            for callback in callbacks:
                callback()

    def wait(self) -> Generator[Any, None, None]:
        """Until it is settled. Cancelling a wait withdraws no record."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            yield from waiter

    def result(self, index: int) -> "AppendResult":
        """Of one record, once settled. Raises its failure."""
        assert self.is_done
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        return AppendResult(self, index)


NO_BATCH = Batch(-1, 0, 0)
"""Stands for the open batch while there is none: it is full, so nothing is ever put into it."""


class AppendResult:
    """An acknowledged record: where it is, and the regions that were known to hold it then."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def dlsn(self) -> Dlsn:
        """Its position, for ever."""
        batch = self._batch
        return Dlsn(batch.lssn, batch.entry_id, batch.first_slot + self._index)

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that hold it on disk.

        Empty when the acknowledgement was reconstructed after the writer's ledger failed: a quorum
        holds the record then as well, but which regions is not known here.
        """
        return self._batch.regions

    def __repr__(self) -> str:
        return f"AppendResult({self.dlsn}, {self.regions})"


class Append:
    """A record on its way: await it for its AppendResult.

    May be awaited any number of times, or never. Cancelling the wait does not withdraw the record.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, AppendResult]:
        """Waits for the acknowledgement. Raises StreamLostError, AppendOutcomeUnknownError, ..."""
        batch = self._batch
        if not batch.is_done:
            yield from batch.wait()
        return batch.result(self._index)

    @property
    def is_done(self) -> bool:
        """Whether awaiting it would return or raise at once."""
        return self._batch.is_done


class AppendMany:
    """Records of one call on their way: await it for the AppendManyResult."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Sequence[tuple[Batch, int, int]]) -> None:
        self._spans = spans  # (batch, first index, count)

    def __await__(self) -> Generator[Any, None, AppendManyResult]:
        """Waits for all acknowledgements. Raises the first failure, in order of records."""
        for batch, _, _ in self._spans:
            if not batch.is_done:
                yield from batch.wait()
        return self.result()

    @property
    def is_done(self) -> bool:
        """Whether awaiting it would return or raise at once."""
        for batch, _, _ in self._spans:  # noqa: SIM110 - hot, and mostly there is one
            if not batch.is_done:
                return False
        return True

    def on_done(self, callback: Callable[[], None]) -> None:
        """Calls back once, as soon as it is done; for those who cannot have a task for each.

        Only for records that lie in one entry. The callback must not raise, and must not append.
        """
        ((batch, _, _),) = self._spans
        if batch.is_done:
            callback()
        else:
            batch.callbacks.append(callback)

    def dlsns(self) -> Iterator[Dlsn]:
        """The position of each record, once done. Raises the first failure."""
        for batch, index, count in self._spans:
            for slot in range(index, index + count):
                yield batch.result(slot).dlsn

    def result(self) -> AppendManyResult:
        """Once done. Raises the first failure, in order of records."""
        if len(self._spans) == 1:
            batch, index, count = self._spans[0]
            return AppendManyResult(
                batch.result(index).dlsn, batch.result(index + count - 1).dlsn, count, batch.regions
            )
        results = [batch.result(index) for batch, index, _ in self._spans]
        batch, index, count = self._spans[-1]
        return AppendManyResult(
            results[0].dlsn,
            batch.result(index + count - 1).dlsn,
            sum(span[2] for span in self._spans),
            tuple(
                region
                for region in results[0].regions
                if all(region in other.regions for other in results)
            ),
        )
