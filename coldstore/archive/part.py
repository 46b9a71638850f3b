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
from ...core.protocol.attributes.attribute_values import EVENT_TIME_MAX, EVENT_TIME_MIN, Attributes
from ...core.protocol.errors import CorruptionError
from ...core.protocol.record_set import NO_PRODUCER, RecordSet
from .manifest import Part
from .part_file import chunk_crcs_of, footer_of
from .schema import (
    MICROSECONDS_PER_MS,
    SCHEMA,
    TIMESTAMP,
    PartOrigin,
    parquet_writer_options,
)

ROW_GROUP_RECORDS = 512 * 1024
"""A row group ends at the first entry boundary at which it holds this many records."""


@dataclass(slots=True)
class _Columns:
    """The rows of the current row group, as flat columns."""

    entry_id: "array[int]" = field(default_factory=lambda: array("q"))
    slot: "array[int]" = field(default_factory=lambda: array("i"))
    record_set: "array[int]" = field(default_factory=lambda: array("i"))
    txid: "array[int]" = field(default_factory=lambda: array("q"))
    created: "array[int]" = field(default_factory=lambda: array("q"))
    producer: list[bytes | None] = field(default_factory=list)
    sequence: list[int | None] = field(default_factory=list)
    payload: list[bytes] = field(default_factory=list)
    key: list[bytes | None] = field(default_factory=list)
    event_time: list[int | None] = field(default_factory=list)
    headers: list[list[tuple[str, bytes]] | None] = field(default_factory=list)
    record_bytes: int = 0
    """Size of payloads and attributes."""


class PartWriter:
    """Builds the bytes of one part file from entries that are added in order."""

    def __init__(self, origin: PartOrigin, row_group_bytes: int) -> None:
        """A row group ends at the first entry boundary at which it has this size.

        Payloads and attributes count, before compression.
        """
        self._lssn = origin.lssn
        self._row_group_bytes = row_group_bytes
        self._sink = pa.BufferOutputStream()
        self._writer: Any = pq.ParquetWriter(self._sink, SCHEMA, **parquet_writer_options())
        self._writer.add_key_value_metadata(origin.file_metadata())
        self._columns = _Columns()
        self.first_entry_id: int | None = None
        self.last_entry_id = -1
        self.first_txid = self.last_txid = 0
        self.record_count = 0
        self.payload_bytes = 0

    def add(self, entry_id: int, record_sets: list[RecordSet]) -> None:
        """Add the next entry without its control records.

        Raises CorruptionError for a creation time that Parquet readers cannot show.
        """
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
        has_size = columns.record_bytes >= self._row_group_bytes
        if has_size or len(columns.payload) >= ROW_GROUP_RECORDS:
            self._end_row_group()

    def _add_set(self, entry_id: int, number: int, record_set: RecordSet) -> None:
        columns, count = self._columns, record_set.count
        if not EVENT_TIME_MIN <= record_set.created_ms <= EVENT_TIME_MAX:
            raise CorruptionError(
                f"entry {entry_id} of segment {self._lssn} was made at {record_set.created_ms} ms, "
                "which is not between the years 1 and 9999"
            )
        self.first_txid = self.first_txid or record_set.first_txid
        self.last_txid = record_set.last_txid
        payloads = record_set.payloads()
        columns.entry_id.extend(repeat(entry_id, count))
        columns.slot.extend(range(record_set.slot, record_set.slot + count))
        columns.record_set.extend(repeat(number, count))
        columns.txid.extend(record_set.txids())
        columns.created.extend(repeat(record_set.created_ms * MICROSECONDS_PER_MS, count))
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
        columns.record_bytes += record_set.payload_bytes + record_set.attribute_bytes
        self.payload_bytes += record_set.payload_bytes
        self.record_count += count

    def _add_attributes(self, record_set: RecordSet) -> None:
        columns, found = self._columns, record_set.attributes
        if found is None:
            none = [None] * record_set.count
            columns.key.extend(none)
            columns.event_time.extend(none)
            columns.headers.extend(none)
        else:
            columns.key.extend(found.keys())
            columns.event_time.extend(
                None if ms is None else ms * MICROSECONDS_PER_MS for ms in found.event_times()
            )
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
            _numbers(TIMESTAMP, columns.created),
            pa.array(columns.producer, pa.binary(16)),
            pa.array(columns.sequence, pa.int64()),
            payload,
            pa.array(columns.key, pa.binary()),
            pa.array(columns.event_time, TIMESTAMP),
            pa.array(columns.headers, SCHEMA.field("headers").type),
        ]
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        self._writer.write_table(table, row_group_size=count)
        self._columns = _Columns()

    @property
    def stored_bytes(self) -> int:
        """The size of the complete row groups, compressed."""
        return int(self._sink.tell())

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
            chunk_crcs_of(data),
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


