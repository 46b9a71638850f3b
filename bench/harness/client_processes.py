"""The client processes of ``bench proxy``."""

from pathlib import Path

from ...core.protocol.errors import RhumblineError, UnavailableError
from .bookie_processes import usage_of
from .proxy_clients import ClientMetrics, ClientSettings, main
from .worker_process import WorkerProcess


class ClientProcess(WorkerProcess):
    """A process of producers or readers (see ``proxy_clients``)."""

    def __init__(self, folder: Path, name: str, settings: ClientSettings) -> None:
        super().__init__(folder, name, main, settings.encode())

    async def ready(self) -> None:
        """Wait until the clients run. Raises UnavailableError."""
        line = await self.response()
        if line != b"ready":
            raise UnavailableError(f"unexpected output of a client process: {line!r}")

    async def take(self) -> ClientMetrics:
        """Return the metrics since the previous call. Raises RhumblineError if a client failed."""
        metrics = ClientMetrics.decode(await self.request())
        if metrics.failure:
            raise RhumblineError(f"a client failed: {metrics.failure}")
        return metrics

    @property
    def resident_bytes(self) -> int:
        """The current resident memory in bytes."""
        return usage_of(self.pid)[1]
