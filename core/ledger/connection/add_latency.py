"""Samples how long a bookie takes to store an entry: one add at a time (rule LED-25)."""

from collections import deque

SAMPLE_INTERVAL_S = 0.1
_SAMPLES_KEPT = 7
_SAMPLES_MIN = 3
_RECENT_S = 10.0
_NEVER = float("inf")


class AddLatency:
    """Recent latencies of the link to one bookie. Times are loop time in seconds.

    At most one add in ``SAMPLE_INTERVAL_S`` is timed, so that the other ones cost one comparison
    when they are sent and one when they are answered.
    """

    __slots__ = ("_samples", "_sent_at", "due", "key", "lowest_ms")

    def __init__(self) -> None:
        self.due = 0.0
        """The next add that is pushed at or after this time is to be timed."""
        self.key = b""
        """The key of the add that is being timed; empty if there is none."""
        self.lowest_ms = _NEVER
        """The shortest round trip since ``take_lowest_ms``: of a timed add or a handshake."""
        self._sent_at = 0.0
        self._samples: deque[tuple[float, float]] = deque(maxlen=_SAMPLES_KEPT)

    def begin(self, key: bytes, now: float) -> None:
        """Times the add with this key. If it is not answered soon, another one is timed."""
        self.key = key
        self._sent_at = now
        self.due = now + _RECENT_S

    def end(self, now: float) -> None:
        """Takes the response to the add that is being timed."""
        took_ms = (now - self._sent_at) * 1000
        self._samples.append((now, took_ms))
        self.key = b""
        self.due = now + SAMPLE_INTERVAL_S
        self.on_round_trip(took_ms)

    def drop(self) -> None:
        """Forgets the add that is being timed, because the connection was lost."""
        self.key = b""
        self.due = 0.0

    def on_round_trip(self, took_ms: float) -> None:
        """Takes the time of any request and its response, for ``lowest_ms``."""
        self.lowest_ms = min(self.lowest_ms, took_ms)

    def take_lowest_ms(self) -> float:
        """Returns the shortest round trip since the last call; infinity if there was none."""
        lowest_ms, self.lowest_ms = self.lowest_ms, _NEVER
        return lowest_ms

    @property
    def answered_at(self) -> float | None:
        """Loop time at which the last timed add was answered; None if none was."""
        return self._samples[-1][0] if self._samples else None

    def recent_ms(self, now: float) -> float | None:
        """Returns the median of the last 10 s; None if too few adds were timed.

        An add that waits for its response longer than that median counts with its age.
        """
        known = sorted(took_ms for at, took_ms in self._samples if at > now - _RECENT_S)
        if self.key:
            waited_ms = (now - self._sent_at) * 1000
            if not known or waited_ms > known[len(known) // 2]:
                known = sorted((*known, waited_ms))
        return known[len(known) // 2] if len(known) >= _SAMPLES_MIN else None
