"""The columns of an archive's part files and their Parquet settings. Needs only pyarrow.

``record_set`` is the number of the data record set within its entry, from 0. ``producer`` and
``sequence`` are null for records that their producer did not number. A part has the columns of
attributes only if the manifest says so; they are null where a record has none.
"""

from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("lssn", pa.int64(), nullable=False),
        pa.field("entry_id", pa.int64(), nullable=False),
        pa.field("slot", pa.int32(), nullable=False),
        pa.field("record_set", pa.int32(), nullable=False),
        pa.field("txid", pa.int64(), nullable=False),
        pa.field("created_ms", pa.int64(), nullable=False),
        pa.field("producer", pa.binary(16)),
        pa.field("sequence", pa.int64()),
        pa.field("payload", pa.binary(), nullable=False),
    ]
)

ATTRIBUTES = (
    pa.field("key", pa.binary()),
    pa.field("event_time", pa.int64()),
    pa.field("headers", pa.map_(pa.string(), pa.binary())),  # last: two columns in Parquet
)
"""The columns that only parts with attributes have."""

SCHEMA_WITH_ATTRIBUTES = pa.schema([*SCHEMA, *ATTRIBUTES])

_REPEATING = ["lssn", "entry_id", "record_set", "created_ms", "producer"]
_ORDERED = ["lssn", "entry_id", "slot", "txid", "created_ms"]


def part_schema(*, has_attributes: bool) -> pa.Schema:
    """Return the columns of a part."""
    return SCHEMA_WITH_ATTRIBUTES if has_attributes else SCHEMA


def parquet_writer_options() -> dict[str, Any]:
    """Return the settings of the Parquet writer: zstd, page checksums, selected statistics."""
    return {
        "compression": "zstd",
        "use_dictionary": _REPEATING,
        "write_statistics": _ORDERED,
        "write_page_index": True,
        "write_page_checksum": True,
    }
