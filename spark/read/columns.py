"""The columns of the data source and their derivation from the columns of the archive."""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

ALL_COLUMNS = (
    "stream",
    "lssn",
    "entry_id",
    "slot",
    "dlsn",
    "txid",
    "created",
    "payload",
    "key",
    "headers",
    "event_time",
)
ATTRIBUTES = frozenset(("key", "headers", "event_time"))
"""The columns that are null for records without the attribute."""

SPARK_TYPES = {
    "stream": "string",
    "lssn": "bigint",
    "entry_id": "bigint",
    "slot": "int",
    "dlsn": "string",
    "txid": "bigint",
    "created": "timestamp",
    "payload": "binary",
    "key": "binary",
    "headers": "map<string, binary>",
    "event_time": "timestamp",
}
ARROW_TYPES = {
    "stream": pa.string(),
    "lssn": pa.int64(),
    "entry_id": pa.int64(),
    "slot": pa.int32(),
    "dlsn": pa.string(),
    "txid": pa.int64(),
    "created": pa.timestamp("us", tz="UTC"),
    "payload": pa.binary(),
    "key": pa.binary(),
    "headers": pa.map_(pa.string(), pa.binary()),
    "event_time": pa.timestamp("us", tz="UTC"),
}
_SOURCE_COLUMNS = {
    "stream": (),
    "dlsn": ("lssn", "entry_id", "slot"),
}
_TIMES = {"created_ms": "created", "event_time": "event_time"}
"""The times of records that were read from ledgers, in milliseconds, and their columns here."""
BATCH_ROWS_MAX = 50_000
"""Maximum number of rows of an Arrow batch that is passed to Spark."""


def spark_schema(columns: Sequence[str]) -> str:
    """Return the schema of ``columns`` as a DDL string of Spark."""
    return ", ".join(f"{name} {SPARK_TYPES[name]}" for name in columns)


def stored_columns(columns: Sequence[str]) -> list[str]:
    """Return the archive columns that ``columns`` derive from; at least one, to count rows."""
    needed: set[str] = set()
    for name in columns:
        needed.update(_SOURCE_COLUMNS.get(name, (name,)))
    return sorted(needed) or ["entry_id"]


def as_archived(rows: "pa.RecordBatch") -> "pa.RecordBatch":
    """Return rows that were read from a ledger with the columns and types of the archive."""
    arrays = [
        pc.cast(pc.cast(column, pa.timestamp("ms", tz="UTC")), ARROW_TYPES[_TIMES[name]])
        if name in _TIMES
        else column
        for name, column in zip(rows.schema.names, rows.columns, strict=True)
    ]
    names = [_TIMES.get(name, name) for name in rows.schema.names]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def arrow_batches(
    stored: "pa.Table", stream: str, columns: Sequence[str]
) -> Iterator["pa.RecordBatch"]:
    """Convert rows with columns of the archive to rows with ``columns``."""
    schema = pa.schema([pa.field(name, ARROW_TYPES[name]) for name in columns])
    for batch in stored.to_batches(max_chunksize=BATCH_ROWS_MAX):
        arrays = [_column(batch, name, stream) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(batch: "pa.RecordBatch", name: str, stream: str) -> "pa.Array":
    if name == "stream":
        return pa.repeat(pa.scalar(stream, pa.string()), batch.num_rows)
    if name == "dlsn":
        parts = [pc.cast(batch.column(part), pa.string()) for part in _SOURCE_COLUMNS["dlsn"]]
        return pc.binary_join_element_wise(*parts, ":")
    return batch.column(name)
