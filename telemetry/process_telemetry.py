"""Starts and ends OpenTelemetry for a process, if its settings enable it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..client.settings import TelemetrySettings
from ..core.protocol.installation import needs_extra
from ..core.runtime.metrics import Statistics
from ..core.runtime.tracing import Tracer

if TYPE_CHECKING:
    from .export import TelemetryExport


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Arguments for ``connect``, ``running_bookie`` and ``running_proxy``."""

    tracer: Tracer | None
    observe: Callable[[str, Statistics], None]
    """Exports the statistics of a ``bookie``, ``proxy``, ``repair`` or ``client`` from now on."""


TELEMETRY_OFF = Telemetry(None, lambda service, statistics: None)


@asynccontextmanager
async def running_telemetry(
    settings: TelemetrySettings, *, service: str, region: str = ""
) -> AsyncIterator[Telemetry]:
    """Export until the block ends; does nothing if no endpoint is set.

    ``service`` and ``region`` are attributes of everything exported. While the collector is
    unavailable, data that should be exported is lost; nothing else is affected. Raises
    ConfigurationError if the packages are missing.
    """
    if not settings.otlp_endpoint:
        yield TELEMETRY_OFF
        return
    with needs_extra("exporting telemetry (otlp_endpoint)", "otel"):
        from .export import TelemetryExport, otlp_exporters
    exporters = otlp_exporters(settings.otlp_endpoint)
    export = TelemetryExport(
        *exporters, sample_ratio=settings.sample_ratio, service=service, region=region
    )
    exporting = asyncio.create_task(_export(export, settings.export_ms), name="telemetry")
    try:
        yield Telemetry(export.tracer, export.instruments.observe)
    finally:
        exporting.cancel()
        try:
            await asyncio.wait((exporting,))
        finally:
            export.instruments.take_snapshot()
            await asyncio.to_thread(export.close)


async def _export(export: "TelemetryExport", period_ms: int) -> None:
    while True:
        await asyncio.sleep(period_ms / 1000)
        export.instruments.take_snapshot()
        await asyncio.to_thread(export.metrics)
