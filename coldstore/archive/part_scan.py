"""Scans a part file for the row groups that can hold selected rows. Needs only pyarrow."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...core.protocol.errors import NoSuchObjectError
from ...core.runtime.cold_store import ColdStore
from ...core.runtime.tasks import wait_until_done
from ..proof.erasure_chain import manifest_now
from .archive_folder import ArchiveFolder
from .catalog import read_manifest
from .manifest import Part
from .part_file import ANY_TIME, PartFile, RowGroup

ValueRange = tuple[int, int]
"""The lowest and the highest value."""
_ANY = ((0, 2**63 - 1),)
_ANY_TIME = (ANY_TIME,)


class RowSelection(NamedTuple):
    """A selection of rows: positions [first, end) of a segment.

    The ranges of entry ids, txids and times in microseconds only exclude row groups: of a row group
    that can hold a match, all rows in [first, end) are returned.
    """

    first_entry_id: int
    end_entry_id: int
    first_slot: int = 0
    """First slot of the first entry; later entries begin at slot 0."""
    end_slot: int = 0
    """Slot of the end entry before which the selection ends; 0 excludes that entry."""
    entry_ids: tuple[ValueRange, ...] = _ANY
    txids: tuple[ValueRange, ...] = _ANY
    created_us: tuple[ValueRange, ...] = _ANY_TIME
    event_us: tuple[ValueRange, ...] = _ANY_TIME
    """With any limit, records without an event time are not selected."""

    def between(self, first_entry_id: int, end_entry_id: int) -> "RowSelection":
        """Return what this selects of the entries [``first_entry_id``, ``end_entry_id``)."""
        selection = self
        if first_entry_id > self.first_entry_id:
            selection = selection._replace(first_entry_id=first_entry_id, first_slot=0)
        if end_entry_id <= self.end_entry_id:
            selection = selection._replace(end_entry_id=end_entry_id, end_slot=0)
        return selection

    def may_match(self, group: RowGroup) -> bool:
        """True if a row group can hold a selected row."""
        return (
            self.first_entry_id <= group.last_entry_id
            and (group.first_entry_id, 0) < (self.end_entry_id, self.end_slot)
            and overlap(self.entry_ids, (group.first_entry_id, group.last_entry_id))
            and overlap(self.txids, (group.first_txid, group.last_txid))
            and overlap(self.created_us, group.created_us)
            and (
                self.event_us == _ANY_TIME
                or (group.event_us is not None and overlap(self.event_us, group.event_us))
            )
        )

    def contains_all(self, group: RowGroup) -> bool:
        """True if all rows of a row group are in [first, end)."""
        after_start = self.first_entry_id < group.first_entry_id or (
            self.first_entry_id == group.first_entry_id and not self.first_slot
        )
        return after_start and group.last_entry_id < self.end_entry_id

    def select_rows(self, table: "pa.Table") -> "pa.Table":
        """Return the rows of ``table`` that are in [first, end)."""
        entry_id = table.column("entry_id")
        in_first_entry = pc.and_(
            pc.equal(entry_id, self.first_entry_id),
            pc.greater_equal(table.column("slot"), self.first_slot),
        )
        after_start = pc.or_(pc.greater(entry_id, self.first_entry_id), in_first_entry)
        in_end_entry = pc.and_(
            pc.equal(entry_id, self.end_entry_id), pc.less(table.column("slot"), self.end_slot)
        )
        before_end = pc.or_(pc.less(entry_id, self.end_entry_id), in_end_entry)
        return table.filter(pc.and_(after_start, before_end))


async def read_row_groups(
    cold: ColdStore,
    key: str,
    lssn: int,
    part: Part,
    selection: RowSelection,
    columns: Sequence[str],
) -> AsyncGenerator["pa.Table", None]:
    """Yield the selected rows of a part, one row group at a time, with at least ``columns``.

    The next row group is fetched while the caller processes the previous one. If the file was
    deleted because the records of segment ``lssn`` lie in another one now, they are read there
    (rule ARC-61). Raises NoSuchObjectError and CorruptionError.
    """
    next_entry_id = part.first_entry_id
    try:
        async with aclosing(_groups_of(cold, key, part, selection, columns)) as groups:
            async for group, table in groups:
                yield table
                next_entry_id = group.last_entry_id + 1
    except NoSuchObjectError:
        rest = selection.between(next_entry_id, part.last_entry_id + 1)
        moved = await _moved_parts(cold, key, lssn, part)
        for other_key, other in moved:
            async with aclosing(_groups_of(cold, other_key, other, rest, columns)) as groups:
                async for _, table in groups:
                    yield table


async def _moved_parts(cold: ColdStore, key: str, lssn: int, part: Part) -> list[tuple[str, Part]]:
    """Return the parts of a segment by key. Raises NoSuchObjectError if ``part`` is among them."""
    namespace, stream, *_, stream_id, _ = key.split("/")
    manifest = await read_manifest(cold, ArchiveFolder(namespace, stream, stream_id), lssn)
    now = None if manifest is None else await manifest_now(cold, manifest)
    if now is None or part in now.parts:
        raise NoSuchObjectError(f"no object {key}")
    return [(now.part_key(one), one) for one in now.parts]


async def _groups_of(
    cold: ColdStore, key: str, part: Part, selection: RowSelection, columns: Sequence[str]
) -> AsyncGenerator[tuple[RowGroup, "pa.Table"], None]:
    file = await PartFile.open(cold, key, part)
    groups = [n for n, group in enumerate(file.row_groups) if selection.may_match(group)]
    prefetch: asyncio.Task[pa.Table] | None = None
    try:
        for index, number in enumerate(groups):
            task = prefetch or _start_read(file, selection, number, columns)
            prefetch = None
            table = await task
            if index + 1 < len(groups):
                prefetch = _start_read(file, selection, groups[index + 1], columns)
                await asyncio.sleep(0)  # lets the task start its reads, which run in threads
            group = file.row_groups[number]
            is_whole = selection.contains_all(group)
            yield group, table if is_whole else selection.select_rows(table)
    finally:
        if prefetch is not None:
            prefetch.cancel()
            await wait_until_done(prefetch)


def _start_read(
    file: PartFile, selection: RowSelection, number: int, columns: Sequence[str]
) -> "asyncio.Task[pa.Table]":
    """Start reading a row group, with the columns that ``select_rows`` needs."""
    needed = set(columns)
    if not selection.contains_all(file.row_groups[number]):
        needed |= {"entry_id", "slot"}
    return asyncio.ensure_future(file.read(number, sorted(needed)))


def overlap(wanted: tuple[ValueRange, ...], held: ValueRange) -> bool:
    """True if one of the wanted ranges and the range that is held have a value in common."""
    return any(low <= held[1] and held[0] <= high for low, high in wanted)
