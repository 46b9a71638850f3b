"""Spark: reads archives and the live tail of streams as one table, writes streams, runs jobs."""

from typing import TYPE_CHECKING, Any

from ..core.protocol.installation import needs_extra

if TYPE_CHECKING:
    from .progress import lag
    from .read.archive_frame import read_archive
    from .session import open_session, register

__all__ = ["lag", "open_session", "read_archive", "register"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - the public names
    """Import PySpark on first use, so that ``import rhumbline.spark`` works without it."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with needs_extra("Spark", "spark"):
        from . import progress, session
        from .read import archive_frame

    homes = {"lag": progress, "read_archive": archive_frame}
    return getattr(homes.get(name, session), name)
