"""Lowers the share of new data of bookies that are slow or have long queues (rule PLC-27)."""

from collections.abc import Mapping
from typing import NamedTuple

from ..protocol.bookie_id import BookieId
from ..runtime.primitives.lower_median import lower_median

SHARE_PERCENT_MIN = 6
"""A bookie always gets a share, so that it is measured again: about a sixteenth."""

_EASE_MS = 10.0
_EASE_BYTES = 1024 * 1024


class MeasuredLoad(NamedTuple):
    """The load of one bookie as this process sees it; None: not known."""

    latency_ms: float | None
    """The recent time to store an entry, without the distance to the bookie's region."""
    queued_bytes: int
    """Bytes of requests that the bookie has not answered yet."""
    was_left: bool
    """True if a writer of this process left the bookie recently because it was slow."""


def shares_percent(loads: Mapping[BookieId, MeasuredLoad]) -> dict[BookieId, int]:
    """Return the share of its free space that counts for each bookie, from 6 to 100 percent.

    A share is the median of the known bookies divided by the bookie's own value, for latency or for
    the queue, whichever is smaller. Differences below 10 ms and 1 MiB do not matter much, because
    so much is added to both.
    """
    latency_ms = lower_median(
        load.latency_ms for load in loads.values() if load.latency_ms is not None
    )
    queued_bytes = lower_median(load.queued_bytes for load in loads.values())
    shares: dict[BookieId, int] = {}
    for bookie, load in loads.items():
        by_queue = (queued_bytes + _EASE_BYTES) / (load.queued_bytes + _EASE_BYTES)
        by_latency = 1.0
        if load.latency_ms is not None:
            by_latency = (latency_ms + _EASE_MS) / (load.latency_ms + _EASE_MS)
        percent = 0 if load.was_left else int(100 * min(1.0, by_queue, by_latency))
        shares[bookie] = max(SHARE_PERCENT_MIN, percent)
    return shares
