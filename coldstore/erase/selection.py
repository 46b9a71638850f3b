"""Which records are erased, and what is left of a row group. Needs only pyarrow."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.errors import InvalidArgumentError
from ..archive.content_digest import raw_crc_of
from ..archive.part import record_set_of_rows, record_set_ranges
from ..archive.part_file import RowGroup
from ..archive.schema import MICROSECONDS_PER_MS, TIMESTAMP
from .erased_set import ErasedSet, find_set, half_open_ranges

COLUMNS = ("key", "created")
"""The columns from which it is decided whether a record is erased."""


@dataclass(frozen=True, slots=True)
class RecordSelection:
    """The records that are erased: those that all given limits select.

    Raises InvalidArgumentError without a limit, because it would select every record.
    """

    keys: frozenset[bytes] = frozenset()
    """Records with one of these keys; empty: with any key or none."""
    created_from_ms: int | None = None
    created_before_ms: int | None = None

    def __post_init__(self) -> None:
        times = self.created_from_ms, self.created_before_ms
        if not self.keys and times == (None, None):
            raise InvalidArgumentError("nothing is selected: give a key or a range of times")
        if None not in times and times[0] >= times[1]:  # type: ignore[operator]
            raise InvalidArgumentError("the range of times is empty")

    def may_match(self, group: RowGroup) -> bool:
        """True if a row group can hold a selected record, according to its statistics."""
        first_us, last_us = group.created_us
        begin, end = self.created_from_ms, self.created_before_ms
        return (begin is None or last_us >= begin * MICROSECONDS_PER_MS) and (
            end is None or first_us < end * MICROSECONDS_PER_MS
        )

    def mask(self, table: "pa.Table") -> "pa.ChunkedArray[pa.BooleanScalar]":
        """Return which rows are selected."""
        created = table.column("created")
        conditions = []
        if self.keys:
            keys = pa.array(sorted(self.keys), pa.binary())
            conditions.append(pc.is_in(table.column("key"), value_set=keys))
        if self.created_from_ms is not None:
            time = pa.scalar(self.created_from_ms * MICROSECONDS_PER_MS, TIMESTAMP)
            conditions.append(pc.greater_equal(created, time))
        if self.created_before_ms is not None:
            time = pa.scalar(self.created_before_ms * MICROSECONDS_PER_MS, TIMESTAMP)
            conditions.append(pc.less(created, time))
        found = conditions[0]
        for condition in conditions[1:]:
            found = pc.and_(found, condition)
        return found


def without_selected(
    table: "pa.Table", selection: RecordSelection, sets: Sequence[ErasedSet], lssn: int
) -> tuple["pa.Table", list[ErasedSet]]:
    """Return what is left of a row group, and all erased sets of the segment afterwards.

    ``sets`` are those before, in order of position. Raises CorruptionError.
    """
    mask = selection.mask(table)
    selected = pc.indices_nonzero(mask).to_pylist()
    if not selected:
        return table, list(sets)
    found = {(one.entry_id, one.slot): one for one in sets}
    for start, end in record_set_ranges(table, has_gaps=True):
        rows = selected[bisect_left(selected, start) : bisect_left(selected, end)]
        if not rows:
            continue
        run = record_set_of_rows(table, start, end, lssn)
        slots = [run.slot + row - start for row in rows]
        known = find_set(sets, run.entry_id, run.slot)
        if known is None:
            crc = raw_crc_of(run.txids, run.payloads, run.attributes)
            one = ErasedSet(run.entry_id, run.slot, end - start, crc, half_open_ranges(slots))
        else:  # runs of a set from which records were erased before
            one = found[known.entry_id, known.slot].without(slots)
        found[one.entry_id, one.slot] = one
    return table.filter(pc.invert(mask)), [found[key] for key in sorted(found)]
