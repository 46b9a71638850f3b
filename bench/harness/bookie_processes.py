"""Runs bookie processes for benchmarks and measures the resources of servers and client."""

import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ...chaos.managed_process import rhumbline_command
from ...chaos.server_processes import BookieProcess
from ...client.connect import Client
from ...client.system_runtime import system_runtime
from ...core.protocol.errors import UnavailableError
from ...core.runtime.tracing import Tracer
from .lab_tls import LabTls

REGION = "local"
_SECONDS_MAX = 300
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since the start, and resident memory in MiB, of servers and client."""

    server_cpu_s: float
    client_cpu_s: float
    server_rss_mib: int
    client_rss_mib: int


class BookieProcesses:
    """A new cluster of ``count`` bookies below ``root``; ``metadata`` is the URI for clients.

    ``settings`` are the bookies' settings by their names in the section [bookie]. With ``tls`` all
    connections use TLS.
    """

    def __init__(
        self,
        root: Path,
        *,
        count: int = 3,
        settings: Mapping[str, str] | None = None,
        tls: LabTls | None = None,
    ) -> None:
        self.root = root
        self.tls = tls
        self.metadata = f"sqlite://{root.resolve()}/metadata.db"
        self.directories = [root / f"b{number}" for number in range(count)]
        self.sealed_logs_kept = int((settings or {}).get("sealed_logs_kept", "4"))
        self._settings = _environment(settings or {})
        if tls is not None:
            self._settings.update(tls.server_environment)
        self._processes: dict[Path, BookieProcess] = {}

    def __enter__(self) -> Self:
        """Start the bookies and wait until all serve. Raises UnavailableError."""
        try:
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def usage(self) -> Usage:
        """Return the resources used so far."""
        servers = [usage_of(process.pid) for process in self._processes.values()]
        client_cpu_s, client_rss = usage_of(os.getpid())
        return Usage(
            sum(cpu_s for cpu_s, _ in servers),
            client_cpu_s,
            sum(rss for _, rss in servers) >> 20,
            client_rss >> 20,
        )

    def client(
        self, namespace: str, tracer: Tracer | None = None, *, region: str = REGION
    ) -> Client:
        """Return a client in this process, for use with ``async with``."""
        credentials = None if self.tls is None else self.tls.client_credentials
        runtime = system_runtime(tracer, credentials)
        return Client(self.metadata, namespace=namespace, region=region, runtime=runtime)

    @property
    def proxy_environment(self) -> Mapping[str, str]:
        """The environment variables of a proxy process."""
        return {**os.environ, **({} if self.tls is None else self.tls.server_environment)}

    def open_files(self) -> int:
        """Return the number of file descriptors of this process and of the bookies."""
        pids = [os.getpid(), *(process.pid for process in self._processes.values())]
        return sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)

    def region_of(self, directory: Path) -> str:
        """Return the region of a bookie."""
        del directory
        return REGION

    def environment_of(self, directory: Path) -> Mapping[str, str]:
        """Return the environment variables for a bookie process."""
        del directory
        return self._settings

    def pid(self, directory: Path) -> int:
        """Return the id of the process that serves ``directory``."""
        return self._processes[directory].pid

    def restart(self, settings: Mapping[str, str]) -> None:
        """Stop all processes in an orderly way, and start them with further settings."""
        for directory in self.directories:
            self.end(directory, signal.SIGTERM)
        self._settings.update(_environment(settings))
        self.start(*self.directories)

    def end(self, directory: Path, number: signal.Signals) -> None:
        """End a process by a signal and wait until it has exited."""
        self._processes.pop(directory).stop(_SECONDS_MAX, number=number)

    def start(self, *directories: Path) -> None:
        """Start processes and wait until all serve. Raises UnavailableError."""
        for directory in directories:
            assert directory not in self._processes
            process = self._processes[directory] = BookieProcess(
                directory,
                *self._options(self.region_of(directory)),
                environ={**os.environ, **self.environment_of(directory)},
                ready_s_max=_SECONDS_MAX,
            )
            process.launch()
        for directory in directories:
            self._processes[directory].wait_ready()

    def _start(self) -> None:
        self._format()
        self.start(*self.directories)

    def _format(self) -> None:
        self._run("cluster", "init")
        if self.tls is not None and self.tls.has_checks:
            self._run("access", "grant", "*", "all", "cluster")
        for directory in self.directories:
            arguments = ("bookie", "format", str(directory), "--name", directory.name)
            self._run(*arguments, region=self.region_of(directory))

    def _run(self, *arguments: str, region: str = REGION) -> None:
        done = subprocess.run(
            rhumbline_command(*arguments, "-u", *self._options(region)),
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise UnavailableError(f"{' '.join(arguments)}: {done.stderr.decode().strip()}")

    def _options(self, region: str) -> tuple[str, ...]:
        return (self.metadata, "--region", region)

    def _stop(self) -> None:
        for process in self._processes.values():
            process.stop()
        self._processes.clear()


def _environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of settings in the section [bookie]."""
    return {f"RHUMBLINE_BOOKIE__{name.upper()}": value for name, value in settings.items()}


def written_bytes(pid: int) -> int:
    """Return the bytes that a process caused to be written to disk, in whole cache pages."""
    return _proc_value(Path(f"/proc/{pid}/io"), "write_bytes")


def anonymous_bytes(pid: int) -> int:
    """Return the bytes of anonymous memory of a process."""
    return _proc_value(Path(f"/proc/{pid}/status"), "RssAnon") * 1024


def _proc_value(file: Path, name: str) -> int:
    for line in file.read_text().splitlines():
        key, _, value = line.partition(":")
        if key == name:
            return int(value.split()[0])
    raise AssertionError(f"{file} has no field {name}")


def usage_of(pid: int) -> tuple[float, int]:
    """Return (CPU seconds, resident bytes) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return cpu_s, resident_pages * _PAGE_BYTES
