"""The interface for wall-clock time. Monotonic time and timers come from the running event loop."""

from typing import Protocol


class Clock(Protocol):
    """A wall clock. It may jump in both directions, so nothing that matters for safety uses it."""

    def wall_ms(self) -> int:
        """Return the milliseconds since the Unix epoch."""
        ...
