"""The executors' part of a query: the rows of a split, as Arrow batches."""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from ..coldstore.open import open_cold_store
from ..coldstore.part_file import PartFile, RowGroup
from ..core.protocol.dlsn import Dlsn
from ..core.protocol.errors import NoSuchObjectError, TruncatedError
from ..core.runtime.cold_store import ColdStore
from ..core.runtime.tasks import settled
from .columns import BATCH_ROWS_MAX, arrow_batches, stored_columns
from .hot_view import new_client
from .loss import lost
from .options import Options
from .splits import ArchiveSplit, HotSplit

if TYPE_CHECKING:
    from ..client.connect import Client
    from ..proxies.client import ProxyClient

_HOT_BYTES_MAX = 8 << 20
"""Rows from ledgers are gathered up to this size before they leave as a batch."""


def read_split(options: Options, split: InputPartition) -> Iterator["pa.RecordBatch"]:
    """The rows of a split. Raises GapError when they are gone and the query must not lose data."""
    if isinstance(split, ArchiveSplit):
        return _archived(options, split)
    if isinstance(split, HotSplit):
        return _hot(options, split)
    return iter(())


# --- archive ------------------------------------------------------------------------------------


def _archived(options: Options, split: ArchiveSplit) -> Iterator["pa.RecordBatch"]:
    assert options.archive is not None
    with asyncio.Runner() as runner:
        cold = open_cold_store(options.archive)
        tables = archived_tables(cold, split, stored_columns(options.columns))
        try:
            while (table := runner.run(_next_of(tables))) is not None:
                yield from arrow_batches(table, split.stream, options.columns)
        except NoSuchObjectError as error:
            if options.fails_on_data_loss:
                start = Dlsn(split.lssn, split.first_entry_id, split.first_slot)
                raise lost(split.stream, start, Dlsn(split.lssn, split.end_entry_id, 0)) from error
        finally:
            runner.run(tables.aclose())
            runner.run(cold.close())


async def archived_tables(
    cold: ColdStore, split: ArchiveSplit, names: Sequence[str]
) -> AsyncGenerator["pa.Table", None]:
    """The rows of a split with these columns of the archive, by row groups.

    The next is fetched while the caller has the last. Raises NoSuchObjectError, CorruptionError.
    """
    part = await PartFile.open(cold, split.key, split.size_bytes)
    groups = [n for n, group in enumerate(part.row_groups) if _may_hold(split, group)]
    ahead: asyncio.Task[pa.Table] | None = None
    try:
        for at, number in enumerate(groups):
            task = ahead or _reading(part, split, number, names)
            ahead = None
            table = _cut(await task, split, part.row_groups[number])
            if at + 1 < len(groups):
                ahead = _reading(part, split, groups[at + 1], names)
                await asyncio.sleep(0)  # now its reads are under way, in threads
            yield table
    finally:
        if ahead is not None:
            ahead.cancel()
            await settled(ahead)


def _reading(
    part: PartFile, split: ArchiveSplit, number: int, names: Sequence[str]
) -> "asyncio.Task[pa.Table]":
    """The row group is being read, with what it takes to cut it."""
    needed = set(names)
    if not _is_inside(split, part.row_groups[number]):
        needed |= {"entry_id", "slot"}
    return asyncio.ensure_future(part.read(number, sorted(needed)))


def _is_inside(split: ArchiveSplit, group: RowGroup) -> bool:
    """Whether all rows of the row group are in the split."""
    after_start = split.first_entry_id < group.first_entry_id or (
        split.first_entry_id == group.first_entry_id and not split.first_slot
    )
    return after_start and group.last_entry_id < split.end_entry_id


async def _next_of(tables: AsyncGenerator["pa.Table", None]) -> "pa.Table | None":
    return await anext(tables, None)


def _may_hold(split: ArchiveSplit, group: RowGroup) -> bool:
    entries, txids = split.ranges
    return (
        group.first_entry_id < split.end_entry_id
        and split.first_entry_id <= group.last_entry_id
        and group.first_entry_id <= entries[1]
        and entries[0] <= group.last_entry_id
        and group.first_txid <= txids[1]
        and txids[0] <= group.last_txid
    )


def _cut(table: "pa.Table", split: ArchiveSplit, group: RowGroup) -> "pa.Table":
    """Without the rows outside of the split."""
    if _is_inside(split, group):
        return table
    entry_id = table.column("entry_id")
    later = pc.and_(
        pc.equal(entry_id, split.first_entry_id),
        pc.greater_equal(table.column("slot"), split.first_slot),
    )
    after_start = pc.or_(pc.greater(entry_id, split.first_entry_id), later)
    return table.filter(pc.and_(after_start, pc.less(entry_id, split.end_entry_id)))


# --- ledgers ------------------------------------------------------------------------------------


def _hot(options: Options, split: HotSplit) -> Iterator["pa.RecordBatch"]:
    with asyncio.Runner() as runner:
        tables = _hot_tables(options, split)
        try:
            while (table := runner.run(_next_of(tables))) is not None:
                yield from arrow_batches(table, split.stream, options.columns)
        finally:
            runner.run(tables.aclose())


async def _hot_tables(options: Options, split: HotSplit) -> AsyncGenerator["pa.Table", None]:
    """The rows, gathered to batches of a size that is worth a transfer."""
    gathered: list[pa.RecordBatch] = []
    size = rows = 0
    async with new_client(options) as client:
        async for batch in _hot_batches(client, options, split):
            gathered.append(batch)
            size, rows = size + batch.nbytes, rows + batch.num_rows
            if size >= _HOT_BYTES_MAX or rows >= BATCH_ROWS_MAX:
                yield pa.Table.from_batches(gathered).combine_chunks()
                gathered, size, rows = [], 0, 0
        if gathered:
            yield pa.Table.from_batches(gathered).combine_chunks()


async def _hot_batches(
    client: "Client | ProxyClient", options: Options, split: HotSplit
) -> AsyncGenerator["pa.RecordBatch", None]:
    position = split.start
    while position < split.end:
        try:
            async with client.reader(split.stream, position) as reader:
                while (batch := await reader.next_batch(until=split.end)) is not None:
                    if batch.first_dlsn >= split.end:
                        return
                    yield batch.to_arrow(with_positions=True)
                    position = reader.position
                return
        except TruncatedError as error:
            if options.fails_on_data_loss:
                raise lost(split.stream, position, split.end) from error
            assert isinstance(error.first_active, Dlsn)
            position = error.first_active
