"""The sealed logs that are worth compacting while space is short: those that contain garbage.

Logs are compacted from the oldest on, so a log without garbage is rewritten if a later one has
some. The estimate comes from the index; the compactor itself reads the files.
"""

from collections.abc import Awaitable, Callable, Iterable

from ..index.ledger_entries import LedgerEntries
from ..storage import Storage

LIVE_PERCENT_WHEN_SHORT = 90
"""Percentage of live bytes below which a file is rewritten while space is short."""

_LEDGERS_PER_STEP = 100


class GarbageLogs:
    """Counts the oldest sealed logs that should be compacted; ``count`` is valid between rounds."""

    def __init__(self, storage: Storage, pause: Callable[[], Awaitable[None]]) -> None:
        """``pause`` is awaited between slices of work."""
        self._storage = storage
        self._pause = pause
        self._seen: tuple[int, int] | None = None
        self.count = 0
        """Number of the oldest sealed logs to compact: the last of them contains garbage."""

    async def count_again(self) -> None:
        """Counts anew if ledgers were deleted or logs were sealed since the last time.

        Raises DamagedBlockError, DiskFailedError.
        """
        storage = self._storage
        logs = list(storage.sealed_logs)
        seen = (storage.states.deletion_count, logs[-1] if logs else 0)
        if seen == self._seen:
            return
        count = 0
        for at, number in enumerate(logs):
            data_file = storage.data_files.get(number)
            if data_file is None:
                continue  # its header is damaged
            live_bytes = await self._live_bytes(number)
            if live_bytes * 100 < data_file.end * LIVE_PERCENT_WHEN_SHORT:
                count = at + 1
        self.count, self._seen = count, seen

    def oldest_removed(self) -> None:
        """Records that the oldest log was compacted."""
        self.count = max(0, self.count - 1)

    async def _live_bytes(self, number: int) -> int:
        index = self._storage.index
        rows, file = index.sealed_tiers.get(number), index.files.get(number)
        if rows is not None:
            return await self.live_bytes_in(rows.columns())
        return 0 if file is None else await self.live_bytes_in(await file.columns())

    async def live_bytes_in(self, columns: Iterable[tuple[int, LedgerEntries]]) -> int:
        """Return the bytes of the entries whose ledgers were not deleted."""
        live_bytes = 0
        for at, (ledger_id, rows) in enumerate(columns):
            if self._storage.is_held(ledger_id):
                live_bytes += sum(rows.lengths)
            if at % _LEDGERS_PER_STEP == 0:
                await self._pause()
        return live_bytes
