"""The lateness of this process's own event loop, which relaxes its judgement of others (PRX-33).

A process that did not run could not read the responses that had arrived. Silence is therefore
measured on a clock of *running time*, which does not count the time by which a tick was late, and
the worst recent lateness prolongs the silence that is tolerated (Lifeguard's local health). Pure.
"""

from collections import deque

_RECENT_S = 2.0
_MINUTE_S = 60.0
"""Time for which a late tick is remembered."""
_TICKS_KEPT = 1_000
_USUAL_RANK = 10
"""Rank of the usual lateness among the late ticks of a minute. A process that is short of CPU is
late many times in a minute; one that was hung, or moved to another host, is late a few times."""


class LoopLateness:
    """Lateness and running time, from the times at which a periodic tick was due and happened."""

    def __init__(self, now_s: float) -> None:
        self.running_s = 0.0
        """Time since the start, without the time by which ticks were late."""
        self._ticked_at_s = now_s
        self._late_ticks: deque[tuple[float, float]] = deque(maxlen=_TICKS_KEPT)

    def tick(self, now_s: float, interval_s: float) -> None:
        """Record a tick that was due ``interval_s`` after the one before."""
        elapsed_s = now_s - self._ticked_at_s
        self._ticked_at_s = now_s
        self.running_s += min(elapsed_s, interval_s)
        late_s = elapsed_s - interval_s
        if late_s > interval_s:
            self._late_ticks.append((now_s, late_s))
        while self._late_ticks and self._late_ticks[0][0] < now_s - _MINUTE_S:
            self._late_ticks.popleft()

    @property
    def worst_s(self) -> float:
        """The largest lateness of the last two seconds; 0 if no tick was a whole interval late."""
        return max(
            (late_s for at_s, late_s in self._late_ticks if at_s >= self._ticked_at_s - _RECENT_S),
            default=0.0,
        )

    @property
    def usual_s(self) -> float:
        """The tenth largest lateness of the last minute; 0 if fewer ticks were late."""
        ordered = sorted((late_s for _, late_s in self._late_ticks), reverse=True)
        return ordered[_USUAL_RANK - 1] if len(ordered) >= _USUAL_RANK else 0.0

    @property
    def expected_s(self) -> float:
        """The time for which this process may stall again: the worst or the usual delay."""
        return max(self.worst_s, self.usual_s)
