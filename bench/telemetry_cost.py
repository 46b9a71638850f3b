"""What telemetry costs: the same workload without it, with metrics, and with traces, in turn.

A process of its own takes what is exported and throws it away. CPU seconds a million records are
what to compare: they depend less on who else uses the machine than records a second.
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

_EXPORT_MS = 1_000  # more often than anybody needs
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
    """The address of a collector that keeps nothing."""
    with subprocess.Popen([sys.executable, "-c", _SINK], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


def modes(endpoint: str) -> dict[str, TelemetrySettings]:
    """What is compared, by name."""
    metrics = TelemetrySettings(otlp_endpoint=endpoint, export_ms=_EXPORT_MS)
    return {
        "off": TelemetrySettings(),
        "metrics": metrics,
        "traces 1 %": replace(metrics, sample_ratio=0.01),
        "traces 100 %": replace(metrics, sample_ratio=1.0),
    }


class ObservedBookies(BookieProcesses):
    """Bookies that export by these settings."""

    def __init__(self, root: Path, settings: TelemetrySettings) -> None:
        super().__init__(root)
        self._telemetry = settings

    def environment_of(self, directory: Path) -> Mapping[str, str]:
        """Their telemetry."""
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
    """Rows of the workload as ``run_workload`` gives them, with the mode."""
    async with running_telemetry(settings, service="bench") as telemetry:
        async for row in run_workload(workload, servers, timing, telemetry):
            yield {**row, "telemetry": mode}
