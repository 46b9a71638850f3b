"""Reads a stream in parts: all records that are available without waiting, up to a bound."""

import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

from ....core.log.read.record_batch import Record, RecordBatch
from ....core.log.read.stream_reader import StreamReader
from ....core.protocol.dlsn import Dlsn

_BYTES_MAX = 1 << 20
"""Payload bytes after which a list of parts is returned, even if more records are available."""


class RecordPart(NamedTuple):
    """The first ``number`` records of a batch."""

    batch: RecordBatch
    number: int

    def payloads(self) -> list[bytes]:
        """Return the payloads. Raises CorruptionError."""
        return self.batch.payloads()[: self.number]

    def records(self) -> list[Record]:
        """Return the records. Raises CorruptionError."""
        return self.batch.records()[: self.number]


async def read_parts(
    reader: StreamReader, end: Dlsn | None, limit: int | None = None
) -> AsyncIterator[list[RecordPart]]:
    """Yield the records below ``end``, ``limit`` at most, as they become available.

    ``end`` may be in the future.
    """
    left = sys.maxsize if limit is None else limit
    is_complete = False
    while not is_complete and (batch := await reader.next_batch(until=end)) is not None:
        parts, size = [], 0
        while batch is not None:
            number = min(_count_before(end, batch), left)
            parts.append(RecordPart(batch, number))
            left -= number
            size += batch.record_set.payload_bytes
            is_complete = number < len(batch) or not left
            batch = None if is_complete or size >= _BYTES_MAX else reader.try_next_batch()
        yield parts


def _count_before(end: Dlsn | None, batch: RecordBatch) -> int:
    if end is None or batch.last_dlsn < end:
        return len(batch)
    return sum(record.dlsn < end for record in batch.records())
