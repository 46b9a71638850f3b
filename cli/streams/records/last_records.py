"""Reads the last records of a stream without reading much of what is before them."""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile

from ....core.log.metadata.stream_description import StreamDescription
from ....core.log.namespace import Namespace
from ....core.protocol.dlsn import Dlsn
from .record_parts import RecordPart, read_parts

_FIRST_BACK = 16
"""Entries before the end that the first attempt reads; fewer if fewer records are wanted."""
_GROWTH = 16
"""Factor by which each further attempt in a segment begins farther back."""


async def read_last(namespace: Namespace, stream: str, count: int, end: Dlsn) -> list[RecordPart]:
    """Return the last ``count`` records below ``end``, or all if there are fewer.

    Raises NoSuchStreamError, TruncatedError, GapError, CorruptionError.
    """
    last: list[RecordPart] = []
    if count:
        for start in starts_of_last(await namespace.describe(stream), count, end):
            last = await _last_from(namespace, stream, start, count, end)
            if sum(part.number for part in last) == count:
                break
    return last


async def _last_from(
    namespace: Namespace, stream: str, start: Dlsn, count: int, end: Dlsn
) -> list[RecordPart]:
    """Return the last ``count`` records from ``start`` to ``end``, or all if there are fewer."""
    kept: deque[RecordPart] = deque()
    found = 0
    async with await namespace.open_reader(stream, start) as reader:
        async for parts in read_parts(reader, end):
            for part in parts:
                kept.append(part)
                found += part.number
                while found - kept[0].number >= count:
                    found -= kept.popleft().number
    if found > count:
        first = kept.popleft()
        extra = found - count
        kept.appendleft(RecordPart(first.batch.without_first(extra), first.number - extra))
    return list(kept)


def starts_of_last(known: StreamDescription, count: int, end: Dlsn) -> Iterator[Dlsn]:
    """Yield positions from which to look for the last ``count`` records, from the end backwards.

    An entry has any number of records, perhaps none, so the first position is only likely to be far
    enough back. The last one is the start of the stream.
    """
    yield from takewhile(lambda start: start > known.start, _positions_back(known, count, end))
    yield known.start


def _positions_back(known: StreamDescription, count: int, end: Dlsn) -> Iterator[Dlsn]:
    wanted = count
    for segment in reversed(known.segments):
        if segment.lssn > end.lssn:
            continue
        if segment.is_completed and segment.record_count < wanted:
            wanted -= segment.record_count  # too few: reading begins in an earlier segment
            continue
        last_entry = end.entry_id if segment.lssn == end.lssn else segment.last_entry_id
        back = min(wanted, _FIRST_BACK)
        while back < last_entry:
            yield Dlsn(segment.lssn, last_entry - back, 0)
            back *= _GROWTH
        yield Dlsn(segment.lssn, 0, 0)
