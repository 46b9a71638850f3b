"""Coalesces items into fewer messages, because a message costs as much as 20 items in it."""

import asyncio

_SECONDS_FOR_EACH = 0.0002
"""Delay per outstanding item. A producer that awaits each record alone is not delayed; 100
concurrent producers share their messages."""

_WEIGHT_MAX = 5
"""Maximum weight of an item with many records, as a number of items."""

_SECONDS_MAX = 0.004


class MessageCoalescer:
    """Delays the messages of one direction of one call. The first message after a pause is not
    delayed."""

    __slots__ = ("_last_at", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last_at = 0.0

    async def wait(self, outstanding_count: int, record_count: int = 0) -> None:
        """Wait until the next message may be sent, given the number of outstanding items.

        ``record_count`` is the number of records in them. The items of many producers of one stream
        are few and hold many records; a producer that awaits each large item alone is not delayed.
        """
        weight = max(outstanding_count, record_count) - 1
        weight = min(weight, (outstanding_count - 1) * _WEIGHT_MAX)
        period_s = min(weight * _SECONDS_FOR_EACH, _SECONDS_MAX)
        wait_s = self._last_at + period_s - self._loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._last_at = self._loop.time()
