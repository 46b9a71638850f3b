"""A process that runs a function of a benchmark and exchanges lines with it."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

from ...chaos.managed_process import ManagedProcess

_RESPONSE_SECONDS_MAX = 120


class WorkerProcess(ManagedProcess):
    """A process that runs ``main``, a function of a module.

    ``main`` reads ``settings`` as the first line of its standard input, and prints its responses,
    one line each. Unlike other managed processes it keeps the settings of Rhumbline that are in
    this environment.
    """

    def __init__(self, folder: Path, name: str, main: Callable[[], None], settings: bytes) -> None:
        super().__init__(
            name,
            [
                sys.executable,
                "-c",
                f"from {main.__module__} import {main.__name__} as main; main()",
            ],
            folder / f"{name}.log",
            environ=os.environ,
            has_input=True,
            has_output=True,
        )
        self._settings = settings

    def launch(self) -> None:
        """Start the process and send its settings, without waiting for a response."""
        super().launch()
        self.write_line(self._settings)

    async def request(self) -> bytes:
        """Send an empty line, and return the response as ``response`` does."""
        self.write_line(b"")
        return await self.response()

    async def response(self, seconds_max: float = _RESPONSE_SECONDS_MAX) -> bytes:
        """Wait for a line. Raises UnavailableError if the process ended, and TimeoutError."""
        async with asyncio.timeout(seconds_max):
            return await asyncio.to_thread(self.read_line)
