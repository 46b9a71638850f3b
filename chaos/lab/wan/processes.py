"""The processes of the lab, which the kernel kills if the lab itself ends."""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ....core.protocol.errors import ConfigurationError, UnavailableError

READY_S_MAX = 60.0
_PR_SET_PDEATHSIG = 1


def python(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the package."""
    return [sys.executable, "-m", f"{__package__.partition('.')[0]}.{module}", *arguments]


def rhumbline(*arguments: str) -> list[str]:
    """Return the command that runs the ``rhumbline`` command line."""
    package = __package__.partition(".")[0]
    return [sys.executable, "-c", f"from {package}.cli import main; main()", *arguments]


class Program:
    """A program that runs as at most one process at a time and appends to one log file."""

    def __init__(
        self, name: str, region: str, command: Sequence[str], log: Path, *, ready: str = ""
    ) -> None:
        self.name = name
        self.region = region
        self.command = list(command)
        self.log = log
        self.starts = 0
        self._ready = ready
        self._log_from = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._is_paused = False

    @property
    def is_running(self) -> bool:
        """True if the process exists, even while it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def stdin(self) -> int:
        """The file descriptor of the pipe to the process's standard input."""
        assert self._process is not None and self._process.stdin is not None
        return self._process.stdin.fileno()

    def launch(self, environ: Mapping[str, str] | None = None) -> None:
        """Start the process without waiting until it is ready."""
        assert not self.is_running, f"{self.name} is already running"
        kept = {key: text for key, text in os.environ.items() if not key.startswith("RHUMBLINE_")}
        self.starts += 1
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**kept, **(environ or {})},
                cwd=self.log.parent,
                preexec_fn=_die_with_parent,
            )

    def is_ready(self) -> bool:
        """True if the ready text appeared in the log since the last start."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            return self._ready.encode() in log.read()

    async def wait_ready(self, seconds_max: float = READY_S_MAX) -> None:
        """Wait until the process is ready. Raises UnavailableError with the end of its log."""
        deadline = time.monotonic() + seconds_max
        while not self.is_ready():
            if not self.is_running or time.monotonic() > deadline:
                raise UnavailableError(f"{self.name} did not start:\n{self.end_of_log()}")
            await asyncio.sleep(0.03)

    def end_of_log(self) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def kill(self) -> None:
        """Send SIGKILL and wait until the process has ended. Safe to repeat."""
        process, self._process, self._is_paused = self._process, None, False
        if process is not None:
            process.kill()
            process.wait(30)
            if process.stdin is not None:
                process.stdin.close()

    async def stop(self, seconds_max: float = 10.0) -> None:
        """Send SIGTERM, then SIGKILL after ``seconds_max``. Safe to repeat."""
        if self.is_running:
            assert self._process is not None
            self.resume()
            self._process.terminate()
            deadline = time.monotonic() + seconds_max
            while self.is_running and time.monotonic() < deadline:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.02)
        self.kill()

    def pause(self) -> None:
        """Send SIGSTOP. Safe to repeat."""
        if self.is_running and not self._is_paused:
            assert self._process is not None
            self._is_paused = True
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Send SIGCONT. Safe to repeat."""
        if self._is_paused:
            assert self._process is not None
            self._is_paused = False
            self._process.send_signal(signal.SIGCONT)


def find_program(name: str, *candidates: Path, hint: str) -> Path:
    """Return the path of a program in PATH or among the candidates. Raises ConfigurationError."""
    in_path = shutil.which(name)
    if in_path is not None:
        return Path(in_path)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise ConfigurationError(f"{name} was not found in PATH: {hint}")


def _die_with_parent() -> None:
    """Ask the kernel, in the new process, to kill it when the lab ends for whatever reason."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)
