"""Converts the filters that Spark pushes down to ranges of positions, txids and times.

The ranges only exclude files and row groups; Spark still applies every filter to the rows that are
read. A filter that cannot be converted therefore makes a query slower but never loses rows.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError

_TIMES = ("created", "event_time")
_RANGED = ("lssn", "entry_id", "txid", *_TIMES)
_LOWEST, HIGHEST = -(2**63), 2**63 - 1
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Ranges:
    """The lowest and the highest value of each column that can pass the filters.

    Times are in microseconds since 1970.
    """

    low: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_RANGED, _LOWEST))
    high: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_RANGED, HIGHEST))
    streams: frozenset[str] | None = None
    """Streams that can pass the filters; None stands for all."""

    def add_filter(self, pushed: Filter) -> None:
        """Narrow the ranges by a filter that every row must pass."""
        column: tuple[str, ...] = getattr(pushed, "attribute", ())
        if len(column) != 1:
            return
        (name,) = column
        if name == "stream" and isinstance(pushed, EqualTo | In):
            names = frozenset([pushed.value] if isinstance(pushed, EqualTo) else pushed.value)
            self.streams = names if self.streams is None else self.streams & names
        elif name == "dlsn" and isinstance(pushed, EqualTo):
            self._add_position(pushed.value)
        elif name in _RANGED:
            self._add_number(name, pushed)

    def _add_position(self, text: object) -> None:
        try:
            position = Dlsn.parse(str(text))
        except InvalidArgumentError:
            return
        self._narrow("lssn", position.lssn, position.lssn)
        self._narrow("entry_id", position.entry_id, position.entry_id)

    def _add_number(self, name: str, pushed: Filter) -> None:
        if isinstance(pushed, In):
            values = [number for one in pushed.value if (number := _number(one)) is not None]
            if values and len(values) == len(pushed.value):
                self._narrow(name, min(values), max(values))
            return
        value = _number(getattr(pushed, "value", None))
        if value is None:
            return
        if isinstance(pushed, EqualTo):
            self._narrow(name, value, value)
        elif isinstance(pushed, GreaterThanOrEqual):
            self._narrow(name, value, HIGHEST)
        elif isinstance(pushed, GreaterThan):
            self._narrow(name, value + 1, HIGHEST)
        elif isinstance(pushed, LessThanOrEqual):
            self._narrow(name, _LOWEST, value)
        elif isinstance(pushed, LessThan):
            self._narrow(name, _LOWEST, value - 1)

    def _narrow(self, name: str, low: int, high: int) -> None:
        self.low[name] = max(self.low[name], low)
        self.high[name] = min(self.high[name], high)

    def may_match(self, name: str, low: int, high: int) -> bool:
        """True if a file or row group whose values are in [low, high] can hold a selected row."""
        return low <= self.high[name] and self.low[name] <= high

    def includes_stream(self, stream: str) -> bool:
        """True if rows of the stream can pass the filters."""
        return self.streams is None or stream in self.streams


def _number(value: object) -> int | None:
    """Return the value of a filter as the column is stored; None if the type is another one."""
    if isinstance(value, datetime):
        return None if value.tzinfo is None else (value - _EPOCH) // timedelta(microseconds=1)
    return value if isinstance(value, int) else None
