"""Record sets as Arrow batches: buffer views over the columns, without a loop over records.

Payloads are not copied. pyarrow is optional and is imported when the first batch is built. One
batch is built per record set, so objects that do not depend on the set are created only once.
"""

import struct
from functools import cache
from typing import TYPE_CHECKING

from .errors import CorruptionError
from .installation import needs_extra
from .record_set import RecordSet

if TYPE_CHECKING:
    import pyarrow as pa

_ALIGNMENT = 8
_I64 = struct.Struct("<q")


class _Arrow:
    """The parts of pyarrow that building a batch needs, imported once."""

    __slots__ = ("batch_of", "binary", "buffer", "column", "invalid_error", "int64", "schema")

    def __init__(self) -> None:
        with needs_extra("an Arrow batch", "arrow"):
            import pyarrow as pa

        self.buffer = pa.py_buffer
        self.column = pa.Array.from_buffers
        self.batch_of = pa.RecordBatch.from_arrays
        self.invalid_error = pa.ArrowInvalid
        self.int64, self.binary = pa.int64(), pa.binary()
        self.schema = pa.schema([("txid", self.int64), ("payload", self.binary)])

    def payloads(self, record_set: RecordSet) -> "pa.Array":
        """Return the payload column over the set's own bytes, with validated offsets.

        Raises CorruptionError.
        """
        buffers = [
            None,
            self.aligned(record_set.offsets_view()),
            self.buffer(record_set.payload_view()),
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

    def aligned(self, view: memoryview) -> "pa.Buffer":
        """Return a buffer over ``view``, or over a copy of it if it is not aligned for Arrow."""
        buffer = self.buffer(view)
        return buffer if buffer.address % _ALIGNMENT == 0 else self.buffer(bytes(view))


@cache
def _arrow() -> _Arrow:
    return _Arrow()


def arrow_batch(
    record_set: RecordSet, *, lssn: int, entry_id: int, with_positions: bool
) -> "pa.RecordBatch":
    """Return a batch with the columns ``txid`` and ``payload``.

    ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, with the names and
    types of the archive. Raises CorruptionError if the offsets do not fit the payload.
    """
    arrow = _arrow()
    columns = [arrow.txids(record_set), arrow.payloads(record_set)]
    if not with_positions:
        return arrow.batch_of(columns, schema=arrow.schema)
    count = record_set.count
    columns += (
        arrow.repeated(lssn, count),
        arrow.repeated(entry_id, count),
        arrow.repeated(record_set.created_ms, count),
        _slots(record_set.slot, count),
    )
    names = ["txid", "payload", "lssn", "entry_id", "created_ms", "slot"]
    return arrow.batch_of(columns, names=names)


def _slots(first: int, count: int) -> "pa.Array":
    """Return ``count`` numbers from ``first`` on, as a slice of a cached array."""
    return _numbers(1 << (first + count).bit_length()).slice(first, count)


@cache
def _numbers(count: int) -> "pa.Array":
    """Return 0, 1, ..., count - 1; callers pass powers of two, so few arrays are cached."""
    import pyarrow as pa

    return pa.array(range(count), pa.int32())
