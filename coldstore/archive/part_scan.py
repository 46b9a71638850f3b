"""Scans of a part file: which row groups can have wanted rows, and those. Needs only pyarrow."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import settled
from .part_file import PartFile, RowGroup

_ANY = (0, 2**63 - 1)


class Wanted(NamedTuple):
    """Positions [first, end) of a segment. The ranges, ends included, only say which row groups
    may be left out: of the others all rows come."""

    first_entry_id: int
    end_entry_id: int
    first_slot: int = 0
    """Of the first entry."""
    entry_ids: tuple[int, int] = _ANY
    txids: tuple[int, int] = _ANY

    def may_hold(self, group: RowGroup) -> bool:
        """Whether a row group can have a wanted row."""
        return (
            max(self.first_entry_id, self.entry_ids[0]) <= group.last_entry_id
            and group.first_entry_id <= min(self.end_entry_id - 1, self.entry_ids[1])
            and self.txids[0] <= group.last_txid
            and group.first_txid <= self.txids[1]
        )

    def holds_all(self, group: RowGroup) -> bool:
        """Whether all rows of a row group are in [first, end)."""
        after_start = self.first_entry_id < group.first_entry_id or (
            self.first_entry_id == group.first_entry_id and not self.first_slot
        )
        return after_start and group.last_entry_id < self.end_entry_id

    def cut(self, table: "pa.Table") -> "pa.Table":
        """The rows that are in [first, end)."""
        entry_id = table.column("entry_id")
        later = pc.and_(
            pc.equal(entry_id, self.first_entry_id),
            pc.greater_equal(table.column("slot"), self.first_slot),
        )
        after_start = pc.or_(pc.greater(entry_id, self.first_entry_id), later)
        return table.filter(pc.and_(after_start, pc.less(entry_id, self.end_entry_id)))


async def part_tables(
    cold: ColdStore, key: str, size_bytes: int, wanted: Wanted, columns: Sequence[str]
) -> AsyncGenerator["pa.Table", None]:
    """The wanted rows of a part, with these columns at least, by row groups.

    The next is fetched while the caller has the last. Raises NoSuchObjectError, CorruptionError.
    """
    part = await PartFile.open(cold, key, size_bytes)
    groups = [n for n, group in enumerate(part.row_groups) if wanted.may_hold(group)]
    ahead: asyncio.Task[pa.Table] | None = None
    try:
        for at, number in enumerate(groups):
            task = ahead or _reading(part, wanted, number, columns)
            ahead = None
            table = await task
            if at + 1 < len(groups):
                ahead = _reading(part, wanted, groups[at + 1], columns)
                await asyncio.sleep(0)  # now its reads are under way, in threads
            is_whole = wanted.holds_all(part.row_groups[number])
            yield table if is_whole else wanted.cut(table)
    finally:
        if ahead is not None:
            ahead.cancel()
            await settled(ahead)


def _reading(
    part: PartFile, wanted: Wanted, number: int, columns: Sequence[str]
) -> "asyncio.Task[pa.Table]":
    """The row group is being read, with what it takes to cut it."""
    needed = set(columns)
    if not wanted.holds_all(part.row_groups[number]):
        needed |= {"entry_id", "slot"}
    return asyncio.ensure_future(part.read(number, sorted(needed)))
