"""Encodes rows as numbered record sets and writes them (rule STR-16).

The same rows always result in the same record sets, regardless of how Spark batches the rows.
"""

import time
from collections import deque
from collections.abc import Awaitable, Iterable, Iterator
from contextlib import suppress
from itertools import islice, pairwise
from typing import Protocol

import pyarrow as pa

from ...core.protocol.errors import DuplicateRecordError, TxidOutOfOrderError
from ...core.protocol.record_set import TXID_FIRST, Producer, encode_record_set

_SET_BYTES = 256 << 10
_SET_RECORDS = 2000
_PENDING_MAX = 128
"""Maximum number of appends that wait for acknowledgement at any time."""


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
        while len(pending) > _PENDING_MAX:
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
    for payloads, txids in _groups(islice(_rows(batches, keeps_txids), skip, None)):
        if any(a > b for a, b in pairwise(txids)):
            raise TxidOutOfOrderError(
                "keepTxids: the txids of the rows decrease; sort the rows in a single partition"
            )
        yield encode_record_set(
            payloads,
            first_txid=txids[0],
            last_txid=txids[-1],
            txids=txids,
            created_ms=time.time_ns() // 1_000_000,
            producer=Producer(producer, sequence),
        )
        sequence += len(payloads)


def _rows(batches: Iterable[pa.RecordBatch], keeps_txids: bool) -> Iterator[tuple[bytes, int]]:
    for batch in batches:
        payloads = batch.column("payload").cast(pa.binary()).to_pylist()
        txids = batch.column("txid").to_pylist() if keeps_txids else [TXID_FIRST] * len(payloads)
        yield from zip(payloads, txids, strict=True)


def _groups(rows: Iterator[tuple[bytes, int]]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Group rows by count and size alone. A null payload becomes an empty record."""
    payloads: list[bytes] = []
    txids: list[int] = []
    size = 0
    for payload, txid in rows:
        payloads.append(payload or b"")
        txids.append(txid)
        size += len(payloads[-1])
        if size >= _SET_BYTES or len(payloads) == _SET_RECORDS:
            yield payloads, txids
            payloads, txids, size = [], [], 0
    if payloads:
        yield payloads, txids
