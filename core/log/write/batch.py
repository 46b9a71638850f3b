"""Batches of records, and the awaitables that ``append`` returns.

A *batch* is a buffer that becomes one entry. An append is only a pair (batch, index): there is no
asyncio.Future and no callback per record. A batch is settled once for all of its records, that is,
they are acknowledged or fail together (rule STR-10).
"""

import asyncio
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ...protocol.attributes.attribute_columns import AttributeBuilder
from ...protocol.attributes.attribute_values import Attributes
from ...protocol.dlsn import Dlsn, dlsn_in
from ...protocol.errors import RhumblineError
from ...protocol.record_set import Kind
from ...runtime.trace_context import trace_extension
from ...runtime.tracing import Span

if TYPE_CHECKING:
    from .dedup_table import NumberedSet

RECORD_OVERHEAD_BYTES = 16
"""Bytes counted per record in addition to its payload, for columns and bookkeeping."""


class AppendManyResult(NamedTuple):
    """The acknowledged records of one call. They may be in several entries."""

    first: Dlsn
    last: Dlsn
    record_count: int
    regions: tuple[str, ...]
    """The regions that hold every record of the call."""


class Batch:
    """Records that become one entry. Only the writer changes a batch."""

    __slots__ = (
        "attributes",
        "bytes",
        "callbacks",
        "count",
        "created_ms",
        "entry_id",
        "expected",
        "failure",
        "first_slot",
        "first_txid",
        "is_done",
        "kind",
        "last_txid",
        "lssn",
        "payloads",
        "numbered_sets",
        "regions",
        "room",
        "sets",
        "span",
        "spare",
        "stream_id",
        "traces",
        "txids",
        "waiters",
    )

    def __init__(self, room: int, txid: int, created_ms: int, kind: Kind = Kind.DATA) -> None:
        self.kind = kind
        self.payloads: list[bytes] = []
        self.room = room
        """Bytes that still fit. -1: the fast path of ``append`` is closed, see ``spare``."""
        self.spare = 0
        """Bytes that still fit, once ``room`` is -1."""
        self.first_txid = self.last_txid = txid
        self.txids: list[int] | None = None
        """The txid of each record, once an application gave a txid; until then all records have
        ``first_txid``."""
        self.attributes: AttributeBuilder | None = None
        """Keys, headers and event times, once a record has one."""
        self.expected: Dlsn | None = None
        """The records are appended only if the stream ends here (rule STR-41)."""
        self.created_ms = created_ms
        self.bytes = 0
        """Payload bytes and overhead. Set when the batch is submitted."""
        self.count = 0
        """Number of data records. Set when the batch is encoded, or as sets are added."""
        self.sets: list[tuple[bytes, int, int | None]] = []
        """Encoded record sets as (bytes, number of records, txid to stamp or None)."""
        self.numbered_sets: list[NumberedSet] = []
        """The sets of ``sets`` that come from numbered producers."""
        self.span: Span | None = None
        """The span of a producer in this process, if the batch is traced."""
        self.traces: list[str] = []
        """The ``traceparent`` of each span that the entry follows from."""
        self.stream_id = ""
        self.lssn = 0
        self.entry_id = -1
        self.first_slot = 0
        """Slot of the first record. Above 0 if a proxy put other records into the entry first."""
        self.regions: tuple[str, ...] = ()
        self.failure: RhumblineError | None = None
        self.is_done = False
        self.waiters: list[asyncio.Future[None]] = []
        self.callbacks: list[Callable[[], None]] = []

    def add_txids(self, txids: Sequence[int]) -> None:
        """Add the txids of the next records; none may be below the last txid.

        From the first txid of an application on, each record has a txid of its own. This closes the
        fast path, on which all records share one txid.
        """
        if self.txids is None:
            self.txids = [self.last_txid] * len(self.payloads)
            self.close_fast_path()
        self.txids.extend(txids)
        self.last_txid = txids[-1]

    def add_attributes(self, index: int, attributes: Attributes) -> None:
        """Set the attributes of record ``index``, which is above those that were set before."""
        if self.attributes is None:
            self.attributes = AttributeBuilder()
        self.attributes.add(index, attributes)

    def reserve(self, size: int) -> bool:
        """Reserve ``size`` bytes. Return False if they do not fit."""
        if size > self.free_bytes():
            return False
        if self.room >= 0:
            self.room -= size
        else:
            self.spare -= size
        return True

    def free_bytes(self) -> int:
        """Return how many bytes still fit."""
        return self.room if self.room >= 0 else self.spare

    def trace(self, span: Span | None) -> None:
        """Attach the producer's span, if the batch is traced.

        This closes the fast path, so that the span sees every append that joins the batch.
        """
        if span is not None:
            self.close_fast_path()
            self.span = span
            self.traces.append(span.traceparent)

    def extension(self) -> bytes:
        """Return the extension area of the record set that is made from this batch."""
        return b"" if self.span is None else trace_extension(self.span.traceparent)

    def close_fast_path(self) -> None:
        """Close the fast path of ``append``; only ``reserve`` can take room afterwards."""
        if self.room >= 0:
            self.spare, self.room = self.room, -1

    def settle(self, failure: RhumblineError | None, regions: tuple[str, ...]) -> None:
        """Acknowledge all records (``failure`` is None) or fail them. Called once."""
        assert not self.is_done
        self.is_done = True
        self.failure = failure
        self.regions = regions
        if self.span is not None:
            records = self.count or len(self.payloads)
            self.span.end(failure, regions=regions, records=records)
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
        """Wait until the batch is settled. Cancelling the wait does not withdraw the records."""
        if not self.is_done:
            waiter = asyncio.get_running_loop().create_future()
            self.waiters.append(waiter)
            yield from waiter

    def result(self, index: int) -> "AppendResult":
        """Return the result of one record of a settled batch. Raises its failure."""
        assert self.is_done
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        return AppendResult(self, index)


