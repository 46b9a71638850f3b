"""The sink: rows become records, once, however often Spark tries.

Every task numbers its rows under a producer id made of the query, the micro-batch and the
partition (of the write's name and the partition, in batch queries). A task that is tried again
sends the same numbers, and the log leaves out what it has. So rows must come to a task in the same
order each time, as they do from a source that can be replayed.

Through proxies any number of tasks write one stream. A core client is alone with its stream: there
the query must have one partition.
"""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator
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

_BATCH_ID = "streaming.sql.batchId"
_QUERY_ID = "sql.streaming.queryId"


class BatchSink(DataSourceArrowWriter):
    """See DataSourceArrowWriter. What a failed job wrote stays; under a ``writeId`` it can be
    repeated."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options
        self._name = options.write_id or f"{SystemRandom().getrandbits(128):032x}"

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Writes the rows of one task; a repeat is safe."""
        partition = _task().partitionId()
        return _write(self._options, f"batch {self._name}", partition, iterator)


class StreamSink(DataSourceStreamArrowWriter):
    """See DataSourceStreamArrowWriter."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator["pa.RecordBatch"]) -> WriterCommitMessage:
        """Writes the rows of one task of a micro-batch; a repeat is safe."""
        task = _task()
        query, batch = task.getLocalProperty(_QUERY_ID), task.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise ConfigurationError("Spark does not say which micro-batch this is")
        return _write(self._options, f"query {query} {batch}", task.partitionId(), iterator)


def _task() -> TaskContext:
    task = TaskContext.get()
    assert task is not None, "the sink is run by Spark"
    return task


def _write(
    options: WriteOptions, name: str, partition: int, batches: Iterator["pa.RecordBatch"]
) -> WriterCommitMessage:
    if partition and not options.uses_proxies:
        raise ConfigurationError(
            "a core client writes a stream alone, and this query has several partitions: "
            "coalesce(1), or write through proxies (metadata=grpc://...)"
        )
    producer = hashlib.sha256(f"{name} {partition}".encode()).digest()[:16]

    async def work() -> None:
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is not None:  # otherwise no stream is taken over for nothing
            await _write_rows(options, producer, chain([first], rows))

    asyncio.run(work())
    return WriterCommitMessage()


async def _write_rows(
    options: WriteOptions, producer: bytes, rows: Iterable["pa.RecordBatch"]
) -> None:
    from ...client.connect import Client, connect
    from .row_encoder import write_rows

    keeps = options.keeps_txids
    async with connect(
        options.metadata, namespace=options.namespace, region=options.region
    ) as client:
        if isinstance(client, Client):
            alone = client.namespace()
            async with await with_retries(lambda: alone.open_writer(options.stream)) as writer:
                last = writer.last_sequence(producer)
                skip = 0 if last is None else last + 1
                await write_rows(writer, producer, rows, skip=skip, keeps_txids=keeps)
        else:
            shared = client.namespace()
            async with await with_retries(lambda: shared.open_writer(options.stream)) as thin:
                await write_rows(thin, producer, rows, keeps_txids=keeps)
