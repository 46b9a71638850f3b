"""Rates and latencies between two reports of the same server. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from ...core.runtime.histogram import BOUNDS_S

_QUANTILE = 0.99


def number_at(statistics: Mapping[str, Any], path: str) -> float | None:
    """Return the number at a dotted path; None if the statistics have none there."""
    found: Any = statistics
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, int | float) and not isinstance(found, bool) else None


def rate(before: float | None, after: float | None, seconds: float) -> float | None:
    """Return the rise per second; None if it is not known, or if the counter began again."""
    if before is None or after is None or seconds <= 0 or after < before:
        return None
    return (after - before) / seconds


def rate_at(
    before: Mapping[str, Any], after: Mapping[str, Any], path: str, seconds: float
) -> float | None:
    """Return the rate of the counter at a dotted path."""
    return rate(number_at(before, path), number_at(after, path), seconds)


def p99_ms(before: Mapping[str, Any], after: Mapping[str, Any], path: str) -> float | None:
    """Return the 99th percentile of the durations between two reports, as the bound of its bucket.

    None if there were none, or if the histogram began again.
    """
    counts = _added(_buckets(before, path), _buckets(after, path))
    total = number_at(after, f"{path}.count")
    earlier = number_at(before, f"{path}.count") or 0
    if not counts or total is None or total <= earlier:
        return None
    wanted = (total - earlier) * _QUANTILE
    bounds = [float(bound) for bound in BOUNDS_S]
    found = (bound for bound, count in zip(bounds, counts, strict=False) if count >= wanted)
    return next(found, bounds[-1]) * 1000


def _buckets(statistics: Mapping[str, Any], path: str) -> Sequence[int]:
    found: Any = statistics
    for name in (*path.split("."), "buckets"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, list) else ()


def _added(before: Sequence[int], after: Sequence[int]) -> list[int]:
    if not before:
        return list(after)
    found = [new - old for old, new in zip(before, after, strict=False)]
    return [] if any(count < 0 for count in found) else found


def total(values: Sequence[float | None]) -> float | None:
    """Return the sum of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None
