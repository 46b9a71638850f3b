"""``stream read`` and ``stream tail``: records to standard output."""

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator

from ...core.log.namespace import Namespace
from ...core.log.read.positioning import EARLIEST, LATEST, AtTxid, Start
from ...core.log.read.record_batch import Record
from ...core.log.read.stream_reader import StreamReader
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError
from ...core.protocol.record_set import TXID_FIRST, TXID_LAST
from ..output import say
from .record_files import record_format


def parse_start(text: str) -> Start | Dlsn:
    """``earliest``, ``latest``, a DLSN, or ``txid:N``. Raises InvalidArgumentError."""
    if text == "earliest":
        return EARLIEST
    if text == "latest":
        return LATEST
    kind, _, number = text.partition(":")
    if kind == "txid":
        if not number.isdigit() or not TXID_FIRST <= int(number) <= TXID_LAST:
            raise InvalidArgumentError(f"{text!r}: a txid is a number from {TXID_FIRST} on")
        return AtTxid(int(number))
    return Dlsn.parse(text)


async def read_stream(
    namespace: Namespace,
    stream: str,
    *,
    form: str,
    follow: bool,
    start: Start | Dlsn = EARLIEST,
    end: Dlsn | None = None,
    limit: int | None = None,
    last: int | None = None,
) -> None:
    """Prints records from ``start`` (or only the ``last`` ones) up to what is there now.

    With ``follow`` it goes on until it is interrupted, which is a success. Raises
    NoSuchStreamError, TruncatedError, GapError, CorruptionError.
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
            limits = None if follow else stop
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
        say(f"{count:,} records of {stream} were printed")


async def _up_to(reader: StreamReader, end: Dlsn | None) -> AsyncIterator[list[Record]]:
    """Records by batch, up to ``end`` (not included), which may be beyond the last one."""
    while (batch := await reader.next_batch(until=end)) is not None:
        records = batch.records()
        if end is not None and batch.last_dlsn >= end:
            yield [record for record in records if record.dlsn < end]
            return
        yield records


async def _end_of(namespace: Namespace, stream: str) -> Dlsn:
    """The position behind the last record that is readable now."""
    reader = await namespace.open_reader(stream, LATEST)
    try:
        return reader.position
    finally:
        await reader.aclose()


async def _last_records(namespace: Namespace, stream: str, count: int, end: Dlsn) -> list[Record]:
    """The last ``count`` records below ``end``: reads as many of the last segments as it needs."""
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


def _earlier(one: Dlsn | None, other: Dlsn | None) -> Dlsn | None:
    return min((end for end in (one, other) if end is not None), default=None)
