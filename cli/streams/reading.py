"""``stream read`` and ``stream tail``: print records to standard output."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator

from ...core.log.namespace import Namespace
from ...core.log.read.record_batch import Record
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.record_set import TXID_FIRST, TXID_LAST
from ...core.protocol.start import EARLIEST, LATEST, AtTxid, Start
from ..output import print_message
from .record_files import record_format


def parse_start(text: str) -> Start | Dlsn:
    """Parse ``earliest``, ``latest``, a DLSN, or ``txid:N``. Raises InvalidArgumentError."""
    if text == "earliest":
        return EARLIEST
    if text == "latest":
        return LATEST
    kind, _, number = text.partition(":")
    if kind == "txid":
        if not number.isdigit() or not TXID_FIRST <= int(number) <= TXID_LAST:
            raise InvalidArgumentError(
                f"{text!r}: a txid is a number from {TXID_FIRST} to {TXID_LAST}"
            )
        return AtTxid(int(number))
    return Dlsn.parse(text)


async def read_stream(
    namespace: Namespace,
    stream: str,
    *,
    form: str,
    follow: bool,
    waits: bool = False,
    start: Start | Dlsn = EARLIEST,
    end: Dlsn | None = None,
    limit: int | None = None,
    last: int | None = None,
) -> None:
    """Print records from ``start`` (or only the ``last`` ones) up to the current end.

    With ``follow`` or ``waits`` reading continues after that end, until ``limit`` or ``end``. With
    ``follow`` an interrupt is a success. Raises NoSuchStreamError, TruncatedError, GapError,
    CorruptionError.
    """
    write = record_format(form)
    out = sys.stdout.buffer
    count = 0
    stop = await _end_of(namespace, stream)
    try:
        if last is not None:
            for record in await _last_records(namespace, stream, last, stop):
                out.write(write(record))
                count += 1
            out.flush()
            if not follow:
                return
            start = stop
        reader = await namespace.open_reader(stream, start)
        try:
            limits = None if follow or waits else stop
            async for records in _up_to(reader, _earlier(limits, end)):
                chosen = records if limit is None else records[: limit - count]
                out.write(b"".join(map(write, chosen)))
                out.flush()
                count += len(chosen)
                if count == limit:
                    return
        finally:
            await reader.aclose()
    except asyncio.CancelledError:
        if not follow:
            raise
    if follow:
        print_message(f"{count:,} records of {stream} were printed")


async def _up_to(reader: StreamReader, end: Dlsn | None) -> AsyncIterator[list[Record]]:
    """Yield the records of each batch up to ``end`` (exclusive), which may be in the future."""
    while (batch := await reader.next_batch(until=end)) is not None:
        records = batch.records()
        if end is not None and batch.last_dlsn >= end:
            yield [record for record in records if record.dlsn < end]
            return
        yield records


async def _end_of(namespace: Namespace, stream: str) -> Dlsn:
    """Return the position after the last record that is readable now."""
    reader = await namespace.open_reader(stream, LATEST)
    try:
        return reader.position
    finally:
        await reader.aclose()


async def _last_records(namespace: Namespace, stream: str, count: int, end: Dlsn) -> list[Record]:
    """Return the last ``count`` records below ``end``, reading only the segments needed."""
    known = await namespace.describe(stream)
    start, found = known.start, 0
    for segment in reversed(known.segments):
        start = max(known.start, Dlsn(segment.lssn, 0, 0))
        found += segment.record_count
        if found >= count and segment.is_completed:
            break
    records: deque[Record] = deque(maxlen=count)
    reader = await namespace.open_reader(stream, start)
    try:
        async for batch in _up_to(reader, end):
            records.extend(batch)
    finally:
        await reader.aclose()
    return list(records)


def _earlier(first: Dlsn | None, second: Dlsn | None) -> Dlsn | None:
    return min((end for end in (first, second) if end is not None), default=None)
