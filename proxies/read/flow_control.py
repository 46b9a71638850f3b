"""Flow control of a read call by credit in bytes, and in records (rules PRX-20, PRX-37)."""

import asyncio

_UNLIMITED = 1 << 62


class ReadCredit:
    """Bytes and records that a reader still accepts: it grants credit, a sent block uses some."""

    def __init__(self, granted: int, records: int = 0) -> None:
        """``records``: the first grant of a read with decoded records; 0: no limit."""
        self.wake = asyncio.Event()
        self.bytes_left = granted
        self.records_left = records if records > 0 else _UNLIMITED
        self._is_final = False

    def grant(self, amount: int, records: int = 0) -> None:
        """Add bytes and records of credit; amounts below 1 are ignored."""
        self.bytes_left += max(0, amount)
        self.records_left += max(0, records)
        self.wake.set()

    def take(self, amount: int) -> None:
        """Subtract the size of a sent block. The last block may exceed the credit."""
        self.bytes_left -= amount

    def take_records(self, count: int) -> None:
        """Subtract a number of records, at most ``records_left``."""
        assert count <= self.records_left
        self.records_left -= count

    def end(self) -> None:
        """Note that no more credit will be granted."""
        self._is_final = True
        self.wake.set()

    async def wait(self, stopping: asyncio.Event) -> bool:
        """Wait for credit. Returns True if a block may be sent, False if no block will be."""
        while not self._is_left() and not self._is_final and not stopping.is_set():
            self.wake.clear()
            await self.wake.wait()
        return self._is_left() and not stopping.is_set()

    def _is_left(self) -> bool:
        return self.bytes_left > 0 and self.records_left > 0
