"""Rows as numbered record sets: the same rows give the same sets, however Spark batches them."""

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
_TICKETS_MAX = 128


class RowWriter(Protocol):
    """A stream that is open for writing, through the core client or through a proxy."""

    async def room(self) -> None:
        """Waits until more may be appended."""
        ...

    def append_set(self, encoded: bytes, *, keeps_txids: bool = False) -> Awaitable[object]:
        """Appends a numbered set, unless the stream has it."""
        ...


async def write_rows(
    writer: RowWriter,
    producer: bytes,
    batches: Iterable[pa.RecordBatch],
    *,
    skip: int = 0,
    keeps_txids: bool = False,
) -> None:
    """Writes the rows; returns when all are acknowledged. ``skip``: so many are there for certain.

    Raises as appends do.
    """
    waiting: deque[Awaitable[object]] = deque()
    for encoded in encode_numbered_sets(producer, batches, skip=skip, keeps_txids=keeps_txids):
        await writer.room()
        with suppress(DuplicateRecordError):  # the stream has it
            waiting.append(writer.append_set(encoded, keeps_txids=keeps_txids))
        while len(waiting) > _TICKETS_MAX:
            await waiting.popleft()
    while waiting:
        await waiting.popleft()


def encode_numbered_sets(
    producer: bytes, batches: Iterable[pa.RecordBatch], *, skip: int = 0, keeps_txids: bool
) -> Iterator[bytes]:
    """The record sets of a task's rows behind the first ``skip``, which are numbered too.

    Raises TxidOutOfOrderError when kept txids fall.
    """
    sequence = skip
    for payloads, txids in _runs(islice(_rows(batches, keeps_txids), skip, None)):
        if any(a > b for a, b in pairwise(txids)):
            raise TxidOutOfOrderError(
                "the txids of the rows fall: order them by position, in one partition"
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


def _runs(rows: Iterator[tuple[bytes, int]]) -> Iterator[tuple[list[bytes], list[int]]]:
    """Cut by number and size alone. A row without payload is an empty record."""
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
