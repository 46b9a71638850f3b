"""The expected delay of a process that is short of CPU (rule PRX-33). Pure.

A process that the operating system keeps waiting for a CPU has long delays now and then, of many
times the usual length, so that its delays so far say little about the next one. The share of time
in which it waited says more. A process that was stopped does not wait for a CPU.
"""

from collections import deque

_WINDOW_S = 5.0
_WINDOWS = 3
"""Number of complete windows that count, besides the present one."""
_PRESENT_S_MIN = 1.0
"""The present window counts when it is this old."""
USUAL_SHARE = 0.2
"""Share of time in which a process may wait for a CPU without being short of it."""
_SECONDS_PER_SHARE = 10.0
"""Expected delay of a process, per share of time beyond the usual one."""


class CpuShortage:
    """The shares of time in which a process waited for a CPU lately."""

    def __init__(self, now_s: float, waited_s: float) -> None:
        """``waited_s`` is the time for which the process has waited since any fixed moment."""
        self._began_s = now_s
        self._waited_s = waited_s
        self._shares: deque[float] = deque(maxlen=_WINDOWS)
        self._present_share = 0.0

    def sample(self, now_s: float, waited_s: float) -> None:
        """Record the time for which the process has waited until now."""
        seconds = now_s - self._began_s
        share = max(0.0, waited_s - self._waited_s) / max(seconds, _PRESENT_S_MIN)
        self._present_share = share if seconds >= _PRESENT_S_MIN else 0.0
        if seconds >= _WINDOW_S:
            self._shares.append(share)
            self._began_s, self._waited_s = now_s, waited_s

    @property
    def share(self) -> float:
        """The largest share of a recent window; 0 in the first second."""
        return max((self._present_share, *self._shares))

    @property
    def expected_delay_s(self) -> float:
        """Time for which the process may stall; 0 if it is not short of CPU."""
        return _SECONDS_PER_SHARE * max(0.0, self.share - USUAL_SHARE)
