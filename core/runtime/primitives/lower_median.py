"""The median of numbers; of an even count, the lower one of the two in the middle."""

from collections.abc import Iterable


def lower_median(values: Iterable[float]) -> float:
    """Return the lower median; 0 if there are no values."""
    ordered = sorted(values)
    return ordered[(len(ordered) - 1) // 2] if ordered else 0.0
