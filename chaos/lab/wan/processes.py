"""Processes of the lab: started, stopped, killed; none outlives the run."""

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
    """The command that runs a module of the package as a program."""
    return [sys.executable, "-m", f"{__package__.partition('.')[0]}.{module}", *arguments]


def rhumbline(*arguments: str) -> list[str]:
    """The command that runs the command line."""
    package = __package__.partition(".")[0]
    return [sys.executable, "-c", f"from {package}.cli import main; main()", *arguments]


class Program:
    """One process at a time, with a log that is kept."""

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
        """Whether its process lives (it may be stopped by a signal)."""
        return self._process is not None and self._process.poll() is None

    @property
    def stdin(self) -> int:
        """The file descriptor that it is told things by."""
        assert self._process is not None and self._process.stdin is not None
        return self._process.stdin.fileno()

    def launch(self, environ: Mapping[str, str] | None = None) -> None:
        """Starts the process and does not wait until it is ready."""
        assert not self.is_running, f"{self.name} runs already"
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
        """Whether it has said so since it was started."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            return self._ready.encode() in log.read()

    async def wait_ready(self, seconds_max: float = READY_S_MAX) -> None:
        """Waits until it is ready. Raises UnavailableError with the end of its log."""
        deadline = time.monotonic() + seconds_max
        while not self.is_ready():
            if not self.is_running or time.monotonic() > deadline:
                raise UnavailableError(f"{self.name} is not up:\n{self.end_of_log()}")
            await asyncio.sleep(0.03)

    def end_of_log(self) -> str:
        """The last lines of its log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def kill(self) -> None:
        """SIGKILL; it is dead behind it. Safe to repeat."""
        process, self._process, self._is_paused = self._process, None, False
        if process is not None:
            process.kill()
            process.wait(30)
            if process.stdin is not None:
                process.stdin.close()

    async def stop(self, seconds_max: float = 10.0) -> None:
        """SIGTERM, and SIGKILL if it takes too long. Safe to repeat."""
        if self.is_running:
            assert self._process is not None
            self.resume()
            self._process.terminate()
            deadline = time.monotonic() + seconds_max
            while self.is_running and time.monotonic() < deadline:  # noqa: ASYNC110 - a process
                await asyncio.sleep(0.02)
        self.kill()

    def pause(self) -> None:
        """SIGSTOP. Safe to repeat."""
        if self.is_running and not self._is_paused:
            assert self._process is not None
            self._is_paused = True
            self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT. Safe to repeat."""
        if self._is_paused:
            assert self._process is not None
            self._is_paused = False
            self._process.send_signal(signal.SIGCONT)


def found(name: str, *places: Path, hint: str) -> Path:
    """A server's program: in PATH, or in one of the places. Raises ConfigurationError."""
    own = shutil.which(name)
    if own is not None:
        return Path(own)
    for place in places:
        if place.is_file():
            return place
    raise ConfigurationError(f"there is no {name} in PATH: {hint}")


def _die_with_parent() -> None:
    """In the new process: the kernel kills it when the lab ends, however that ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.setpgid(0, 0)