def read_part(data: bytes, lssn: int, *, has_gaps: bool = False) -> Iterator[ArchivedSet]:
    """Yield the record sets of a part file, in order, as ``sets_of``. Raises CorruptionError."""
    try:
        file: Any = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        if not file.schema_arrow.equals(SCHEMA):
            raise CorruptionError(
                f"archive of segment {lssn}: a part has the columns {file.schema_arrow.names}, not "
                f"{SCHEMA.names} with their types"
            )
        for group in range(file.num_row_groups):
            yield from sets_of(file.read_row_group(group), lssn, has_gaps=has_gaps)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"archive of segment {lssn}: {error}") from error


def sets_of(table: "pa.Table", lssn: int, *, has_gaps: bool = False) -> Iterator[ArchivedSet]:
    """Yield the record sets of a row group, or with ``has_gaps`` the runs that are left of them.

    Raises CorruptionError for rows of other segments.
    """
    found = pc.unique(table.column("lssn")).to_pylist()
    if table.num_rows and found != [lssn]:
        raise CorruptionError(f"archive of segment {lssn}: a part has rows of segments {found}")
    for start, end in record_set_ranges(table, has_gaps=has_gaps):
        yield record_set_of_rows(table, start, end, lssn)


def record_set_ranges(table: "pa.Table", *, has_gaps: bool = False) -> list[tuple[int, int]]:
    """Return the half-open range of rows of each record set, in order.

    With ``has_gaps``, because records were erased, those of runs of consecutive slots.
    """
    if not table.num_rows:
        return []
    ends: set[int] = set()
    columns = [table.column(name).combine_chunks() for name in ("entry_id", "record_set")]
    if has_gaps:
        rows = pa.arange(0, table.num_rows)  # a scalar would import pandas
        columns.append(pc.subtract(table.column("slot").combine_chunks(), rows))
    for column in columns:
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
        _milliseconds(rows.column("created").slice(0, 1))[0],
        rows.column("producer")[0].as_py(),
        rows.column("sequence")[0].as_py(),
        rows.column("payload").to_pylist(),
        attributes_of(rows),
    )


def attributes_of(rows: "pa.Table") -> AttributeBuilder | None:
    """Return keys, headers and event times of rows; None if no record has any."""
    columns = [rows.column(name) for name in ("key", "headers", "event_time")]
    if all(column.null_count == rows.num_rows for column in columns):
        return None
    keys, headers = (column.to_pylist() for column in columns[:2])
    times = _milliseconds(columns[2])
    return attribute_builder(
        Attributes(key, None if pairs is None else dict(pairs), time)
        for key, pairs, time in zip(keys, headers, times, strict=True)
    )


def _milliseconds(times: "pa.ChunkedArray[Any]") -> list[Any]:
    """Return the times of a column as milliseconds since the Unix epoch, which they hold."""
    found = pc.cast(times, pa.int64()).to_pylist()
    return [None if time is None else time // MICROSECONDS_PER_MS for time in found]
