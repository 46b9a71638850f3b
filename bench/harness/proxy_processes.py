"""Runs a proxy process and its client processes for ``bench proxy``."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from asyncio.subprocess import PIPE, Process
from pathlib import Path
from types import TracebackType
from typing import Literal, Self

from ...core.protocol.errors import RhumblineError, UnavailableError
from .bookie_processes import COMMAND, REGION, usage_of
from .proxy_clients import ClientMetrics, ClientSettings

_START_SECONDS_MAX = 60
_SERVES = "proxy serves at "
_CLIENT = "from rhumbline.bench.harness.proxy_clients import main; main()"


ProxyKind = Literal["write-proxy", "read-proxy"]


class ProxyProcess:
    """A proxy process that lives within a ``with`` block and may be restarted inside it."""

    def __init__(self, root: Path, metadata: str, kind: ProxyKind, name: str = "") -> None:
        self.address = ""
        self._log = root / f"{name or kind}.log"
        self._command = [*COMMAND, kind, "-u", metadata, "--region", REGION]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def usage(self) -> tuple[float, int]:
        """The CPU seconds and resident bytes of the process."""
        assert self._process is not None
        return usage_of(self._process.pid)

    def start(self) -> None:
        """Start the process and wait until it serves; a restart reuses the port.

        Raises UnavailableError.
        """
        port = self.address.rpartition(":")[2] or "0"
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                [*self._command, "--port", port], stdout=out, stderr=out
            )
        deadline = time.monotonic() + _START_SECONDS_MAX
        while _SERVES not in (text := self._log.read_text()):
            if time.monotonic() > deadline or self._process.poll() is not None:
                self.end(signal.SIGKILL)
                raise UnavailableError(f"the proxy did not start: {text.strip()[-200:]}")
            time.sleep(0.02)
        self.address = text.partition(_SERVES)[2].split()[0]

    def end(self, number: signal.Signals) -> None:
        """End the process by a signal and wait until it has exited. Safe to repeat."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)

    def __enter__(self) -> Self:
        """Start the process. Raises UnavailableError."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end(signal.SIGTERM)


class ClientProcess:
    """A process of producers or readers (see ``proxy_clients``)."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, settings: ClientSettings) -> Self:
        """Start a process without waiting until it is ready."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _CLIENT, stdin=PIPE, stdout=PIPE, env=dict(os.environ)
        )
        client = cls(process)
        assert process.stdin is not None
        process.stdin.write(settings.encode())
        return client

    async def ready(self) -> None:
        """Wait until the clients run. Raises UnavailableError."""
        line = await self._line()
        if line != b"ready\n":
            raise UnavailableError(f"unexpected output of a client process: {line!r}")

    async def take(self) -> ClientMetrics:
        """Return the metrics since the previous call. Raises RhumblineError if a client failed."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        metrics = ClientMetrics.decode(await self._line())
        if metrics.failure:
            raise RhumblineError(f"a client failed: {metrics.failure}")
        return metrics

    @property
    def resident_bytes(self) -> int:
        """The current resident memory in bytes."""
        return usage_of(self._process.pid)[1]

    async def aclose(self) -> None:
        """Kill the process. Safe to repeat."""
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    async def _line(self) -> bytes:
        assert self._process.stdout is not None
        async with asyncio.timeout(_START_SECONDS_MAX):
            line = await self._process.stdout.readline()
        if not line:
            raise UnavailableError("a client process has ended")
        return line
