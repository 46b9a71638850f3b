"""The shortest recent round trip to each region: what distance alone costs (rule LED-25)."""

from ...protocol.bookie_id import BookieId, Region

_WINDOW_S = 300.0


class RegionRoundTrips:
    """The shortest round trips of a process in the last five to ten minutes.

    A bookie whose region is unknown counts as a region of its own. Times are loop time in seconds.
    """

    def __init__(self) -> None:
        self._window_began = 0.0
        self._current: dict[Region | BookieId, float] = {}
        self._earlier: dict[Region | BookieId, float] = {}

    def add(self, place: Region | BookieId, took_ms: float, now: float) -> None:
        """Takes the time of a request and its response, or infinity if there was none."""
        if now - self._window_began >= _WINDOW_S:
            is_old = now - self._window_began >= 2 * _WINDOW_S
            self._earlier = {} if is_old else self._current
            self._current = {}
            self._window_began = now
        self._current[place] = min(took_ms, self._current.get(place, took_ms))

    def shortest_ms(self, place: Region | BookieId) -> float:
        """Returns the shortest round trip; infinity if none is known."""
        never = float("inf")
        return min(self._current.get(place, never), self._earlier.get(place, never))
