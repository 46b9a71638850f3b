"""The sink: writes each row once, even if Spark retries tasks or repeats micro-batches.

Each task is a numbered producer (rule STR-16). Its producer id is derived from the query, the
micro-batch and the partition; in batch queries, from the name of the write and the partition. A
retried task sends the same numbers, and the stream skips the records that it has. Rows must
therefore reach a task in the same order each time, as they do from a replayable source.

Through proxies, any number of tasks can write to one stream. A core client is the only writer of
its stream, so a query without proxies must have one partition.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from itertools import chain
from random import SystemRandom
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from ...core.protocol.errors import ConfigurationError
from ..read.hot_view import with_retries
from .write_options import WriteOptions

if TYPE_CHECKING:
    import pyarrow as pa

    from ...client.connect import LogClient
    from .stream_router import OpenedStream

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


class BatchSink(DataSourceArrowWriter):
    """Writes the rows of a batch query. See DataSourceArrowWriter.

    The records of a failed job remain in the stream; with a ``writeId`` the job can be repeated
    without duplicates.
    """

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = options.write_id or f"{SystemRandom().getrandbits(128):032x}"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task. Safe to repeat."""
        partition = _task().partitionId()
        return _write(self._options, f"batch {self._name}", partition, iterator)


class StreamSink(DataSourceStreamArrowWriter):
    """Writes the rows of a streaming query. See DataSourceStreamArrowWriter."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Write the rows of one task of a micro-batch. Safe to repeat."""
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise ConfigurationError(
                f"rhumbline sink: Spark did not set the task properties {_QUERY_ID} and {_BATCH_ID}"
            )
        return _write(self._options, f"query {query} {batch}", task.partitionId(), iterator)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "the sink runs only in a Spark task"
    return task


def _write(
    options: WriteOptions, name: str, partition: int, batches: Iterator["pa.RecordBatch"]
) -> WriterCommitMessage:
    if partition and not options.uses_proxies:
        raise ConfigurationError(
            "rhumbline sink: without proxies a stream has a single writer, but this query has "
            "several partitions; use coalesce(1), or write through proxies (metadata=grpc://...)"
        )
    producer = hashlib.sha256(f"{name} {partition}".encode()).digest()[:16]

    async def write_batches() -> None:
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is not None:  # an empty partition does not take the stream over
            await _write_rows(options, producer, chain([first], rows))

    asyncio.run(write_batches())
    return WriterCommitMessage()


async def _write_rows(
    options: WriteOptions, producer: bytes, rows: Iterable["pa.RecordBatch"]
) -> None:
    from ...client.connect import connect
    from .row_encoder import write_rows
    from .stream_router import route_rows

    keeps = options.keeps_txids
    async with connect(
        options.metadata,
        namespace=options.namespace,
        region=options.region,
        **options.files.arguments(),
    ) as client:
        if options.stream:
            async with _opened(client, options.stream, producer) as (writer, skip):
                await write_rows(writer, producer, rows, skip=skip, keeps_txids=keeps)
        else:
            await route_rows(
                lambda stream: _opened(client, stream, producer), producer, rows, keeps_txids=keeps
            )


@asynccontextmanager
async def _opened(
    client: "LogClient", stream: str, producer: bytes
) -> AsyncIterator["OpenedStream"]:
    """Open a stream for writing. Only the core client knows how many rows it has already."""
    from ...client.connect import Client
    from .stream_router import OpenedStream

    if isinstance(client, Client):
        namespace = client.namespace()
        async with await with_retries(lambda: namespace.open_writer(stream)) as writer:
            last = writer.last_sequence(producer)
            yield OpenedStream(writer, 0 if last is None else last + 1)
    else:
        proxies = client.namespace()
        async with await with_retries(lambda: proxies.open_writer(stream)) as proxy_writer:
            yield OpenedStream(proxy_writer, 0)
