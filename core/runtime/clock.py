"""Wall-clock time. Monotonic time and timers are the running loop's."""

from typing import Protocol


class Clock(Protocol):
    """Says what time of day it is. May jump in both directions; no decision of safety uses it."""

    def wall_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...
