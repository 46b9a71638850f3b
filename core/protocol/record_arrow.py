"""Record sets as Arrow batches: buffer views over the columns, without a loop over records.

Payloads are not copied. pyarrow is optional and is imported when the first batch is built. One
batch is built per record set, so objects that do not depend on the set are created only once.
"""

import struct
from functools import cache
from typing import TYPE_CHECKING

from .attributes.attribute_columns import Strings
from .errors import CorruptionError
from .installation import needs_extra
from .record_set import RecordSet

if TYPE_CHECKING:
    import pyarrow as pa

_ALIGNMENT = 8
_I64 = struct.Struct("<q")


class _Arrow:
    """The parts of pyarrow that building a batch needs, imported once."""

    __slots__ = (
        "batch_of",
        "binary",
        "buffer",
        "column",
        "headers",
        "int64",
        "invalid_error",
        "nulls",
        "pair_fields",
        "schema",
        "string",
        "struct_of",
    )

    def __init__(self) -> None:
        with needs_extra("an Arrow batch", "arrow"):
            import pyarrow as pa

        self.buffer = pa.py_buffer
        self.column = pa.Array.from_buffers
        self.batch_of = pa.RecordBatch.from_arrays
        self.invalid_error = pa.ArrowInvalid
        self.nulls = pa.nulls
        self.struct_of = pa.StructArray.from_arrays
        self.int64, self.binary, self.string = pa.int64(), pa.binary(), pa.string()
        self.headers = pa.map_(self.string, self.binary)
        self.pair_fields = [self.headers.key_field, self.headers.item_field]
        self.schema = pa.schema([("txid", self.int64), ("payload", self.binary)])

    def payloads(self, record_set: RecordSet) -> "pa.Array":
        """Return the payload column over the set's own bytes, with validated offsets.

        Raises CorruptionError.
        """
        buffers = [
            None,
            self.aligned(record_set.offsets_view()),
            self.buffer(record_set.payload_buffer()),
        ]
        try:
            column = self.column(self.binary, record_set.count, buffers)
            column.validate(full=True)
        except self.invalid_error as error:
            raise CorruptionError(f"record set: {error}") from error
        return column

    def txids(self, record_set: RecordSet) -> "pa.Array":
        """Return the txid column: over the set's own bytes, or built from its single txid."""
        view = record_set.txids_view()
        if view is None:
            return self.repeated(record_set.first_txid, record_set.count)
        return self.column(self.int64, record_set.count, [None, self.aligned(view)])

    def repeated(self, value: int, count: int) -> "pa.Array":
        """Return a column of ``count`` equal int64 values."""
        return self.column(self.int64, count, [None, self.buffer(_I64.pack(value) * count)])

    def attributes(self, record_set: RecordSet) -> "list[pa.Array]":
        """Return the columns ``key``, ``headers`` and ``event_time``, null where a record has none.

        Raises CorruptionError.
        """
        found, count = record_set.attributes, record_set.count
        if found is None:
            return [
                self.nulls(count, self.binary),
                self.nulls(count, self.headers),
                self.nulls(count, self.int64),
            ]
        keys, headers, times = found.key_views(), found.header_views(), found.event_time_views()
        columns = [
            self.nulls(count, self.binary)
            if keys is None
            else self.column(self.binary, count, [self.bitmap(keys[0]), *self.strings(keys[1])]),
            self.nulls(count, self.headers) if headers is None else self.pairs(count, *headers),
            self.nulls(count, self.int64)
            if times is None
            else self.column(self.int64, count, [self.bitmap(times[0]), self.aligned(times[1])]),
        ]
        try:
            for column in columns:
                column.validate(full=True)
        except self.invalid_error as error:
            raise CorruptionError(f"record set: {error}") from error
        return columns

    def pairs(
        self,
        count: int,
        bitmap: memoryview | None,
        firsts: memoryview,
        names: Strings,
        values: Strings,
    ) -> "pa.Array":
        """Return the column of headers, not validated."""
        children = [
            self.column(self.string, names.count, [None, *self.strings(names)]),
            self.column(self.binary, values.count, [None, *self.strings(values)]),
        ]
        entries = self.struct_of(children, fields=self.pair_fields)
        return self.column(
            self.headers, count, [self.bitmap(bitmap), self.aligned(firsts)], children=[entries]
        )

    def strings(self, strings: Strings) -> "list[pa.Buffer]":
        """Return the buffers of a block of strings: offsets and bytes."""
        return [self.aligned(strings.offsets), self.buffer(strings.blob)]

    def bitmap(self, bitmap: memoryview | None) -> "pa.Buffer | None":
        """Return the buffer of a bitmap, if there is one."""
        return None if bitmap is None else self.aligned(bitmap)

    def aligned(self, view: memoryview) -> "pa.Buffer":
        """Return a buffer over ``view``, or over a copy of it if it is not aligned for Arrow."""
        buffer = self.buffer(view)
        return buffer if buffer.address % _ALIGNMENT == 0 else self.buffer(bytes(view))


@cache
def _arrow() -> _Arrow:
    return _Arrow()


def arrow_batch(
    record_set: RecordSet,
    *,
    lssn: int,
    entry_id: int,
    with_positions: bool,
    with_attributes: bool = False,
) -> "pa.RecordBatch":
    """Return a batch with the columns ``txid`` and ``payload``.

    ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, ``with_attributes``
    adds ``key``, ``headers`` and ``event_time`` (null where a record has none), with the names and
    types of the archive. Raises CorruptionError if the offsets do not fit the payload.
    """
    arrow = _arrow()
    columns = [arrow.txids(record_set), arrow.payloads(record_set)]
    if not with_positions and not with_attributes:
        return arrow.batch_of(columns, schema=arrow.schema)
    names = ["txid", "payload"]
    if with_positions:
        count = record_set.count
        columns += (
            arrow.repeated(lssn, count),
            arrow.repeated(entry_id, count),
            arrow.repeated(record_set.created_ms, count),
            _slots(record_set.slot, count),
        )
        names += ("lssn", "entry_id", "created_ms", "slot")
    if with_attributes:
        columns += arrow.attributes(record_set)
        names += ("key", "headers", "event_time")
    return arrow.batch_of(columns, names=names)


def _slots(first: int, count: int) -> "pa.Array":
    """Return ``count`` numbers from ``first`` on, as a slice of a cached array."""
    return _numbers(1 << (first + count).bit_length()).slice(first, count)


@cache
def _numbers(count: int) -> "pa.Array":
    """Return 0, 1, ..., count - 1; callers pass powers of two, so few arrays are cached."""
    import pyarrow as pa

    return pa.array(range(count), pa.int32())
