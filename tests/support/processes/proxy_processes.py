"""Proxies as real processes, beside a cluster of real bookies."""

import re
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from rhumbline.tests.support.processes.process_cluster import (
    RHUMBLINE,
    ProcessCluster,
    _environment,
)

_START_SECONDS_MAX = 120


class ProxyProcess:
    """A proxy process; ``kind`` is its command. As a context manager it is killed at the end.

    It may be restarted after its end, with the same address.
    """

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
        self.region = region or cluster.regions[0]
        self.address = ""
        self._log = cluster.root / f"{name}.log"
        self._command = [
            str(RHUMBLINE), kind, "-u", cluster.metadata, "--region", self.region, *options,
        ]  # fmt: skip
        self._environ = _environment(environ)
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        """Start the process without waiting; call ``wait`` afterwards."""
        port = self.address.rpartition(":")[2] or "0"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [*self._command, "--port", port],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=self._environ,
            )

    def wait(self) -> None:
        """Wait until the proxy serves."""
        assert self.process is not None
        deadline = time.monotonic() + _START_SECONDS_MAX
        while not (served := re.search(r"proxy serves at (\S+)", self._log.read_text())):
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, f"not up: {self._log.read_text()}"
            time.sleep(0.02)
        self.address = served[1]

    def start(self) -> None:
        """Start the process and wait until the proxy serves."""
        self.launch()
        self.wait()

    def send(self, number: signal.Signals) -> None:
        """Send a signal without waiting."""
        assert self.process is not None
        self.process.send_signal(number)

    def end(self, number: signal.Signals, *, timeout_s: float = 30) -> int:
        """Send a signal, wait for the end and return the exit code. Safe to repeat."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(number)
        return process.wait(timeout=timeout_s)

    def log(self) -> str:
        """Return the output of the process."""
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


class ProxyRegions:
    """Two bookies, two write proxies and a read proxy in each region, all of them processes."""

    def __init__(self, root: Path, regions: Sequence[str]) -> None:
        self.regions = tuple(regions)
        self.bookies = ProcessCluster(root, [region for region in regions for _ in range(2)])
        self.writes: list[ProxyProcess] = []
        self.reads: list[ProxyProcess] = []

    def uri(self, proxies: Sequence[ProxyProcess]) -> str:
        """Return the URI for a client of these proxies."""
        return "grpc://" + ",".join(proxy.address for proxy in proxies)

    def near(self, region: str) -> str:
        """Return the URI for a producer in ``region``: local write proxies first."""
        return self.uri(sorted(self.writes, key=lambda proxy: proxy.region != region))

    def reads_of(self, region: str) -> str:
        """Return the URI for a reader in ``region``."""
        return self.uri([proxy for proxy in self.reads if proxy.region == region])

    def at(self, address: str) -> ProxyProcess:
        """Return the write proxy at ``address``."""
        return next(proxy for proxy in self.writes if proxy.address == address)

    def kill_region(self, region: str) -> None:
        """Send SIGKILL to all processes of a region."""
        for number, bookie_region in enumerate(self.bookies.regions):
            if bookie_region == region:
                self.bookies.bookies[number].kill()
        for proxy in (*self.writes, *self.reads):
            if proxy.region == region:
                proxy.end(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.bookies.start()
        for region in self.regions:
            for number in range(2):
                name = f"w-{region}-{number}"
                self.writes.append(ProxyProcess(self.bookies, "write-proxy", name, region=region))
            self.reads.append(
                ProxyProcess(self.bookies, "read-proxy", f"r-{region}", region=region)
            )
        try:
            for proxy in (*self.writes, *self.reads):
                proxy.launch()
            for proxy in (*self.writes, *self.reads):
                proxy.wait()
        except BaseException:
            self._kill_all()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._kill_all()
        self.bookies.__exit__(kind, error, trace)

    def _kill_all(self) -> None:
        for proxy in (*self.writes, *self.reads):
            proxy.end(signal.SIGKILL)
        self.bookies.kill_all()
