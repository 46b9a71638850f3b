"""OpenTelemetry for a process, if its settings ask for it: what a process starts and ends."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..client.settings import TelemetrySettings
from ..core.protocol.errors import ConfigurationError
from ..core.runtime.metrics import Statistics
from ..core.runtime.tracing import Tracer

if TYPE_CHECKING:
    from .export import Export


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What there is to hand to ``connect``, ``running_bookie`` and ``running_proxy``."""

    tracer: Tracer | None
    observe: Callable[[str, Statistics], None]
    """Exports the statistics of a ``bookie``, ``proxy``, ``repair`` or ``client`` from now on."""


OFF = Telemetry(None, lambda service, statistics: None)


@asynccontextmanager
async def running_telemetry(
    settings: TelemetrySettings, *, service: str, region: str = ""
) -> AsyncIterator[Telemetry]:
    """Exports until the block ends; does nothing at all when no endpoint is set.

    ``service`` and ``region`` are attributes of all that is exported. A collector that is away
    costs what was to be exported meanwhile, and nothing else. Raises ConfigurationError when the
    packages are missing.
    """
    if not settings.otlp_endpoint:
        yield OFF
        return
    try:
        from .export import Export, otlp_exporters
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"[telemetry] otlp_endpoint needs the Python package {error.name!r}: "
            "pip install 'rhumbline[otel]'"
        ) from error
    exporters = otlp_exporters(settings.otlp_endpoint)
    export = Export(*exporters, sample_ratio=settings.sample_ratio, service=service, region=region)
    exporting = asyncio.create_task(_export(export, settings.export_ms), name="telemetry")
    try:
        yield Telemetry(export.tracer, export.instruments.observe)
    finally:
        exporting.cancel()
        await asyncio.wait((exporting,))
        export.instruments.take_snapshot()
        await asyncio.to_thread(export.close)


async def _export(export: "Export", period_ms: int) -> None:
    while True:
        await asyncio.sleep(period_ms / 1000)
        export.instruments.take_snapshot()
        await asyncio.to_thread(export.metrics)
