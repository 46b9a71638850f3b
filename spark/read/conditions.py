"""Conditions of the option ``where``, such as ``lssn = 2 and created < '2026-11-24T06:00Z'``.

Planning derives ranges of positions, txids and times from them, which exclude files and row groups.
The reader applies them to every row that is left, so the result depends on the option alone.

The filters of a query, which Spark offers to Python sources, are not used. Spark 4.3 keeps one plan
for a loaded DataFrame, the latest, and runs all queries on the DataFrame with it. A union of two
filters of one DataFrame would miss rows.
"""

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...coldstore.archive.part_scan import ValueRange, overlap
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import InvalidArgumentError
from .columns import ARROW_TYPES

HIGHEST = 2**63 - 1
_LOWEST = -(2**63)
_ANY = (_LOWEST, HIGHEST)
_NUMBERS = ("lssn", "entry_id", "slot", "txid")
_TIMES = ("created", "event_time")
_COLUMNS = ("stream", "dlsn", *_NUMBERS, *_TIMES)
_RANGED = ("lssn", "entry_id", "txid", *_TIMES)
"""Columns that have bounds in manifests or footers."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_CONSTANT = r"(?:-?[0-9]{1,18}|'[^']*')"
_CONDITION = re.compile(
    rf"\s*(\w+)\s*(<=|>=|=|<|>|\bin\b)\s*({_CONSTANT}|\(\s*{_CONSTANT}(?:\s*,\s*{_CONSTANT})*\s*\))"
    r"\s*(?:\band\b|$)",
    re.IGNORECASE,
)
_FORM = (
    f"expected conditions that are joined by `and`, each of which compares one of "
    f"{', '.join(_COLUMNS)} with a constant by =, <, <=, > or >=, or with several by "
    "`in (1, 2)`; text and times are written in single quotes"
)
_COMPARE: dict[str, Callable[[Any, Any], "pc.Expression"]] = {
    "=": operator.eq,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class RowCondition(NamedTuple):
    """A comparison of a column with a value, or by ``in`` with one or more values.

    Times are in microseconds since 1970.
    """

    column: str
    sign: str
    values: tuple[int | str, ...]

    def expression(self) -> "pc.Expression":
        """Return the condition as pyarrow applies it to rows with the columns of the archive."""
        kind = ARROW_TYPES[self.column]
        if self.sign == "in":
            return pc.field(self.column).isin(pa.array(self.values, kind))
        return _COMPARE[self.sign](pc.field(self.column), pa.scalar(self.values[0], kind))


@dataclass(frozen=True, slots=True)
class Conditions:
    """All conditions of a query. A row must meet each of them."""

    streams: frozenset[str] | None = None
    """The streams that are read; None stands for all."""
    of_rows: tuple[RowCondition, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        """The columns that ``select`` needs."""
        return frozenset(one.column for one in self.of_rows)

    def includes_stream(self, stream: str) -> bool:
        """True if rows of the stream can meet the conditions."""
        return self.streams is None or stream in self.streams

    def select(self, rows: "pa.Table") -> "pa.Table":
        """Return the rows that meet all conditions."""
        if not self.of_rows:
            return rows
        return rows.filter(reduce(operator.and_, [one.expression() for one in self.of_rows]))


def parse_conditions(text: str) -> Conditions:
    """Parse the option ``where``. Raises ValueError."""
    streams: frozenset[str] | None = None
    of_rows: list[RowCondition] = []
    for condition in _parse(text):
        if condition.column == "stream":
            names = frozenset(map(str, condition.values))
            streams = names if streams is None else streams & names
        else:
            of_rows.append(condition)
    return Conditions(streams, tuple(of_rows))


def _parse(text: str) -> Iterator[RowCondition]:
    at, more = 0, True
    while more:
        found = _CONDITION.match(text, at)
        if found is None:
            raise ValueError(f"{text[at:].strip()!r}: {_FORM}")
        column, sign = found[1].lower(), found[2].lower()
        constants = re.findall(_CONSTANT, found[3])
        is_list = found[3].startswith("(")
        if column not in _COLUMNS or is_list is not (sign == "in"):
            raise ValueError(f"{found[0].strip()!r}: {_FORM}")
        if (column == "stream" and sign not in ("=", "in")) or (column == "dlsn" and sign != "="):
            signs = "= or in" if column == "stream" else "="
            raise ValueError(f"{found[0].strip()!r}: {column} can only be compared by {signs}")
        if column == "dlsn":
            yield from _position(_text(column, constants[0]))
        else:
            yield RowCondition(column, sign, tuple(_value(column, one) for one in constants))
        at, more = found.end(), found[0].lower().endswith("and")


def _position(text: str) -> Iterator[RowCondition]:
    """Yield the conditions of the columns that ``dlsn`` consists of."""
    try:
        position = Dlsn.parse(text)
    except InvalidArgumentError as error:
        raise ValueError(f"dlsn: {error}") from error
    for column in ("lssn", "entry_id", "slot"):
        yield RowCondition(column, "=", (getattr(position, column),))


def _value(column: str, constant: str) -> int | str:
    if column == "stream":
        return _text(column, constant)
    if column in _NUMBERS:
        if constant.startswith("'"):
            raise ValueError(f"{column}: {constant} is not a whole number")
        return int(constant)
    text = _text(column, constant)
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(
            f"{column}: {text!r} is not a time, such as '2026-11-23T09:30:00Z'"
        ) from error
    return _microseconds(time if time.tzinfo else time.replace(tzinfo=UTC))


def _text(column: str, constant: str) -> str:
    if not constant.startswith("'"):
        raise ValueError(f"{column}: {constant} is not text in single quotes")
    return constant[1:-1]


def _microseconds(time: datetime) -> int:
    return (time - _EPOCH) // timedelta(microseconds=1)


class Ranges:
    """The values of each column that can meet conditions, as ascending ranges."""

    def __init__(self) -> None:
        """Create ranges that exclude nothing."""
        self._of_column: dict[str, tuple[ValueRange, ...]] = dict.fromkeys(_RANGED, (_ANY,))

    @classmethod
    def of(cls, conditions: Conditions) -> "Ranges":
        """Return the ranges outside of which no row meets the conditions."""
        ranges = cls()
        for column, sign, values in conditions.of_rows:
            if column in _RANGED:
                numbers = sorted(value for value in set(values) if isinstance(value, int))
                wanted = [_range(sign, number) for number in numbers]
                ranges._of_column[column] = tuple(
                    (max(low, first), min(high, last))
                    for low, high in ranges._of_column[column]
                    for first, last in wanted
                    if max(low, first) <= min(high, last)
                )
        return ranges

    def of_column(self, name: str) -> tuple[ValueRange, ...]:
        """Return the ranges of a column. None means that no row meets the conditions."""
        return self._of_column[name]

    def lowest(self, name: str) -> int:
        """Return the lowest value of a column that can meet the conditions."""
        return min((low for low, _ in self._of_column[name]), default=HIGHEST)

    def highest(self, name: str) -> int:
        """Return the highest value of a column that can meet the conditions."""
        return max((high for _, high in self._of_column[name]), default=_LOWEST)

    def may_match(self, name: str, low: int, high: int) -> bool:
        """True if a file or row group whose values are in [low, high] can hold a selected row."""
        return overlap(self._of_column[name], (low, high))


def _range(sign: str, value: int) -> ValueRange:
    """Return the numbers that a comparison with ``value`` selects."""
    low = {"<": _LOWEST, "<=": _LOWEST, ">": value + 1}.get(sign, value)
    high = {">": HIGHEST, ">=": HIGHEST, "<": value - 1}.get(sign, value)
    return low, high
