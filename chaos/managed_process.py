"""A program in a child process: started, awaited, paused and killed by the lab, tests, benchmarks.

No process outlives its parent: the kernel kills it when this process ends for whatever reason
(Linux: PR_SET_PDEATHSIG). It leads a process group, so that ``kill`` ends its own children as well.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from ..backends.fdb.library import HOME
from ..core.protocol.errors import UnavailableError

_PACKAGE = __package__.partition(".")[0]
_POLL_S = 0.02
_KILL_S_MAX = 30.0
_STOP_S_MAX = 30.0
_STOP_POLL_S = 0.001
_LOG_LINES = 15
_BOUND_TO_PARENT = (sys.executable, "-I", "-S", "-c", """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # ignored by Python, and inherited
if os.getppid() == int(sys.argv[1]):  # or else the parent ended before the call
    os.execvp(sys.argv[2], sys.argv[2:])
""")  # fmt: skip
"""The command that asks the kernel to kill it when its parent ends, and becomes another program.

This is not done by ``preexec_fn``: a fork that runs Python code first closes what belongs to other
threads, and with it the sockets that libraries such as Py4J share between parent and child.
"""
_STARTER = ThreadPoolExecutor(1, "process-starter")
"""Starts all processes, because the kernel kills them when the *thread* that forked them ends."""


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the package."""
    return [sys.executable, "-m", f"{_PACKAGE}.{module}", *arguments]


def rhumbline_command(*arguments: str) -> list[str]:
    """Return the command that runs the ``rhumbline`` command line."""
    return [sys.executable, "-c", f"from {_PACKAGE}.cli import main; main()", *arguments]


STATUS_PORT = "RHUMBLINE_SERVE__STATUS_PORT"
"""Sets the port of status servers; 0, a free one, lets many servers run on one machine."""


def bare_environment() -> dict[str, str]:
    """Return the environment of this process without the settings of Rhumbline.

    The folder of FoundationDB's library remains, which children load as this process does.
    """
    return {
        key: text
        for key, text in os.environ.items()
        if key == HOME or not key.startswith("RHUMBLINE_")
    }


