"""Bookies and proxies as child processes of tests and benchmarks, on free ports of loopback."""

from collections.abc import Mapping
from pathlib import Path

from .managed_process import ManagedProcess, rhumbline_command

READY_S_MAX = 120.0

STATUS_URL = r"status at (\S+)\)"
"""Finds the address of a status server in what its server prints when it is ready."""


def status_url(server: ManagedProcess) -> str:
    """Return the address of the status server of a server that is ready, with its scheme."""
    found = server.find(STATUS_URL)
    assert found is not None, server.output
    return found


def status_port(server: ManagedProcess) -> int:
    """Return the port of the status server of a server that is ready."""
    return int(status_url(server).rpartition(":")[2])


class BookieProcess(ManagedProcess):
    """The process that serves a bookie's formatted directory; its log is beside the directory."""

    def __init__(
        self,
        directory: Path,
        metadata: str,
        *options: str,
        environ: Mapping[str, str] | None = None,
        ready_s_max: float = READY_S_MAX,
    ) -> None:
        super().__init__(
            directory.name,
            rhumbline_command(
                "bookie", "run", str(directory), "-u", metadata, "--port", "0", *options
            ),
            directory.with_suffix(".log"),
            ready=r"^bookie \S+ serves ",
            ready_s_max=ready_s_max,
            environ=environ,
        )
        self.directory = directory

    @property
    def port(self) -> int:
        """The port on which the bookie serves."""
        return int(self.find(r"^bookie \S+ serves .* at \S+:(\d+) ") or 0)


class ProxyProcess(ManagedProcess):
    """A proxy process; ``kind`` is its command. A restart uses the address of the first start."""

    def __init__(
        self,
        folder: Path,
        metadata: str,
        kind: str,
        name: str,
        *options: str,
        region: str,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            name,
            [],
            folder / f"{name}.log",
            ready="proxy serves at ",
            ready_s_max=READY_S_MAX,
            environ=environ,
        )
        self.region = region
        self.address = ""
        """host:port once it is ready."""
        self._arguments = (kind, "-u", metadata, "--region", region, *options)

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        port = self.address.rpartition(":")[2] or "0"
        self.command = rhumbline_command(*self._arguments, "--port", port)
        super().launch()

    def wait_ready(self) -> None:
        """Wait until the proxy serves. Raises UnavailableError with the end of its log."""
        super().wait_ready()
        self.address = self.find(r"proxy serves at (\S+)") or ""
