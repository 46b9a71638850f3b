"""Record sets as Arrow: buffer views over the columns, no loop over records, no copy of payloads.

pyarrow is optional and imported only when a view is asked for. A batch is made for each record set,
so what does not depend on the set is made once.
"""

import struct
from functools import cache
from typing import TYPE_CHECKING

from .errors import CorruptionError
from .record_set import RecordSet

if TYPE_CHECKING:
    import pyarrow as pa

_ALIGNMENT = 8
_I64 = struct.Struct("<q")


class _Arrow:
    """What is needed of pyarrow."""

    __slots__ = ("batch_of", "binary", "buffer", "column", "fault", "int64", "schema")

    def __init__(self) -> None:
        import pyarrow as pa

        self.buffer = pa.py_buffer
        self.column = pa.Array.from_buffers
        self.batch_of = pa.RecordBatch.from_arrays
        self.fault = pa.ArrowInvalid
        self.int64, self.binary = pa.int64(), pa.binary()
        self.schema = pa.schema([("txid", self.int64), ("payload", self.binary)])

    def payloads(self, record_set: RecordSet) -> "pa.Array":
        """Over the set's own bytes. Raises CorruptionError before anything follows its offsets."""
        buffers = [
            None,
            self.aligned(record_set.offsets_view()),
            self.buffer(record_set.payload_view()),
        ]
        try:
            column = self.column(self.binary, record_set.count, buffers)
            column.validate(full=True)
        except self.fault as error:
            raise CorruptionError(f"record set: {error}") from error
        return column

    def txids(self, record_set: RecordSet) -> "pa.Array":
        """Over the set's own bytes, or made from the one txid that all have."""
        view = record_set.txids_view()
        if view is None:
            return self.repeated(record_set.first_txid, record_set.count)
        return self.column(self.int64, record_set.count, [None, self.aligned(view)])

    def repeated(self, value: int, count: int) -> "pa.Array":
        """``count`` times the same int64."""
        return self.column(self.int64, count, [None, self.buffer(_I64.pack(value) * count)])

    def aligned(self, view: memoryview) -> "pa.Buffer":
        """A buffer over ``view``, or over a copy when it lies where Arrow does not want it."""
        buffer = self.buffer(view)
        return buffer if buffer.address % _ALIGNMENT == 0 else self.buffer(bytes(view))


@cache
def _arrow() -> _Arrow:
    return _Arrow()


def arrow_batch(
    record_set: RecordSet, *, lssn: int, entry_id: int, with_positions: bool
) -> "pa.RecordBatch":
    """Columns ``txid`` and ``payload``.

    ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, named and typed as
    in the archive. Raises CorruptionError when the offsets do not fit.
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
    """``count`` numbers from ``first`` on: a slice of ones that were made before."""
    return _numbers(1 << (first + count).bit_length()).slice(first, count)


@cache
def _numbers(count: int) -> "pa.Array":
    """0, 1, 2, ...; asked for in powers of two."""
    import pyarrow as pa

    return pa.array(range(count), pa.int32())
