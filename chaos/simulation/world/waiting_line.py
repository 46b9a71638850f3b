"""Finds the line of a test or an application at which a task waits."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

_PACKAGE = Path(__file__).resolve().parents[3]
_NOT_PRODUCT = ("tests", "docs")
_STANDARD = Path(asyncio.__file__).resolve().parents[1]


def waiting_line(task: "asyncio.Task[Any]") -> str:
    """Return ``file:line in function`` of the innermost frame that is the caller's own code.

    Without such a frame it is the innermost frame of all.
    """
    frames = list(_frames(task.get_coro()))
    if not frames:
        return repr(task)
    own = [frame for frame in frames if _is_own(Path(frame.f_code.co_filename))]
    frame = (own or frames)[-1]
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _frames(awaited: object) -> Iterator[FrameType]:
    """Yield the frames of a suspended coroutine and of what it awaits, outermost first."""
    while awaited is not None:
        for prefix in ("cr", "gi", "ag"):
            frame = getattr(awaited, f"{prefix}_frame", None)
            if frame is not None:
                yield frame
                break
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "gi_yieldfrom", None)


def _is_own(path: Path) -> bool:
    """True if a file belongs neither to Rhumbline nor to a library."""
    if path.is_relative_to(_PACKAGE):
        return path.relative_to(_PACKAGE).parts[0] in _NOT_PRODUCT
    return not path.is_relative_to(_STANDARD) and "site-packages" not in path.parts
