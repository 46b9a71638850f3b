"""The columns of an archive's part files, and how they are written. Needs only pyarrow.

``record_set`` counts the data record sets of an entry; ``producer`` and ``sequence`` are null where
the producer does not number its records.
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

_REPEATING = ["lssn", "entry_id", "record_set", "created_ms", "producer"]
_ORDERED = ["lssn", "entry_id", "slot", "txid", "created_ms"]


def written_options() -> dict[str, Any]:
    """Settings of the Parquet writer: zstd, checksums by page, statistics where they help."""
    return {
        "compression": "zstd",
        "use_dictionary": _REPEATING,
        "write_statistics": _ORDERED,
        "write_page_index": True,
        "write_page_checksum": True,
    }
