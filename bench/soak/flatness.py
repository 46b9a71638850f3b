"""Judges whether a series of samples is flat. Pure.

After the warm-up, which is the first third of the run, the slope of a series is the median of the
slopes between all pairs of its samples (Theil and Sen), so that single peaks do not count. Its
growth is that slope over the time from the first to the last sample that is judged. A series is
flat if the growth is at most a share of the median, or at most an amount that does not matter.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import NamedTuple

WARM_UP_SHARE = 1 / 3
SAMPLES_MIN = 5
"""Samples after the warm-up below which a series is not judged."""

MIB = 1 << 20

Points = Sequence[tuple[float, float]]
"""(seconds since the start, value), in the order of time."""


class Tolerance(NamedTuple):
    """The growth that counts as flat: the larger of the two."""

    share: float
    """The allowed growth as a part of the median after the warm-up."""
    amount: float
    """In the unit of the series."""


MEMORY, DESCRIPTORS, DISK, P50, P99 = "memory", "descriptors", "disk", "p50", "p99"
TOLERANCES: Mapping[str, Tolerance] = {
    MEMORY: Tolerance(0.10, 16 * MIB),
    DESCRIPTORS: Tolerance(0.10, 8),
    DISK: Tolerance(0.20, 32 * MIB),
    P50: Tolerance(0.50, 0.050),
    P99: Tolerance(0.50, 0.500),
}
"""By the kind of the series. Bytes, descriptors and seconds."""


class Flatness(NamedTuple):
    """The judgement of one series."""

    kind: str
    name: str
    median: float
    growth: float
    """From the first to the last sample after the warm-up, by the median slope."""
    allowed: float
    samples: int

    @property
    def is_judged(self) -> bool:
        """True if there are enough samples."""
        return self.samples >= SAMPLES_MIN

    @property
    def is_flat(self) -> bool:
        """True unless the series certainly grows."""
        return not self.is_judged or self.growth <= self.allowed


def judge(kind: str, name: str, points: Points, span_s: float) -> Flatness:
    """Judge a series of a run that took ``span_s``."""
    judged = [point for point in points if point[0] >= span_s * WARM_UP_SHARE]
    if len(judged) < SAMPLES_MIN:
        return Flatness(kind, name, 0.0, 0.0, 0.0, len(judged))
    middle = median(value for _, value in judged)
    slope = median(
        (after - before) / (later - earlier)
        for (earlier, before), (later, after) in combinations(judged, 2)
    )
    share, amount = TOLERANCES[kind]
    growth = slope * (judged[-1][0] - judged[0][0])
    return Flatness(kind, name, middle, growth, max(share * middle, amount), len(judged))
