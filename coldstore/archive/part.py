"""Part files: the records of a range of entries as Parquet, readable by any Parquet reader.

A part has one row for each record, sorted by position. Row groups end at entry boundaries, so a
half-open range of entries maps to a range of row groups. The columns are those of ``schema``; the
column ``record_set`` makes it possible to compute the content digest from rows and to rebuild
entries exactly. Control records are not archived.
"""

import hashlib
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate, repeat
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.protocol.attributes.attribute_columns import AttributeBuilder, attribute_builder
from ...core.protocol.attributes.attribute_values import Attributes
from ...core.protocol.errors import CorruptionError
from ...core.protocol.record_set import NO_PRODUCER, RecordSet
from .manifest import Part
from .part_file import footer_of
from .schema import (
    ATTRIBUTES,
    SCHEMA,
    SCHEMA_WITH_ATTRIBUTES,
    parquet_writer_options,
    part_schema,
)

ROW_GROUP_BYTES = 16 << 20
"""A row group ends at the first entry boundary at which its payloads reach this size."""
ROW_GROUP_RECORDS = 512 * 1024
"""A row group also ends at the first entry boundary at which it holds this many records."""


@dataclass(slots=True)
class _Columns:
    """The rows of the current row group, as flat columns."""

    entry_id: "array[int]" = field(default_factory=lambda: array("q"))
    slot: "array[int]" = field(default_factory=lambda: array("i"))
    record_set: "array[int]" = field(default_factory=lambda: array("i"))
    txid: "array[int]" = field(default_factory=lambda: array("q"))
    created_ms: "array[int]" = field(default_factory=lambda: array("q"))
    producer: list[bytes | None] = field(default_factory=list)
    sequence: list[int | None] = field(default_factory=list)
    payload: list[bytes] = field(default_factory=list)
    key: list[bytes | None] = field(default_factory=list)
    event_time: list[int | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes]] | None] = field(default_factory=list)
    payload_bytes: int = 0


class PartWriter:
    """Builds the bytes of one part file from entries that are added in order.

    Entries with attributes are added only to a part that has the columns for them.
    """

    def __init__(self, lssn: int, *, has_attributes: bool = False) -> None:
        self.has_attributes = has_attributes
        self._lssn = lssn
        self._sink = pa.BufferOutputStream()
        self._schema = part_schema(has_attributes=has_attributes)
        self._writer: Any = pq.ParquetWriter(self._sink, self._schema, **parquet_writer_options())
        self._columns = _Columns()
        self.first_entry_id: int | None = None
        self.last_entry_id = -1
        self.first_txid = self.last_txid = 0
        self.record_count = 0
        self.payload_bytes = 0

    def add(self, entry_id: int, record_sets: list[RecordSet]) -> None:
        """Add the next entry without its control records."""
        assert entry_id > self.last_entry_id, (
            f"entry {entry_id} was added after entry {self.last_entry_id}"
        )
        if self.first_entry_id is None:
            self.first_entry_id = entry_id
        self.last_entry_id = entry_id
        data_sets = [record_set for record_set in record_sets if not record_set.is_control]
        for number, record_set in enumerate(data_sets):
            self._add_set(entry_id, number, record_set)
        columns = self._columns
        if columns.payload_bytes >= ROW_GROUP_BYTES or len(columns.payload) >= ROW_GROUP_RECORDS:
            self._end_row_group()

    def _add_set(self, entry_id: int, number: int, record_set: RecordSet) -> None:
        columns, count = self._columns, record_set.count
        self.first_txid = self.first_txid or record_set.first_txid
        self.last_txid = record_set.last_txid
        payloads = record_set.payloads()
        columns.entry_id.extend(repeat(entry_id, count))
        columns.slot.extend(range(record_set.slot, record_set.slot + count))
        columns.record_set.extend(repeat(number, count))
        columns.txid.extend(record_set.txids())
        columns.created_ms.extend(repeat(record_set.created_ms, count))
        if record_set.producer == NO_PRODUCER:
            columns.producer.extend(repeat(None, count))
            columns.sequence.extend(repeat(None, count))
        else:
            columns.producer.extend(repeat(record_set.producer, count))
            columns.sequence.extend(
                range(record_set.first_sequence, record_set.first_sequence + count)
            )
        columns.payload.extend(payloads)
        self._add_attributes(record_set)
        size = len(record_set.payload_view())
        columns.payload_bytes += size
        self.payload_bytes += size
        self.record_count += count

    def _add_attributes(self, record_set: RecordSet) -> None:
        columns, found = self._columns, record_set.attributes
        if not self.has_attributes:
            assert found is None, "the part has no columns for attributes"
        elif found is None:
            none = [None] * record_set.count
            columns.key.extend(none)
            columns.event_time.extend(none)
            columns.headers.extend(none)
        else:
            columns.key.extend(found.keys())
            columns.event_time.extend(found.event_times())
            columns.headers.extend(list(one.items()) or None for one in found.headers())

    def _end_row_group(self) -> None:
        columns = self._columns
        count = len(columns.payload)
        if not count:
            return
        offsets = array("i", accumulate(map(len, columns.payload), initial=0))
        payload = pa.Array.from_buffers(
            pa.binary(),
            count,
            [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(columns.payload))],
        )
        arrays = [
            pa.repeat(pa.scalar(self._lssn, pa.int64()), count),
            _numbers(pa.int64(), columns.entry_id),
            _numbers(pa.int32(), columns.slot),
            _numbers(pa.int32(), columns.record_set),
            _numbers(pa.int64(), columns.txid),
            _numbers(pa.int64(), columns.created_ms),
            pa.array(columns.producer, pa.binary(16)),
            pa.array(columns.sequence, pa.int64()),
            payload,
        ]
        if self.has_attributes:
            values = (columns.key, columns.event_time, columns.headers)
            arrays += [
                pa.array(one, kind.type) for one, kind in zip(values, ATTRIBUTES, strict=True)
            ]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        self._writer.write_table(table, row_group_size=count)
        self._columns = _Columns()

    def finish(self) -> bytes:
        """Return the bytes of the file. The writer cannot be used afterwards."""
        self._end_row_group()
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return data

    def describe(self, name: str, data: bytes) -> Part:
        """Return the manifest's description of the part; ``data`` is the result of ``finish``."""
        assert self.first_entry_id is not None
        return Part(
            name,
            self.first_entry_id,
            self.last_entry_id,
            self.first_txid,
            self.last_txid,
            self.record_count,
            self.payload_bytes,
            len(data),
            hashlib.sha256(data).hexdigest(),
            hashlib.sha256(footer_of(data)).hexdigest(),
            self.has_attributes,
        )