class ManagedProcess:
    """A program that runs as at most one process at a time and appends its output to a log.

    ``command`` may be changed between two starts. ``ready`` tells when it serves: a function that
    may block for a moment, or a regular expression to be found in the output. The environment is
    that of this process without the settings of Rhumbline, plus ``environ``. With ``has_input``
    the program reads what ``write_line`` sends; with ``has_output`` its standard output is read by
    ``read_line`` instead of logged. As a context manager the process runs within the block.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        log: Path,
        *,
        ready: str | Callable[[], bool] = "",
        ready_s_max: float = 60.0,
        environ: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        has_input: bool = False,
        has_output: bool = False,
    ) -> None:
        self.name = name
        self.command = list(command)
        self.log = log
        self._ready = ready
        self._ready_s_max = ready_s_max
        self._environ = dict(environ or {})
        self._cwd = cwd
        self._stdin = subprocess.PIPE if has_input else subprocess.DEVNULL
        self._has_output = has_output
        self._log_from = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        state = f"pid {self.pid}" if self.is_running else f"exit code {self.exit_code}"
        return f"<{self.name}: {state}>"

    # --- state ------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The last exit code, or minus the signal that ended the process; None while it runs."""
        process = self._process
        if process is None:
            return None
        if process.returncode is not None:
            return process.returncode
        # The dead process stays a zombie until ``kill``: its id then still denotes its group.
        try:
            ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # another thread is in ``kill``
            return process.poll()
        if ended is None:
            return None
        return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status

    @property
    def is_running(self) -> bool:
        """True if the process exists, even while it is paused."""
        return self._process is not None and self.exit_code is None

    @property
    def output(self) -> str:
        """The text in the log since the last start."""
        with self.log.open("rb") as log:
            log.seek(self._log_from)
            return log.read().decode(errors="replace")

    def find(self, pattern: str) -> str | None:
        """Return the first group of the first match in the output since the last start."""
        found = re.search(pattern, self.output, re.MULTILINE)
        return found[1] if found else None

    def end_of_log(self) -> str:
        """Return the last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LOG_LINES:])

    # --- start ------------------------------------------------------------------------------------

    def launch(self) -> None:
        """Start the process without waiting until it is ready."""
        assert not self.is_running, f"{self.name} is already running"
        self.kill()
        self._log_from = self.log.stat().st_size if self.log.exists() else 0
        self._process = _STARTER.submit(self._open).result()

    def _open(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*_BOUND_TO_PARENT, str(os.getpid()), *self.command],
                stdin=self._stdin,
                stdout=subprocess.PIPE if self._has_output else log,
                stderr=log,
                env={**bare_environment(), STATUS_PORT: "0", **self._environ},
                cwd=self._cwd,
                process_group=0,
            )

    def is_ready(self) -> bool:
        """Return whether the process serves, as ``ready`` tells."""
        if callable(self._ready):
            return self._ready()
        return re.search(self._ready, self.output, re.MULTILINE) is not None

    def wait_ready(self) -> None:
        """Wait until the process is ready.

        Raises UnavailableError with the end of the log if it dies or takes too long.
        """
        deadline = time.monotonic() + self._ready_s_max
        while not self.is_ready():
            if not self.is_running:
                raise UnavailableError(
                    f"{self.name} did not start: exit code {self.exit_code}\n{self.end_of_log()}"
                )
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self.name} was not ready in {self._ready_s_max:g} s:\n{self.end_of_log()}"
                )
            time.sleep(_POLL_S)

    def start(self) -> None:
        """Start the process and wait until it is ready. Raises UnavailableError."""
        self.launch()
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise

    # --- signals and end --------------------------------------------------------------------------

    def pause(self) -> None:
        """Send SIGSTOP to the process group and wait until the process has stopped.

        On a busy machine its threads go on for a moment after the signal. Safe to repeat. Raises
        UnavailableError if it has not stopped after 30 s.
        """
        self._send(signal.SIGSTOP)
        deadline = time.monotonic() + _STOP_S_MAX
        while self.is_running and not self._is_stopped():
            if time.monotonic() > deadline:
                raise UnavailableError(f"{self.name} did not stop in {_STOP_S_MAX:g} s")
            time.sleep(_STOP_POLL_S)

    def _is_stopped(self) -> bool:
        with suppress(ChildProcessError):  # it was killed meanwhile
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        return True

    def resume(self) -> None:
        """Send SIGCONT to the process group. Safe to repeat."""
        self._send(signal.SIGCONT)

    def wait(self, seconds_max: float) -> int:
        """Wait until the process ends by itself, kill its group and return its exit code.

        Raises UnavailableError with the end of the log if it still runs after ``seconds_max``.
        """
        deadline = time.monotonic() + seconds_max
        while (code := self.exit_code) is None:
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{self.name} did not end in {seconds_max:g} s:\n{self.end_of_log()}"
                )
            time.sleep(_POLL_S)
        self.kill()
        return code

    def stop(
        self, seconds_max: float = 30.0, *, number: signal.Signals = signal.SIGTERM
    ) -> int | None:
        """Send a signal to the process, and SIGKILL to its group once it has ended or is late.

        Returns its exit code, None if it was never started. Safe to repeat.
        """
        if self.is_running:
            os.kill(self.pid, number)
            self.resume()
            deadline = time.monotonic() + seconds_max
            while self.is_running and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        return self.kill()

    def kill(self) -> int | None:
        """Send SIGKILL to the process group and wait for the end, as ``stop`` does."""
        process = self._process
        if process is None:
            return None
        if process.returncode is None:
            self._send(signal.SIGKILL)
            process.wait(_KILL_S_MAX)
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(BrokenPipeError):  # of input that nothing read
                        pipe.close()
        return process.returncode

    def _send(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.returncode is None:
            os.killpg(self._process.pid, number)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- dialogue ---------------------------------------------------------------------------------

    def write_line(self, line: bytes) -> None:
        """Send a line to the standard input. Raises BrokenPipeError if the process has ended."""
        assert self._process is not None and self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        self._process.stdin.flush()

    def read_line(self) -> bytes:
        """Wait for a line of the standard output. Raises UnavailableError if the process ended."""
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise UnavailableError(f"{self.name} has ended:\n{self.end_of_log()}")
        return line.rstrip(b"\n")
