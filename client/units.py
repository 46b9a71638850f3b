"""Parses and formats durations, sizes and counts."""

import re
from datetime import UTC, datetime

from ..core.protocol.errors import InvalidArgumentError

_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,6})?) ?([a-zA-Z]*)")
_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_BYTES = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
    "tib": 2**40,
}


def parse_ms(text: str) -> int:
    """Return the milliseconds in ``10ms``, ``1.5s``, ``2m``, ``1h``, ``7d`` or a plain number.

    Raises InvalidArgumentError.
    """
    return _parse(text, _MS, "ms", "a duration", "10ms, 1.5s, 2m, 1h, 7d")


def parse_time_ms(text: str, now_ms: int) -> int:
    """Return the ms since the Unix epoch of a time.

    It is in ISO 8601, in UTC unless it names a zone, or a plain number of ms, or a duration and
    ``ago``, as in ``15m ago``. Raises InvalidArgumentError.
    """
    text = text.strip()
    if text.isdigit():
        return int(text[:18])
    if text.endswith(" ago"):
        return max(0, now_ms - parse_ms(text.removesuffix(" ago")))
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidArgumentError(
            f"{text[:80]!r} is not a time; write for example 2026-11-23T09:30, "
            "2026-11-23T09:30:00+01:00, 1795426200000 or `15m ago`"
        ) from error
    if found.tzinfo is None:
        found = found.replace(tzinfo=UTC)
    return max(0, round(found.timestamp() * 1000))


def parse_bytes(text: str) -> int:
    """Return the bytes in ``64MiB``, ``10MB``, ``512B`` or a plain number.

    Raises InvalidArgumentError.
    """
    return _parse(text, _BYTES, "b", "a size", "512B, 64KiB, 10MB, 1GiB")


def show_bytes(size: float) -> str:
    """Format a size with a binary unit: ``0 B``, ``17.2 KiB``, ``1.3 GiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


def show_count(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: ``1 record``, ``1,000 records``.

    ``many`` is the plural if it is not ``one`` with an s.
    """
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def show_ms(duration_ms: float) -> str:
    """Format a duration: ``0.31 ms``, ``45.2 ms``, ``1.4 s``, ``3m 10s``, ``2h 5m``, ``3d 4h``."""
    if duration_ms < 10:
        return f"{duration_ms:.2f} ms"
    if duration_ms < 1000:
        return f"{duration_ms:.1f} ms"
    seconds = duration_ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(int(seconds), 60)
    if minutes < 60:
        return f"{minutes}m {seconds}s"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours}h {minutes}m"
    return f"{hours // 24}d {hours % 24}h"


def _parse(text: str, units: dict[str, int], default: str, what: str, examples: str) -> int:
    match = _NUMBER_AND_UNIT.fullmatch(text.strip())
    unit = (match.group(2).lower() or default) if match else ""
    if match is None or unit not in units:
        raise InvalidArgumentError(f"{text[:40]!r} is not {what}; write it like {examples}")
    return (
        round(float(match.group(1)) * units[unit])
        if "." in match.group(1)
        else (int(match.group(1)) * units[unit])
    )
