"""Flow control of a read call by credit in bytes (rule PRX-20)."""

import asyncio


class ReadCredit:
    """Bytes that the reader still accepts: the reader grants credit, each sent block uses some."""

    def __init__(self, granted: int) -> None:
        self.wake = asyncio.Event()
        self._left = granted
        self._is_final = False

    def grant(self, amount: int) -> None:
        """Add ``amount`` bytes of credit; amounts below 1 are ignored."""
        self._left += max(0, amount)
        self.wake.set()

    def take(self, amount: int) -> None:
        """Subtract the size of a sent block. The last block may exceed the credit."""
        self._left -= amount

    def end(self) -> None:
        """Note that no more credit will be granted."""
        self._is_final = True
        self.wake.set()

    async def wait(self, stopping: asyncio.Event) -> bool:
        """Wait for credit. Returns True if a block may be sent, False if no block will be."""
        while self._left <= 0 and not self._is_final and not stopping.is_set():
            self.wake.clear()
            await self.wake.wait()
        return self._left > 0 and not stopping.is_set()
