"""The columns of an archive's part files and their Parquet settings. Needs only pyarrow.

Every part has all of these columns, so that any reader takes the schema from any part. Their field
ids never change; tables of other formats refer to columns by them. Rows are sorted by the columns
of ``SORT_ORDER``, which each row group declares.
"""

import json
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

FORMAT = 1
"""Version of the columns and of the keys in the file's metadata."""
MICROSECONDS_PER_MS = 1000
TIMESTAMP = pa.timestamp("us", tz="UTC")

_FIELD_ID = b"PARQUET:field_id"


class PartColumn(NamedTuple):
    """A column of the parts."""

    field_id: int
    name: str
    kind: pa.DataType
    is_required: bool
    description: str


def _field(field_id: int, name: str, kind: pa.DataType, is_required: bool) -> "pa.Field[Any]":
    metadata = {_FIELD_ID: str(field_id).encode()}
    return pa.field(name, kind, nullable=not is_required, metadata=metadata)


_HEADERS = pa.map_(_field(13, "key", pa.string(), True), _field(14, "value", pa.binary(), True))

COLUMNS = (
    PartColumn(1, "lssn", pa.int64(), True, "Number of the log segment, the same in all rows."),
    PartColumn(2, "entry_id", pa.int64(), True, "Entry of the segment, from 0."),
    PartColumn(3, "slot", pa.int32(), True, "Slot of the record in its entry."),
    PartColumn(4, "record_set", pa.int32(), True, "Data record set of the entry, from 0."),
    PartColumn(5, "txid", pa.int64(), True, "Transaction id; never falls within a stream."),
    PartColumn(6, "created", TIMESTAMP, True, "Time at which the record set was made."),
    PartColumn(7, "producer", pa.binary(16), False, "Producer that numbers its records."),
    PartColumn(8, "sequence", pa.int64(), False, "The producer's number of the record."),
    PartColumn(9, "payload", pa.binary(), True, "The record."),
    PartColumn(10, "key", pa.binary(), False, "Key of the record."),
    PartColumn(
        11, "event_time", TIMESTAMP, False, "Time of the event, as the application gave it."
    ),
    PartColumn(12, "headers", _HEADERS, False, "Headers of the record; null if it has none."),
)  # headers last: two columns in Parquet

SORT_ORDER = ("lssn", "entry_id", "slot")

SCHEMA = pa.schema([_field(*column[:4]) for column in COLUMNS])

BOUNDED = ("lssn", "entry_id", "slot", "txid", "created", "sequence", "key", "event_time")
"""The columns with statistics, by which readers skip row groups and pages."""
_REPEATING = ["lssn", "entry_id", "record_set", "created", "producer"]
_BLOOM_FILTERS = {"key": {"ndv": 100_000, "fpp": 0.01}}
"""The writer allocates a filter for ``ndv`` keys in each row group, and stores what they need."""


class PartOrigin(NamedTuple):
    """The segment for which a part was written."""

    namespace: str
    stream: str
    stream_identity: str
    lssn: int

    def file_metadata(self) -> dict[str, str]:
        """Return the metadata of the part's file, which are the same in a copy of the part."""
        fields = {"format": str(FORMAT), **self._asdict()}
        columns = {column.name: column.description for column in COLUMNS}
        return {
            **{f"rhumbline.{name}": str(value) for name, value in fields.items()},
            "rhumbline.columns": json.dumps(columns),
        }


def parquet_writer_options() -> dict[str, Any]:
    """Return the settings of the Parquet writer.

    They are compression by zstd, checksums of pages, the sort order, and statistics and Bloom
    filters of the columns by which queries select rows. The schema is stored only in Parquet's own
    form, so that all readers see the same types.
    """
    return {
        "compression": "zstd",
        "use_dictionary": _REPEATING,
        "write_statistics": list(BOUNDED),
        "write_page_index": True,
        "write_page_checksum": True,
        "sorting_columns": [pq.SortingColumn(SCHEMA.get_field_index(name)) for name in SORT_ORDER],
        "bloom_filter_options": _BLOOM_FILTERS,
        "store_schema": False,
    }
