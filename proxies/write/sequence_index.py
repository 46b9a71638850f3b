"""Where a numbered set of records is, for a producer whose acknowledgement was lost.

The log says at once *that* a set is in the stream; where is told only of each producer's newest.
For the others the newest completed segments are read backwards, once for all who ask.
"""

import asyncio

from ...core.log.namespace import Namespace
from ...core.protocol.dlsn import Dlsn

SCAN_BYTES_MAX = 64 << 20
_ENTRIES_AT_ONCE = 64


class SequenceIndex:
    """The places of the sets at the end of one stream, as far as they were looked for."""

    def __init__(self, namespace: Namespace, stream: str) -> None:
        self._namespace = namespace
        self._stream = stream
        self._found: dict[tuple[bytes, int], tuple[Dlsn, int]] = {}
        self._unread: list[tuple[int, int]] | None = None  # (lssn, entries), newest last
        self._scanned_bytes = 0
        self._lock = asyncio.Lock()

    async def find(self, producer: bytes, first_sequence: int) -> tuple[Dlsn, int] | None:
        """(position of the first record, number of records) of a set; None: not found."""
        key = (producer, first_sequence)
        async with self._lock:
            while key not in self._found and await self._read_more():
                pass
        return self._found.get(key)

    async def _read_more(self) -> bool:
        if self._unread is None:
            known = await self._namespace.describe(self._stream)
            done = [segment for segment in known.segments if segment.is_completed]
            self._unread = [(s.lssn, s.last_entry_id + 1) for s in done if not s.is_empty]
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
                one = batch.record_set
                self._scanned_bytes += len(one.raw)
                self._found[one.producer, one.first_sequence] = (batch.first_dlsn, one.count)
                if batch.lssn > lssn:
                    break
        finally:
            await reader.aclose()
        return True
