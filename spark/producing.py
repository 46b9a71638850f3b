"""Rows as numbered record sets: the same rows give the same sets, however Spark batches them."""

import asyncio
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow as pa

from ..core.log.batch import AppendMany, Batch
from ..core.protocol.errors import DuplicateRecordError, TxidOutOfOrderError
from ..core.protocol.record_set import TXID_FIRST, Producer, encode_record_set

if TYPE_CHECKING:
    from ..core.log.writer import StreamWriter
    from ..proxies.client_writer import ProxyWriter

_SET_BYTES = 256 << 10
_SET_RECORDS = 2000
_TICKETS_MAX = 128
_TIMEOUT_S = 120


class NumberedSet(NamedTuple):
    """A record set of a producer, and the sequence of its first record."""

    encoded: bytes
    sequence: int
    size: int


class Target(Protocol):
    """A stream that is open for writing."""

    def count_there(self, producer: bytes) -> int:
        """So many records of the producer are certainly in the stream, from its first on."""
        ...

    async def append(self, one: NumberedSet, *, keeps_txids: bool) -> AppendMany | None:
        """Sends a set when there is room; None when the stream has it already."""
        ...


class CoreTarget:
    """Through the core client."""

    def __init__(self, writer: "StreamWriter") -> None:
        self._writer = writer

    def count_there(self, producer: bytes) -> int:
        """See Target."""
        last = self._writer.last_sequence(producer)
        return 0 if last is None else last + 1

    async def append(self, one: NumberedSet, *, keeps_txids: bool) -> AppendMany | None:
        """See Target."""
        await self._writer.room()
        try:
            return self._writer.append_set(one.encoded, keeps_txids=keeps_txids)
        except DuplicateRecordError:
            return None


class ProxyTarget:
    """Through a write proxy, which tells where a set is that the stream has."""

    def __init__(self, writer: "ProxyWriter") -> None:
        self._writer = writer

    def count_there(self, producer: bytes) -> int:
        """See Target. A proxy does not tell; it leaves out what it gets again."""
        return 0

    async def append(self, one: NumberedSet, *, keeps_txids: bool) -> AppendMany | None:
        """See Target."""
        from ..proxies.sending import Outgoing

        await self._writer.room()
        batch = Batch(0, TXID_FIRST, 0)
        batch.count = one.size
        deadline = asyncio.get_running_loop().time() + _TIMEOUT_S
        self._writer.sender.submit(
            Outgoing(
                batch, one.encoded, sequence=one.sequence, keeps_txids=keeps_txids,
                deadline=deadline,
            )
        )  # fmt: skip
        return AppendMany([(batch, 0, one.size)])


async def written(
    target: Target,
    producer: bytes,
    first: pa.RecordBatch,
    rest: Iterable[pa.RecordBatch],
    *,
    keeps_txids: bool,
) -> int:
    """Writes the rows that are not there yet, and returns how many, when all are acknowledged.

    Raises as appends do.
    """
    waiting: deque[AppendMany] = deque()
    count = 0
    skip = target.count_there(producer)
    for one in numbered_sets(producer, chain([first], rest), skip=skip, keeps_txids=keeps_txids):
        count += one.size
        ticket = await target.append(one, keeps_txids=keeps_txids)
        if ticket is not None:
            waiting.append(ticket)
        while len(waiting) > _TICKETS_MAX:
            await waiting.popleft()
    while waiting:
        await waiting.popleft()
    return count


def numbered_sets(
    producer: bytes, batches: Iterable[pa.RecordBatch], *, skip: int = 0, keeps_txids: bool
) -> Iterator[NumberedSet]:
    """The record sets of a task's rows behind the first ``skip``, which are numbered too.

    Raises TxidOutOfOrderError when kept txids fall.
    """
    sequence = skip
    for payloads, txids in _runs(islice(_rows(batches, keeps_txids), skip, None)):
        if any(a > b for a, b in pairwise(txids)):
            raise TxidOutOfOrderError(
                "the txids of the rows fall: order them by position, in one partition"
            )
        encoded = encode_record_set(
            payloads,
            first_txid=txids[0],
            last_txid=txids[-1],
            txids=txids,
            created_ms=time.time_ns() // 1_000_000,
            producer=Producer(producer, sequence),
        )
        yield NumberedSet(encoded, sequence, len(payloads))
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
