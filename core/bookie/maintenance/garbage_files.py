"""The removal of garbage files: whole files in which no remaining ledger has entries.

Removing them needs no space, so it comes before everything that copies (rule BKE-30). The index
suggests the files. The compactor then reads each of them, and would copy what the index does not
name (rule BKE-19).
"""

from collections.abc import Awaitable, Callable

from ..storage import Storage
from .compactor import Compactor

_LEDGERS_PER_STEP = 10_000


class GarbageFiles:
    """Finds and removes the garbage files of one storage."""

    def __init__(
        self, storage: Storage, compactor: Compactor, pause: Callable[[], Awaitable[None]]
    ) -> None:
        """``pause`` is awaited between slices of work."""
        self._storage = storage
        self._compactor = compactor
        self._pause = pause
        self._seen: tuple[int, list[int], list[int]] | None = None
        self.removed_count = 0

    async def remove(self, damaged: set[int]) -> None:
        """Removes the garbage files, except ``damaged`` ones, to which new ones are added.

        Sorted files go in any order, logs from the oldest on: the rest of them is a chain. Cheap if
        nothing has changed since the last call. Raises DiskFullError (the log could not record it),
        DiskFailedError.
        """
        storage = self._storage
        seen = (storage.states.deletion_count, list(storage.sealed_logs), list(storage.sorted))
        if seen == self._seen:
            return
        idle = await self._files_without_rows()
        for number in list(storage.sorted):
            if number in idle and number not in damaged:
                await self._count(
                    number, damaged, await self._compactor.compact_sorted_file(number)
                )
        while storage.sealed_logs and storage.sealed_logs[0] in idle - damaged:
            number = storage.sealed_logs[0]
            await self._count(number, damaged, await self._compactor.compact_log(number))
        self._seen = (seen[0], list(storage.sealed_logs), list(storage.sorted))

    async def _count(self, number: int, damaged: set[int], is_removed: bool) -> None:
        if is_removed:
            self.removed_count += 1
        else:
            damaged.add(number)
        await self._pause()

    async def _files_without_rows(self) -> set[int]:
        """Return the numbers of the data files in which the index has rows of no held ledger."""
        storage, index = self._storage, self._storage.index
        ledgers = list(index.ledger_bits)
        used = 0
        for start in range(0, len(ledgers), _LEDGERS_PER_STEP):
            for ledger_id in ledgers[start : start + _LEDGERS_PER_STEP]:
                if storage.is_held(ledger_id):
                    used |= index.ledger_bits.get(ledger_id, 0)
            await self._pause()
        idle = {number for number, file in index.files.items() if not used >> file.slot & 1}
        for number, rows in index.sealed_tiers.items():
            if not any(map(storage.is_held, rows.ledgers())):
                idle.add(number)
        return idle
