"""Proxies as real processes, beside a cluster of real bookies."""

import re
import signal
import subprocess
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from rhumbline.tests.support.processes import RHUMBLINE, ProcessCluster, _environment

_START_SECONDS_MAX = 30


class ProxyProcess:
    """One proxy; ``kind`` is the command that runs it. A context manager: it is dead behind it."""

    def __init__(
        self,
        cluster: ProcessCluster,
        kind: str,
        name: str,
        *options: str,
        region: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.kind = kind
        self.address = ""
        self._log = cluster.root / f"{name}.log"
        self._command = [
            str(RHUMBLINE), kind, "--port", "0", "-u", cluster.metadata,
            "--region", region or cluster.regions[0], *options,
        ]  # fmt: skip
        self._environ = _environment(environ)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it serves."""
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=self._environ
            )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not (served := re.search(r"proxy serves at (\S+)", self._log.read_text())):
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"not up: {self._log.read_text()}"
            time.sleep(0.02)
        self.address = served[1]

    def send(self, number: signal.Signals) -> None:
        """Sends a signal and returns at once."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals, *, timeout_s: float = 30) -> int:
        """Sends a signal and waits for the end; the exit code. Safe to repeat."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        return process.wait(timeout=timeout_s)

    def log(self) -> str:
        """What it wrote."""
        return self._log.read_text()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.end(signal.SIGKILL)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(signal.SIGKILL)
        if kind is not None:
            print(f"--- {self._log.name}\n{self.log()}")
