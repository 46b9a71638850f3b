"""Three bookie processes for a benchmark, and what they and this process use of the machine."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ..core.protocol.errors import UnavailableError

REGION = "local"
_BOOKIES = 3
_START_SECONDS_MAX = 30
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_COMMAND = (sys.executable, "-c", "from rhumbline.cli import main; main()")


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU seconds since the start, and resident memory in MiB, of servers and client."""

    server_cpu_s: float
    client_cpu_s: float
    server_rss_mib: int
    client_rss_mib: int


class BookieProcesses:
    """A fresh cluster of three bookies below ``root``; ``metadata`` is the URI for clients."""

    def __init__(self, root: Path) -> None:
        self.metadata = f"sqlite://{root.resolve()}/metadata.db"
        self._root = root
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        """Starts them, and returns when all serve. Raises UnavailableError."""
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
        """What has been used so far."""
        servers = [_usage_of(process.pid) for process in self._processes]
        client_cpu_s, client_rss = _usage_of(os.getpid())
        return Usage(
            sum(cpu_s for cpu_s, _ in servers),
            client_cpu_s,
            sum(rss for _, rss in servers) >> 20,
            client_rss >> 20,
        )

    def _start(self) -> None:
        self._run("cluster", "init")
        logs = []
        for number in range(_BOOKIES):
            directory = self._root / f"b{number}"
            self._run("bookie", "format", str(directory), "--name", directory.name)
            log = self._root / f"{directory.name}.log"
            logs.append(log)
            with log.open("wb") as out:
                command = (*_COMMAND, "bookie", "run", str(directory), "--port", "0")
                self._processes.append(
                    subprocess.Popen([*command, *self._options()], stdout=out, stderr=out)
                )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not all(b" serves " in log.read_bytes() for log in logs):
            if time.monotonic() > deadline or any(p.poll() is not None for p in self._processes):
                text = "; ".join(log.read_text().strip()[-200:] for log in logs)
                raise UnavailableError(f"the bookies did not start: {text}")
            time.sleep(0.02)

    def _run(self, *arguments: str) -> None:
        done = subprocess.run(
            [*_COMMAND, *arguments, *self._options()], capture_output=True, check=False
        )
        if done.returncode:
            raise UnavailableError(f"{' '.join(arguments)}: {done.stderr.decode().strip()}")

    def _options(self) -> tuple[str, ...]:
        return ("-u", self.metadata, "--region", REGION)

    def _stop(self) -> None:
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        self._processes.clear()


def _usage_of(pid: int) -> tuple[float, int]:
    """(CPU seconds, resident bytes) of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
    resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return cpu_s, resident_pages * _PAGE_BYTES
