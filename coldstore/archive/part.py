"""Part files: the records of a range of entries as Parquet, open to any tool.

One row a record, sorted by position; row groups end at entry borders, so that a half-open range of
entries is a range of row groups. The columns are those of ``schema``. ``record_set`` is what makes
the content digest computable from rows, and a restore exact. Control records are not archived.
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

from ...core.protocol.errors import CorruptionError
from ...core.protocol.record_set import NO_PRODUCER, RecordSet
from .manifest import Part
from .schema import SCHEMA, written_options

ROW_GROUP_BYTES = 16 << 20
"""A row group is closed at the first entry border at which its payloads reach this."""
ROW_GROUP_RECORDS = 512 * 1024
"""As ROW_GROUP_BYTES, in records."""


@dataclass(slots=True)
class _Columns:
    """The rows of the row group that is being filled, as flat columns."""

    entry_id: "array[int]" = field(default_factory=lambda: array("q"))
    slot: "array[int]" = field(default_factory=lambda: array("i"))
    record_set: "array[int]" = field(default_factory=lambda: array("i"))
    txid: "array[int]" = field(default_factory=lambda: array("q"))
    created_ms: "array[int]" = field(default_factory=lambda: array("q"))
    producer: list[bytes | None] = field(default_factory=list)
    sequence: list[int | None] = field(default_factory=list)
    payload: list[bytes] = field(default_factory=list)
    payload_bytes: int = 0


class PartWriter:
    """Collects entries in order and makes the bytes of one part file of them."""

    def __init__(self, lssn: int) -> None:
        self._lssn = lssn
        self._sink = pa.BufferOutputStream()
        self._writer: Any = pq.ParquetWriter(self._sink, SCHEMA, **written_options())
        self._columns = _Columns()
        self.first_entry_id: int | None = None
        self.last_entry_id = -1
        self.first_txid = self.last_txid = 0
        self.record_count = 0
        self.payload_bytes = 0

    def add(self, entry_id: int, record_sets: list[RecordSet]) -> None:
        """The next entry; its control records are left out."""
        assert entry_id > self.last_entry_id, "entries come in order"
        if self.first_entry_id is None:
            self.first_entry_id = entry_id
        self.last_entry_id = entry_id
        data = [one for one in record_sets if not one.is_control]
        for number, one in enumerate(data):
            self._add_set(entry_id, number, one)
        columns = self._columns
        if columns.payload_bytes >= ROW_GROUP_BYTES or len(columns.payload) >= ROW_GROUP_RECORDS:
            self._end_row_group()

    def _add_set(self, entry_id: int, number: int, one: RecordSet) -> None:
        columns, count = self._columns, one.count
        self.first_txid = self.first_txid or one.first_txid
        self.last_txid = one.last_txid
        payloads = one.payloads()
        columns.entry_id.extend(repeat(entry_id, count))
        columns.slot.extend(range(one.slot, one.slot + count))
        columns.record_set.extend(repeat(number, count))
        columns.txid.extend(one.txids())
        columns.created_ms.extend(repeat(one.created_ms, count))
        if one.producer == NO_PRODUCER:
            columns.producer.extend(repeat(None, count))
            columns.sequence.extend(repeat(None, count))
        else:
            columns.producer.extend(repeat(one.producer, count))
            columns.sequence.extend(range(one.first_sequence, one.first_sequence + count))
        columns.payload.extend(payloads)
        size = len(one.payload_view())
        columns.payload_bytes += size
        self.payload_bytes += size
        self.record_count += count

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
        table = pa.Table.from_arrays(arrays, schema=SCHEMA)
        self._writer.write_table(table, row_group_size=count)
        self._columns = _Columns()

    def finish(self) -> bytes:
        """The file. The writer is used up."""
        self._end_row_group()
        self._writer.close()
        data: bytes = self._sink.getvalue().to_pybytes()
        return data

    def described(self, name: str, data: bytes) -> Part:
        """What the manifest says of the part ``name``; ``data`` is what ``finish`` gave."""
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
        )


def _numbers(kind: "pa.DataType", values: "array[int]") -> "pa.Array[Any]":
    return pa.Array.from_buffers(kind, len(values), [None, pa.py_buffer(values)])


@dataclass(frozen=True, slots=True)
class ArchivedSet:
    """One data record set as it comes back from an archive."""

    entry_id: int
    slot: int
    txids: list[int]
    created_ms: int
    producer: bytes | None
    first_sequence: int | None
    payloads: list[bytes]


def read_part(data: bytes, lssn: int) -> Iterator[ArchivedSet]:
    """The record sets of a part file, in order. Raises CorruptionError for what is not one."""
    try:
        file: Any = pq.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        if not file.schema_arrow.equals(SCHEMA):
            raise CorruptionError(f"archive of segment {lssn}: a part with other columns")
        for group in range(file.num_row_groups):
            yield from _sets_of(file.read_row_group(group), lssn)
    except (pa.ArrowException, OSError) as error:
        raise CorruptionError(f"archive of segment {lssn}: {error}") from error


def _sets_of(table: "pa.Table", lssn: int) -> Iterator[ArchivedSet]:
    if table.num_rows and pc.unique(table.column("lssn")).to_pylist() != [lssn]:
        raise CorruptionError(f"archive of segment {lssn}: rows of other segments")
    for start, end in set_borders(table):
        yield archived_set(table, start, end, lssn)


def set_borders(table: "pa.Table") -> list[tuple[int, int]]:
    """The half-open range of rows of each record set, in order."""
    if not table.num_rows:
        return []
    ends: set[int] = set()
    for name in ("entry_id", "record_set"):
        column = table.column(name).combine_chunks()
        ends.update(pc.run_end_encode(column).run_ends.to_pylist())
    found = sorted(ends)
    return list(zip([0, *found], found, strict=False))


def archived_set(table: "pa.Table", start: int, end: int, lssn: int) -> ArchivedSet:
    """The record set in these rows. Raises CorruptionError when they are not one."""
    rows = table.slice(start, end - start)
    entry_id, first = rows.column("entry_id")[0].as_py(), rows.column("slot")[0].as_py()
    if rows.column("slot").to_pylist() != list(range(first, first + end - start)):
        raise CorruptionError(f"archive of segment {lssn}: slots of entry {entry_id}")
    return ArchivedSet(
        entry_id,
        first,
        rows.column("txid").to_pylist(),
        rows.column("created_ms")[0].as_py(),
        rows.column("producer")[0].as_py(),
        rows.column("sequence")[0].as_py(),
        rows.column("payload").to_pylist(),
    )
