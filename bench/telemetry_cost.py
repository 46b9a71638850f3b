"""The telemetry benchmark: one workload without telemetry, with metrics and with traces.

A separate process receives the exported data and discards it. Compare the CPU seconds per million
records: they depend less on other load on the machine than records per second.
"""

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..client.settings import TelemetrySettings
from ..telemetry.process_telemetry import running_telemetry
from .harness.bookie_processes import BookieProcesses
from .harness.load import Timing, run_workload
from .harness.workload import BenchWorkload

_EXPORT_MS = 1_000  # more often than in production
_SINK = """
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
class Sink(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *arguments):
        pass
server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def sink() -> Iterator[str]:
    """Run a collector that discards everything, and yield its address."""
    with subprocess.Popen([sys.executable, "-c", _SINK], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def modes(endpoint: str) -> dict[str, TelemetrySettings]:
    """Return the compared telemetry settings by name."""
    metrics = TelemetrySettings(otlp_endpoint=endpoint, export_ms=_EXPORT_MS)
    return {
        "off": TelemetrySettings(),
        "metrics": metrics,
        "traces 1 %": replace(metrics, sample_ratio=0.01),
        "traces 100 %": replace(metrics, sample_ratio=1.0),
    }


class ObservedBookies(BookieProcesses):
    """Bookie processes that export telemetry."""

    def __init__(self, root: Path, settings: TelemetrySettings) -> None:
        super().__init__(root)
        self._telemetry = settings

    def environment_of(self, directory: Path) -> Mapping[str, str]:
        """Return the environment, with the telemetry settings of the bookies."""
        prefix = "RHUMBLINE_TELEMETRY__"
        return {
            **super().environment_of(directory),
            f"{prefix}OTLP_ENDPOINT": self._telemetry.otlp_endpoint,
            f"{prefix}EXPORT_MS": str(self._telemetry.export_ms),
        }


async def measure_telemetry(
    workload: BenchWorkload, servers: BookieProcesses, mode: str, settings: TelemetrySettings,
    timing: Timing,
) -> AsyncIterator[dict[str, Any]]:  # fmt: skip
    """Yield the rows of ``run_workload``, extended by the telemetry mode."""
    async with running_telemetry(settings, service="bench") as telemetry:
        async for row in run_workload(workload, servers, timing, telemetry):
            yield {**row, "telemetry": mode}
