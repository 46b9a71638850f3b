"""Metrics and traces for OpenTelemetry; the only folder that imports it."""
