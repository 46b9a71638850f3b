"""The lag of the readers of a process behind the ends of their streams."""

import asyncio
from typing import Any
from weakref import WeakValueDictionary


class ReaderLag:
    """The lag of one reader: the time since it last waited at the end of its stream.

    It is 0 while the reader waits there, and thus an upper bound of the age of the oldest entry
    that the reader has not fetched. A reader that begins before the end counts from its beginning.
    """

    __slots__ = ("__weakref__", "_at_end_since", "_is_waiting", "_now", "number")

    def __init__(self) -> None:
        self.number = 0
        self._now = asyncio.get_running_loop().time
        self._at_end_since = self._now()
        self._is_waiting = False

    def begin_wait(self) -> None:
        """Note that the reader has everything, and waits for more."""
        self._is_waiting = True

    def end_wait(self) -> None:
        """Note that the reader does not wait any more. Safe to repeat."""
        if self._is_waiting:
            self._is_waiting = False
            self._at_end_since = self._now()

    @property
    def seconds(self) -> float:
        """The lag now."""
        return 0.0 if self._is_waiting else self._now() - self._at_end_since


class ReaderLags:
    """The lags of all readers that have begun to read and were not closed.

    With ``all_lags`` they are those of one stream, and also count among those of the process.
    """

    def __init__(self, all_lags: "ReaderLags | None" = None) -> None:
        self._all = all_lags
        self._open: WeakValueDictionary[int, ReaderLag] = WeakValueDictionary()
        self._last_number = 0

    def add(self, lag: ReaderLag) -> None:
        """Count a reader until it is discarded, or nothing refers to it any more."""
        if self._all is None:
            self._last_number += 1
            lag.number = self._last_number
        else:
            self._all.add(lag)
        self._open[lag.number] = lag

    def discard(self, lag: ReaderLag) -> None:
        """Count a reader no more. Safe to repeat."""
        if self._all is not None:
            self._all.discard(lag)
        self._open.pop(lag.number, None)

    def statistics(self) -> dict[str, Any]:
        """Return the number of readers, and the longest lag in milliseconds."""
        longest_s = max((lag.seconds for lag in self._open.values()), default=0.0)
        return {"open": len(self._open), "behind_ms": round(longest_s * 1000)}
