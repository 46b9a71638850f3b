"""Filters that Spark pushes down, as ranges of positions and txids.

A range only says which files and row groups can hold a row; Spark applies each filter itself to
what is read. So a filter that is not understood costs speed and never rows.
"""

from dataclasses import dataclass, field

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

_RANGED = ("lssn", "entry_id", "txid")
_LOWEST, _HIGHEST = 0, 2**63 - 1


@dataclass(slots=True)
class Ranges:
    """For each column the lowest and the highest value that can be wanted."""

    low: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_RANGED, _LOWEST))
    high: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_RANGED, _HIGHEST))
    streams: frozenset[str] | None = None
    """None: all."""

    def learn(self, one: Filter) -> None:
        """Narrows the ranges by a filter that every row must pass."""
        column: tuple[str, ...] = getattr(one, "attribute", ())
        if len(column) != 1:
            return
        (name,) = column
        if name == "stream" and isinstance(one, EqualTo | In):
            names = frozenset([one.value] if isinstance(one, EqualTo) else one.value)
            self.streams = names if self.streams is None else self.streams & names
        elif name == "dlsn" and isinstance(one, EqualTo):
            self._learn_position(one.value)
        elif name in _RANGED:
            self._learn_number(name, one)

    def _learn_position(self, text: object) -> None:
        try:
            position = Dlsn.parse(str(text))
        except InvalidArgumentError:
            return
        self._narrow("lssn", position.lssn, position.lssn)
        self._narrow("entry_id", position.entry_id, position.entry_id)

    def _learn_number(self, name: str, one: Filter) -> None:
        if isinstance(one, In):
            values = [value for value in one.value if isinstance(value, int)]
            if values and len(values) == len(one.value):
                self._narrow(name, min(values), max(values))
            return
        value = getattr(one, "value", None)
        if not isinstance(value, int):
            return
        if isinstance(one, EqualTo):
            self._narrow(name, value, value)
        elif isinstance(one, GreaterThanOrEqual):
            self._narrow(name, value, _HIGHEST)
        elif isinstance(one, GreaterThan):
            self._narrow(name, value + 1, _HIGHEST)
        elif isinstance(one, LessThanOrEqual):
            self._narrow(name, _LOWEST, value)
        elif isinstance(one, LessThan):
            self._narrow(name, _LOWEST, value - 1)

    def _narrow(self, name: str, low: int, high: int) -> None:
        self.low[name] = max(self.low[name], low)
        self.high[name] = min(self.high[name], high)

    def may_match(self, name: str, low: int, high: int) -> bool:
        """Whether a file or row group whose values are in [low, high] can have a wanted row."""
        return low <= self.high[name] and self.low[name] <= high

    def wants(self, stream: str) -> bool:
        """Whether rows of the stream can be wanted."""
        return self.streams is None or stream in self.streams
