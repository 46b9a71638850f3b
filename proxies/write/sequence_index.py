"""Finds the position of a numbered record set whose acknowledgement was lost (rule PRX-12).

The deduplication table of the log shows immediately whether a set is in the stream, but keeps the
position of each producer's newest set only. For older sets the completed segments are read
backwards from the newest one, once for all callers.
"""

import asyncio

from ...core.log.namespace import Namespace
from ...core.protocol.dlsn import Dlsn

SCAN_BYTES_MAX = 64 << 20
_ENTRIES_AT_ONCE = 64


class SequenceIndex:
    """Positions of the record sets at the end of one stream, as far as they have been read."""

    def __init__(self, namespace: Namespace, stream: str) -> None:
        self._namespace = namespace
        self._stream = stream
        self._found: dict[tuple[bytes, int], tuple[Dlsn, int]] = {}
        self._unread: list[tuple[int, int]] | None = None  # (lssn, entries), newest last
        self._scanned_bytes = 0
        self._lock = asyncio.Lock()

    async def find(self, producer: bytes, first_sequence: int) -> tuple[Dlsn, int] | None:
        """Return (position of the first record, record count) of a set; None if not found."""
        key = (producer, first_sequence)
        async with self._lock:
            while key not in self._found and await self._read_more():
                pass
        return self._found.get(key)

    async def _read_more(self) -> bool:
        if self._unread is None:
            description = await self._namespace.describe(self._stream)
            completed = [segment for segment in description.segments if segment.is_completed]
            self._unread = [(s.lssn, s.last_entry_id + 1) for s in completed if not s.is_empty]
        if not self._unread or self._scanned_bytes > SCAN_BYTES_MAX:
            return False
        lssn, end = self._unread.pop()
        start = max(0, end - _ENTRIES_AT_ONCE)
        if start > 0:
            self._unread.append((lssn, start))
        reader = await self._namespace.open_reader(
            self._stream, Dlsn(lssn, start, 0), on_truncated=lambda *_: None
        )
        try:
            while (batch := await reader.next_batch(until=Dlsn(lssn, end, 0))) is not None:
                found = batch.record_set
                self._scanned_bytes += found.raw_bytes
                self._found[found.producer, found.first_sequence] = (batch.first_dlsn, found.count)
                if batch.lssn > lssn:
                    break
        finally:
            await reader.aclose()
        return True