NO_BATCH = Batch(-1, 0, 0)
"""A full batch that represents "no open batch", so that the fast path needs no extra check."""


class AppendResult:
    """An acknowledged record: its position, and the regions known to hold it at that moment."""

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    @property
    def dlsn(self) -> Dlsn:
        """The permanent position of the record."""
        batch = self._batch
        slot = batch.first_slot + self._index
        return dlsn_in(batch.stream_id, batch.lssn, batch.entry_id, slot)

    @property
    def regions(self) -> tuple[str, ...]:
        """The regions that hold the record on disk.

        Empty if the record was found in the ledger by recovery after the ledger failed. A quorum
        holds the record in this case too, but the writer does not know the regions.
        """
        return self._batch.regions

    def __repr__(self) -> str:
        return f"AppendResult({self.dlsn}, {self.regions})"


class Append:
    """A record that is being appended. Await it for its AppendResult.

    It may be awaited any number of times, or never. Cancelling the wait does not withdraw the
    record.
    """

    __slots__ = ("_batch", "_index")

    def __init__(self, batch: Batch, index: int) -> None:
        self._batch = batch
        self._index = index

    def __await__(self) -> Generator[Any, None, AppendResult]:
        """Wait for the acknowledgement. Raises StreamLostError, AppendOutcomeUnknownError, ..."""
        batch = self._batch
        if not batch.is_done:
            yield from batch.wait()
        return batch.result(self._index)

    @property
    def is_done(self) -> bool:
        """True if awaiting it returns or raises without waiting."""
        return self._batch.is_done


class AppendMany:
    """The records of one call that are being appended. Await it for the AppendManyResult."""

    __slots__ = ("_spans",)

    def __init__(self, spans: Sequence[tuple[Batch, int, int]]) -> None:
        self._spans = spans  # (batch, first index, count)

    def __await__(self) -> Generator[Any, None, AppendManyResult]:
        """Wait for all acknowledgements. Raises the first failure in the order of records."""
        for batch, _, _ in self._spans:
            if not batch.is_done:
                yield from batch.wait()
        return self.result()

    @property
    def is_done(self) -> bool:
        """True if awaiting it returns or raises without waiting."""
        for batch, _, _ in self._spans:  # noqa: SIM110 - hot, and mostly there is one
            if not batch.is_done:
                return False
        return True

    @property
    def first(self) -> Append:
        """The first record."""
        batch, index, _ = self._spans[0]
        return Append(batch, index)

    def on_done(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once, when all records are settled.

        This avoids a task per call. Only for records in a single entry. The callback must neither
        raise nor append.
        """
        ((batch, _, _),) = self._spans
        if batch.is_done:
            callback()
        else:
            batch.callbacks.append(callback)

    def placement(self) -> tuple[Dlsn, tuple[str, ...]]:
        """Return the first position and the regions of settled records in a single entry.

        Raises their failure. It costs less than ``result``.
        """
        ((batch, index, _),) = self._spans
        if batch.failure is not None:
            raise batch.failure.with_traceback(None)
        slot = batch.first_slot + index
        return dlsn_in(batch.stream_id, batch.lssn, batch.entry_id, slot), batch.regions

    def dlsns(self) -> Iterator[Dlsn]:
        """Yield the position of each settled record. Raises the first failure."""
        for batch, index, count in self._spans:
            for slot in range(index, index + count):
                yield batch.result(slot).dlsn

    def result(self) -> AppendManyResult:
        """Return the result of settled records.

        Raises the first failure in the order of records.
        """
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
