"""Groups the windows of a sitting by workload and system, and computes medians and ratios."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

OWN = "rhumbline"
SYSTEMS = {
    "rhumbline-imm": "Rhumbline, immediate",
    "rhumbline-per10": "Rhumbline, 10 ms",
    "rhumbline-per5": "Rhumbline, 5 ms",
    "rhumbline-per1": "Rhumbline, 1 ms",
    "rhumbline-records": "Rhumbline, by record",
    "rhumbline-arrow": "Rhumbline, Arrow batches",
    "A-imm": "DistributedLog, immediate",
    "A-per10": "DistributedLog, 10 ms",
    "B-fsync": "Kafka, fsync",
    "B-nofsync": "Kafka, no fsync",
    "C-always": "JetStream, fsync",
    "C-2min": "JetStream, no fsync",
}
"""The names of systems and modes on the page, by the names in rows, in the order of tables."""


def system_name(turn: str) -> str:
    """Return the name on the page of the system of a turn: ``rhumbline``, ``A``, ``B`` or ``C``."""
    labels = (label for key, label in SYSTEMS.items() if key.startswith(f"{turn}-"))
    return next(labels, turn).partition(",")[0]


_WITHOUT_SYNC = {"B-nofsync", "C-2min"}
"""Systems that acknowledge before the disk has the record."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A figure of several windows: its median, minimum and maximum."""

    median: float
    low: float
    high: float

    def text(self) -> str:
        """Return the median, and the range if the windows differ."""
        if self.low == self.high:
            return _number(self.median)
        return f"{_number(self.median)} [{_number(self.low)}..{_number(self.high)}]"


@dataclass(frozen=True, slots=True)
class Result:
    """All windows of one system and mode in one workload."""

    system: str
    windows: tuple[Mapping[str, Any], ...]

    @property
    def label(self) -> str:
        """The name on the page."""
        return SYSTEMS.get(self.system, self.system)

    @property
    def is_own(self) -> bool:
        """True for a mode of our system."""
        return self.system.startswith(OWN)

    @property
    def is_durable(self) -> bool:
        """True if a record is on disk when it is acknowledged."""
        return self.system not in _WITHOUT_SYNC

    @property
    def errors(self) -> int:
        """Number of operations that failed in the windows."""
        return sum(window.get("err", 0) for window in self.windows)

    def spread(self, key: str) -> Spread | None:
        """Return a figure by its path, such as ``del.p50_ms``; None if no window has it."""
        values = [value for window in self.windows if (value := _figure(window, key)) is not None]
        if not values:
            return None
        return Spread(statistics.median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Ratio:
    """The figure of the best mode of our system, divided by that of the best other system."""

    own: Result
    other: Result
    factor: float
    """Above 1 our system is better, whether the figure is a rate or a time."""


def results_by_workload(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Result]]:
    """Return the results of each workload, in the order of ``SYSTEMS``; unknown systems last."""
    windows: dict[str, dict[str, list[Mapping[str, Any]]]] = {}
    for row in rows:
        windows.setdefault(row["w"], {}).setdefault(row["peer"], []).append(row)
    order = {system: place for place, system in enumerate(SYSTEMS)}
    return {
        workload: [
            Result(system, tuple(found))
            for system, found in sorted(
                systems.items(), key=lambda item: (order.get(item[0], len(order)), item[0])
            )
        ]
        for workload, systems in sorted(windows.items())
    }


def best_ratio(
    results: Iterable[Result], key: str, *, is_rate: bool, only_durable: bool
) -> Ratio | None:
    """Compare the best mode of our system with the best other; None if either is missing.

    ``only_durable`` leaves out systems that acknowledge before the disk has the record.
    """
    measured = [(result, spread.median) for result in results if (spread := result.spread(key))]
    own = [pair for pair in measured if pair[0].is_own]
    others = [
        pair for pair in measured if not pair[0].is_own and (pair[0].is_durable or not only_durable)
    ]
    if not own or not others:
        return None
    choose = max if is_rate else min
    best_own = choose(own, key=lambda pair: pair[1])
    best_other = choose(others, key=lambda pair: pair[1])
    quotient = best_own[1] / best_other[1] if best_other[1] else float("inf")
    return Ratio(best_own[0], best_other[0], quotient if is_rate else 1 / quotient)


def _figure(window: Mapping[str, Any], key: str) -> float | None:
    value: Any = window
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return None
        value = value[part]
    return float(value) or None  # 0: nothing was acknowledged in the window


def _number(value: float) -> str:
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