def _numbers(kind: "pa.DataType", values: "array[int]") -> "pa.Array[Any]":
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


@dataclass(frozen=True, slots=True)
class ArchivedSet:
    """One data record set that was read from an archive."""

    entry_id: int
    slot: int
    txids: list[int]
    created_ms: int
    producer: bytes | None
    first_sequence: int | None
    payloads: list[bytes]
    attributes: AttributeBuilder | None


def read_part(data: bytes, lssn: int) -> Iterator[ArchivedSet]:
    """Yield the record sets of a part file, in order. Raises CorruptionError if it is damaged."""
    try:
        file: Any = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        if not any(file.schema_arrow.equals(known) for known in (SCHEMA, SCHEMA_WITH_ATTRIBUTES)):
            raise CorruptionError(
                f"archive of segment {lssn}: a part has the columns {file.schema_arrow.names}, not "
                f"{SCHEMA.names} with their types"
            )
        for group in range(file.num_row_groups):
            yield from _sets_of(file.read_row_group(group), lssn)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"archive of segment {lssn}: {error}") from error


def _sets_of(table: "pa.Table", lssn: int) -> Iterator[ArchivedSet]:
    found = pc.unique(table.column("lssn")).to_pylist()
    if table.num_rows and found != [lssn]:
        raise CorruptionError(f"archive of segment {lssn}: a part has rows of segments {found}")
    for start, end in record_set_ranges(table):
        yield record_set_of_rows(table, start, end, lssn)


def record_set_ranges(table: "pa.Table") -> list[tuple[int, int]]:
    """Return the half-open range of rows of each record set, in order."""
    if not table.num_rows:
        return []
    ends: set[int] = set()
    for name in ("entry_id", "record_set"):
        column = table.column(name).combine_chunks()
        ends.update(pc.run_end_encode(column).run_ends.to_pylist())
    found = sorted(ends)
    return list(zip([0, *found], found, strict=False))


def record_set_of_rows(table: "pa.Table", start: int, end: int, lssn: int) -> ArchivedSet:
    """Return the record set in rows [start, end). Raises CorruptionError if slots are missing."""
    rows = table.slice(start, end - start)
    entry_id, first = rows.column("entry_id")[0].as_py(), rows.column("slot")[0].as_py()
    if rows.column("slot").to_pylist() != list(range(first, first + end - start)):
        raise CorruptionError(
            f"archive of segment {lssn}: the slots of entry {entry_id} are not consecutive"
        )
    return ArchivedSet(
        entry_id,
        first,
        rows.column("txid").to_pylist(),
        rows.column("created_ms")[0].as_py(),
        rows.column("producer")[0].as_py(),
        rows.column("sequence")[0].as_py(),
        rows.column("payload").to_pylist(),
        _attributes_of(rows),
    )


def _attributes_of(rows: "pa.Table") -> AttributeBuilder | None:
    if "key" not in rows.column_names:
        return None
    columns = [rows.column(name) for name in ("key", "headers", "event_time")]
    if all(column.null_count == rows.num_rows for column in columns):
        return None
    keys, headers, times = (column.to_pylist() for column in columns)
    return attribute_builder(
        Attributes(key, None if pairs is None else dict(pairs), time)
        for key, pairs, time in zip(keys, headers, times, strict=True)
    )
