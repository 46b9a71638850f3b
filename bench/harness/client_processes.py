"""The client processes of ``bench proxy``."""

import asyncio
import os
import sys
from pathlib import Path

from ...chaos.managed_process import ManagedProcess
from ...core.protocol.errors import RhumblineError, UnavailableError
from .bookie_processes import usage_of
from .proxy_clients import ClientMetrics, ClientSettings

_ANSWER_SECONDS_MAX = 120
_CLIENT = "from rhumbline.bench.harness.proxy_clients import main; main()"


class ClientProcess(ManagedProcess):
    """A process of producers or readers (see ``proxy_clients``)."""

    def __init__(self, folder: Path, name: str, settings: ClientSettings) -> None:
        super().__init__(
            name,
            [sys.executable, "-c", _CLIENT],
            folder / f"{name}.log",
            environ=os.environ,
            has_input=True,
            has_output=True,
        )
        self._settings = settings

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        super().launch()
        self.write_line(self._settings.encode())

    async def ready(self) -> None:
        """Wait until the clients run. Raises UnavailableError."""
        line = await self._line()
        if line != b"ready":
            raise UnavailableError(f"unexpected output of a client process: {line!r}")

    async def take(self) -> ClientMetrics:
        """Return the metrics since the previous call. Raises RhumblineError if a client failed."""
        self.write_line(b"")
        metrics = ClientMetrics.decode(await self._line())
        if metrics.failure:
            raise RhumblineError(f"a client failed: {metrics.failure}")
        return metrics

    @property
    def resident_bytes(self) -> int:
        """The current resident memory in bytes."""
        return usage_of(self.pid)[1]

    async def _line(self) -> bytes:
        async with asyncio.timeout(_ANSWER_SECONDS_MAX):
            return await asyncio.to_thread(self.read_line)
