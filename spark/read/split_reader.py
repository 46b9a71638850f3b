"""Reads the rows of a split on an executor, as Arrow batches."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from ...coldstore.archive.part_scan import read_row_groups
from ...coldstore.stores.open_store import open_cold_store
from ...core.protocol.dlsn import Dlsn
from ...core.protocol.errors import NoSuchObjectError, TruncatedError
from .columns import ATTRIBUTES, BATCH_ROWS_MAX, arrow_batches, as_archived, stored_columns
from .data_loss import data_loss_error, log_data_loss
from .hot_view import new_client
from .options import Options
from .splits import ArchiveSplit, HotSplit, PackedSplit

if TYPE_CHECKING:
    from ...client.connect import LogClient

_HOT_BYTES_MAX = 8 << 20
"""Rows from ledgers are collected up to this size before they are passed on as a batch."""


def read_split(options: Options, split: InputPartition) -> Iterator["pa.RecordBatch"]:
    """Yield the rows of a split.

    Raises GapError if records were deleted and the query fails on data loss.
    """
    if isinstance(split, ArchiveSplit):
        return _archived(options, split)
    if isinstance(split, HotSplit):
        return _hot(options, split)
    if isinstance(split, PackedSplit):
        return chain.from_iterable(read_split(options, one) for one in split.splits)
    return iter(())


# --- archive ------------------------------------------------------------------------------------


def _archived(options: Options, split: ArchiveSplit) -> Iterator["pa.RecordBatch"]:
    assert options.archive is not None
    with asyncio.Runner() as runner:
        cold = open_cold_store(options.archive)
        columns = stored_columns((*options.columns, *options.where.columns))
        tables = read_row_groups(cold, split.key, split.lssn, split.part, split.selection, columns)
        try:
            while (table := runner.run(_next_of(tables))) is not None:
                yield from arrow_batches(options.where.select(table), split.stream, options.columns)
        except NoSuchObjectError as error:
            if options.fails_on_data_loss:
                raise data_loss_error(split.stream, *split.bounds) from error
            log_data_loss(split.stream, *split.bounds)
        finally:
            runner.run(tables.aclose())
            runner.run(cold.close())


async def _next_of(tables: AsyncGenerator["pa.Table", None]) -> "pa.Table | None":
    return await anext(tables, None)


# --- ledgers ------------------------------------------------------------------------------------


def _hot(options: Options, split: HotSplit) -> Iterator["pa.RecordBatch"]:
    with asyncio.Runner() as runner:
        tables = _hot_tables(options, split)
        try:
            while (table := runner.run(_next_of(tables))) is not None:
                yield from arrow_batches(options.where.select(table), split.stream, options.columns)
        finally:
            runner.run(tables.aclose())


async def _hot_tables(options: Options, split: HotSplit) -> AsyncGenerator["pa.Table", None]:
    """Yield the rows in tables of up to _HOT_BYTES_MAX bytes or BATCH_ROWS_MAX rows."""
    collected: list[pa.RecordBatch] = []
    size = rows = 0
    async with new_client(options) as client:
        async for batch in _hot_batches(client, options, split):
            collected.append(batch)
            size, rows = size + batch.nbytes, rows + batch.num_rows
            if size >= _HOT_BYTES_MAX or rows >= BATCH_ROWS_MAX:
                yield pa.Table.from_batches(collected).combine_chunks()
                collected, size, rows = [], 0, 0
        if collected:
            yield pa.Table.from_batches(collected).combine_chunks()


async def _hot_batches(
    client: "LogClient", options: Options, split: HotSplit
) -> AsyncGenerator["pa.RecordBatch", None]:
    position = split.start
    needed = {*options.columns, *options.where.columns}
    while position < split.end:
        try:
            async with client.reader(split.stream, position) as reader:
                while (batch := await reader.next_batch(until=split.end)) is not None:
                    if batch.first_dlsn >= split.end:
                        return
                    rows = batch.to_arrow(
                        with_positions=True,
                        with_attributes=not ATTRIBUTES.isdisjoint(needed),
                    )
                    if (batch.lssn, batch.entry_id) == (split.end.lssn, split.end.entry_id):
                        rows = rows.slice(0, split.end.slot - batch.first_dlsn.slot)
                    yield as_archived(rows)
                    position = reader.position
                return
        except TruncatedError as error:
            if options.fails_on_data_loss:
                raise data_loss_error(split.stream, position, split.end) from error
            assert isinstance(error.first_active, Dlsn)
            log_data_loss(split.stream, position, min(error.first_active, split.end))
            position = error.first_active
