"""How many bytes a reader still takes."""

import asyncio


class ReadCredit:
    """Granted by the reader, taken by what is sent to it."""

    def __init__(self, granted: int) -> None:
        self.wake = asyncio.Event()
        self._left = granted
        self._is_final = False

    def grant(self, amount: int) -> None:
        """The reader takes ``amount`` bytes more; what is not above 0 is passed over."""
        self._left += max(0, amount)
        self.wake.set()

    def take(self, amount: int) -> None:
        """``amount`` bytes are sent; the last message may go beyond what was granted."""
        self._left -= amount

    def end(self) -> None:
        """No more will be granted."""
        self._is_final = True
        self.wake.set()

    async def wait(self, stopping: asyncio.Event) -> bool:
        """Whether something may be sent now; waits for credit. False: never again."""
        while self._left <= 0 and not self._is_final and not stopping.is_set():
            self.wake.clear()
            await self.wake.wait()
        return self._left > 0 and not stopping.is_set()
