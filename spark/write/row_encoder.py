"""Encodes rows as numbered record sets and writes them (rule STR-16).

The same rows always result in the same record sets, regardless of how Spark batches the rows.
"""

import time
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from itertools import islice, pairwise, repeat
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.attributes.attribute_columns import attribute_builder
from ...core.protocol.attributes.attribute_values import Attributes
from ...core.protocol.errors import DuplicateRecordError, TxidOutOfOrderError
from ...core.protocol.record_set import TXID_FIRST, Producer, encode_record_set

SET_BYTES = 256 << 10
SET_RECORDS = 2000
PENDING_MAX = 128
"""Maximum number of appends that wait for acknowledgement at any time."""
_NO_ATTRIBUTES = Attributes(None, None, None)


class RowWriter(Protocol):
    """A stream that is open for writing, through the core client or through proxies."""

    async def room(self) -> None:
        """Wait until the writer accepts more appends."""
        ...

    def append_set(self, encoded: bytes, *, keeps_txids: bool = False) -> Awaitable[object]:
        """Append a numbered record set. Raises DuplicateRecordError if the stream has it."""
        ...


async def write_rows(
    writer: RowWriter,
    producer: bytes,
    batches: Iterable[pa.RecordBatch],
    *,
    skip: int = 0,
    keeps_txids: bool = False,
) -> None:
    """Write the rows and return when all are acknowledged.

    ``skip`` is the number of leading rows that the stream certainly has. Raises the errors of
    appends.
    """
    pending: deque[Awaitable[object]] = deque()
    for encoded in encode_numbered_sets(producer, batches, skip=skip, keeps_txids=keeps_txids):
        await writer.room()
        with suppress(DuplicateRecordError):  # the stream has it
            pending.append(writer.append_set(encoded, keeps_txids=keeps_txids))
        while len(pending) > PENDING_MAX:
            await pending.popleft()
    while pending:
        await pending.popleft()


def encode_numbered_sets(
    producer: bytes, batches: Iterable[pa.RecordBatch], *, skip: int = 0, keeps_txids: bool
) -> Iterator[bytes]:
    """Yield the record sets of a task's rows after the first ``skip`` rows.

    The first row of the task has number 0, so the first one that is encoded has number ``skip``.
    Raises TxidOutOfOrderError if txids are kept and decrease.
    """
    sequence = skip
    for rows in _groups(islice(rows_of(batches, keeps_txids), skip, None)):
        yield encode_numbered_set(producer, rows, sequence)
        sequence += len(rows)


def encode_numbered_set(producer: bytes, rows: "list[SinkRow]", sequence: int) -> bytes:
    """Return the record set of some rows; the first of them has number ``sequence``.

    Raises TxidOutOfOrderError if txids decrease.
    """
    payloads, txids, attributes = zip(*rows, strict=True)
    if any(a > b for a, b in pairwise(txids)):
        raise TxidOutOfOrderError(
            "keepTxids: the txids of the rows decrease; sort the rows in a single partition"
        )
    return encode_record_set(
        payloads,
        first_txid=txids[0],
        last_txid=txids[-1],
        txids=txids,
        created_ms=time.time_ns() // 1_000_000,
        producer=Producer(producer, sequence),
        attributes=attribute_builder(attributes),
    )


class SinkRow(NamedTuple):
    """A record that is to be written."""

    payload: bytes
    txid: int
    attributes: Attributes

    @property
    def size(self) -> int:
        """Bytes of the payload and the attributes."""
        return len(self.payload) + self.attributes.size


def rows_of(batches: Iterable[pa.RecordBatch], keeps_txids: bool) -> Iterator[SinkRow]:
    """Yield the records of batches with the columns of the sink."""
    for batch in batches:
        payloads = batch.column("payload").cast(pa.binary()).to_pylist()
        txids = batch.column("txid").to_pylist() if keeps_txids else [TXID_FIRST] * len(payloads)
        attributes = _attributes(batch)
        yield from map(SinkRow, (payload or b"" for payload in payloads), txids, attributes)


def _attributes(batch: pa.RecordBatch) -> Iterable[Attributes]:
    """Return the attributes of each row, from the columns that there are."""
    names = batch.schema.names
    if not {"key", "headers", "event_time"}.intersection(names):
        return repeat(_NO_ATTRIBUTES)
    none: list[None] = [None] * batch.num_rows
    keys: Iterable[object] = none
    headers: Iterable[object] = none
    times: Iterable[object] = none
    if "key" in names:
        keys = batch.column("key").cast(pa.binary()).to_pylist()
    if "headers" in names:
        pairs = batch.column("headers").to_pylist()
        headers = [None if one is None else dict(one) for one in pairs]
    if "event_time" in names:
        times = _milliseconds(batch.column("event_time")).to_pylist()
    return map(Attributes, keys, headers, times)


def _milliseconds(times: "pa.Array") -> "pa.Array":
    if pa.types.is_timestamp(times.type):
        times = pc.floor_temporal(times, unit="millisecond").cast(pa.timestamp("ms"), safe=False)
    return times.cast(pa.int64())


def _groups(rows: Iterator[SinkRow]) -> Iterator[list[SinkRow]]:
    """Group rows by count and size alone. A null payload becomes an empty record."""
    group: list[SinkRow] = []
    size = 0
    for row in rows:
        group.append(row)
        size += row.size
        if size >= SET_BYTES or len(group) == SET_RECORDS:
            yield group
            group, size = [], 0
    if group:
        yield group
