"""Metrics and traces for OpenTelemetry; the only package that imports it."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.protocol.installation import needs_extra

if TYPE_CHECKING:
    from .process_telemetry import Telemetry, running_telemetry
    from .tracing import OtelTracer

__all__ = ["running_telemetry", "Telemetry", "OtelTracer"]

_HOMES = {
    "running_telemetry": ".process_telemetry",
    "Telemetry": ".process_telemetry",
    "OtelTracer": ".tracing",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the public names
    """Imports OpenTelemetry when it is first needed: the extra ``otel`` is optional."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("tracing with OpenTelemetry", "otel"):
        return getattr(import_module(_HOMES[name], __name__), name)
