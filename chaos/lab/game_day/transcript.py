"""The lines that an operator sees during a game day, with their times."""

import time
from collections.abc import Callable
from pathlib import Path

_LINES_MAX = 40


class Transcript:
    """Prints lines with the seconds since the start, and appends them to a file."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._clock = clock
        self._began = clock()
        self.line_count = 0
        """The number of lines that were printed."""
        path.write_text("")

    def now_s(self) -> float:
        """Return the seconds since the start."""
        return self._clock() - self._began

    def title(self, text: str) -> None:
        """Begin a step."""
        self._write(f"\n=== {text}")

    def say(self, text: str) -> None:
        """Print a line."""
        self._write(f"[{self.now_s():6.1f}] {text}")

    def output(self, text: str) -> None:
        """Print the output of a command; of a long one the beginning and the end."""
        lines = text.rstrip().splitlines()
        if len(lines) > _LINES_MAX:
            half = _LINES_MAX // 2
            left_out = f"... {len(lines) - 2 * half} lines ..."
            lines = [*lines[:half], left_out, *lines[-half:]]
        for line in lines:
            self._write(f"         | {line}")

    def table(self, text: str) -> None:
        """Print text as it is."""
        self._write(text)

    def _write(self, text: str) -> None:
        print(text, flush=True)
        self.line_count += 1
        with self.path.open("a") as file:
            file.write(text + "\n")
