"""Coalesces items into fewer messages, because a message costs as much as 20 items in it."""

import asyncio

COALESCING_MS = 4
"""Longest delay of a message whose items should leave as soon as possible."""

COALESCING_MS_MAX = 10
"""Longest delay of any message."""

_ITEMS_FOR_MAX = 20
"""Outstanding items from which on messages are delayed by the maximum. A producer that awaits each
record alone is not delayed; 100 concurrent producers share their messages."""

_WEIGHT_MAX = 5
"""Maximum weight of an item with many records, as a number of items."""


def coalescing_ms(flush_ms: int | None) -> int:
    """Return the longest delay for records of a stream with a flush period (None: no limit).

    Such records may wait for the next flush anyway. If they wait at the client, the proxy receives
    one record set with all of them instead of one for each.
    """
    if flush_ms is None:
        return COALESCING_MS_MAX
    return min(max(flush_ms, COALESCING_MS), COALESCING_MS_MAX)


class MessageCoalescer:
    """Delays the messages of one direction of one call. The first message after a pause is not
    delayed."""

    __slots__ = ("_last_at", "_loop")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._last_at = 0.0

    async def wait(
        self, outstanding_count: int, record_count: int = 0, delay_ms_max: int = COALESCING_MS
    ) -> bool:
        """Wait until the next message may be sent, but for ``COALESCING_MS`` at most.

        Return whether it may be sent. If not, call again with the numbers of that moment: they may
        permit a shorter delay. ``record_count`` is the number of records in the outstanding items.
        The items of many producers of one stream are few and hold many records; a producer that
        awaits each large item alone is not delayed. Only the number of items decides about a delay
        above ``COALESCING_MS``, as it is worth its time only if it makes fewer items.
        """
        weight = max(outstanding_count, record_count) - 1
        weight = min(weight, (outstanding_count - 1) * _WEIGHT_MAX, _ITEMS_FOR_MAX)
        item_weight = min(outstanding_count - 1, _ITEMS_FOR_MAX)
        period_ms = weight * COALESCING_MS + item_weight * (delay_ms_max - COALESCING_MS)
        wait_s = self._last_at + period_ms / _ITEMS_FOR_MAX / 1000 - self._loop.time()
        if wait_s > COALESCING_MS / 1000:
            await asyncio.sleep(COALESCING_MS / 1000)
            return False
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        self._last_at = self._loop.time()
        return True
