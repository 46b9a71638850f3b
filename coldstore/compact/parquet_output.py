"""Builds a Parquet file in memory, and describes the row groups of each of its segments."""

import hashlib
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..archive.manifest import Part
from ..archive.part_file import chunk_crcs_of, footer_of
from ..archive.schema import SCHEMA, PartOrigin, parquet_writer_options


@dataclass(slots=True)
class _SegmentGroups:
    """The row groups of one segment."""

    first: int
    entries: tuple[int, int]
    txids: tuple[int, int]
    groups: int = 0
    records: int = 0
    payload_bytes: int = 0


class ParquetOutput:
    """A new file with row groups of one or more segments."""

    def __init__(self, origin: PartOrigin) -> None:
        """``origin`` is the first segment."""
        self._sink = pa.BufferOutputStream()
        self._writer: Any = pq.ParquetWriter(self._sink, SCHEMA, **parquet_writer_options())
        self._writer.add_key_value_metadata(origin.file_metadata())
        self._segments: dict[int, _SegmentGroups] = {}
        self._groups = 0

    @property
    def size_bytes(self) -> int:
        """The size of the row groups so far."""
        return int(self._sink.tell())

    def add(self, lssn: int, table: "pa.Table") -> None:
        """Add a row group of segment ``lssn``; those of a segment follow one another."""
        entries, txids = (_ends(table, name) for name in ("entry_id", "txid"))
        one = self._segments.setdefault(lssn, _SegmentGroups(self._groups, entries, txids))
        one.entries, one.txids = (one.entries[0], entries[1]), (one.txids[0], txids[1])
        one.groups += 1
        one.records += table.num_rows
        one.payload_bytes += pc.sum(pc.binary_length(table.column("payload"))).as_py()
        self._writer.write_table(table, row_group_size=table.num_rows)
        self._groups += 1

    def finish(self, name: str) -> tuple[bytes, dict[int, Part]]:
        """Return the bytes of the file, and the part of each segment by LSSN."""
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        crcs = chunk_crcs_of(data)
        width = len(crcs) // self._groups
        digests = hashlib.sha256(data).hexdigest(), hashlib.sha256(footer_of(data)).hexdigest()
        return data, {
            lssn: Part(
                name,
                *one.entries,
                *one.txids,
                one.records,
                one.payload_bytes,
                len(data),
                *digests,
                crcs[one.first * width : (one.first + one.groups) * width],
                one.first,
                one.groups,
            )
            for lssn, one in self._segments.items()
        }


def _ends(table: "pa.Table", name: str) -> tuple[int, int]:
    """Return the first and the last value of a column."""
    column = table.column(name)
    return column[0].as_py(), column[-1].as_py()
