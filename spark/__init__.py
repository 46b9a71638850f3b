"""Spark: reads archives and the live tail of streams as one, by batch or as a streaming query."""

from .register import register

__all__ = ["register"]
