"""Spark: reads archives and the live tail of streams as one, by batch or as a streaming query."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import register

__all__ = ["register"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the one public name
    """Imports PySpark when it is first needed: ``import rhumbline.spark`` works without it."""
    if name != "register":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from .session import register

    return register
