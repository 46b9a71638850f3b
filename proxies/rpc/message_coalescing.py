"""How often messages are sent on one call: a message costs as much as twenty items in it."""

import asyncio

_SECONDS_FOR_EACH = 0.0002
"""That items wait for company, for each one that is outstanding: who awaits every record alone does
not wait, a hundred producers share their messages."""

_SECONDS_MAX = 0.004


class MessagePacer:
    """Of one direction of one call. The first message after a pause goes at once."""

    __slots__ = ("_last_at", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last_at = 0.0

    async def wait(self, outstanding_count: int) -> None:
        """Until the next message may go, with so many items on their way."""
        period_s = min((outstanding_count - 1) * _SECONDS_FOR_EACH, _SECONDS_MAX)
        wait_s = self._last_at + period_s - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._last_at = self._loop.time()
