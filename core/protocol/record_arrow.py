"""Record sets as Arrow: buffer views over the columns, no loop over records, no copy of payloads.

pyarrow is optional and imported only when a view is asked for.
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


def arrow_payloads(record_set: RecordSet) -> "pa.Array":
    """The payloads as a binary array over the set's own bytes.

    Raises CorruptionError when the offsets do not fit (checked before anything follows them).
    """
    import pyarrow as pa

    _, binary, _ = _types()
    array = pa.Array.from_buffers(
        binary,
        record_set.count,
        [None, _aligned(record_set.offsets_view()), pa.py_buffer(record_set.payload_view())],
    )
    try:
        array.validate(full=True)
    except pa.ArrowInvalid as error:
        raise CorruptionError(f"record set: {error}") from error
    return array


def arrow_txids(record_set: RecordSet) -> "pa.Array":
    """The txids as an int64 array."""
    import pyarrow as pa

    int64, _, _ = _types()
    count, view = record_set.count, record_set.txids_view()
    if view is None:
        buffer = pa.py_buffer(_I64.pack(record_set.first_txid) * count)
    else:
        buffer = _aligned(view)
    return pa.Array.from_buffers(int64, count, [None, buffer])


def arrow_batch(
    record_set: RecordSet, *, lssn: int, entry_id: int, with_positions: bool
) -> "pa.RecordBatch":
    """Columns ``txid`` and ``payload``.

    ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, named and typed as
    in the archive. Raises CorruptionError.
    """
    import pyarrow as pa

    int64, _, schema = _types()
    arrays = [arrow_txids(record_set), arrow_payloads(record_set)]
    if not with_positions:
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    columns = dict(zip(schema.names, arrays, strict=True))
    count, slot = record_set.count, record_set.slot
    for name, value in (
        ("lssn", lssn),
        ("entry_id", entry_id),
        ("created_ms", record_set.created_ms),
    ):
        columns[name] = pa.repeat(pa.scalar(value, int64), count)
    columns["slot"] = _slots(slot, count)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


@cache
def _types() -> "tuple[pa.DataType, pa.DataType, pa.Schema]":
    """int64, binary, and the schema of txids and payloads; making them anew takes its time."""
    import pyarrow as pa

    int64, binary = pa.int64(), pa.binary()
    return int64, binary, pa.schema([("txid", int64), ("payload", binary)])


def _slots(first: int, count: int) -> "pa.Array":
    """``count`` numbers from ``first`` on: a slice of ones that were made before."""
    return _numbers(1 << (first + count).bit_length()).slice(first, count)


@cache
def _numbers(count: int) -> "pa.Array":
    """0, 1, 2, ...; asked for in powers of two."""
    import pyarrow as pa

    return pa.array(range(count), pa.int32())


def _aligned(view: memoryview) -> "pa.Buffer":
    """A buffer over ``view``, or over a copy when it lies where Arrow does not want it."""
    import pyarrow as pa

    buffer = pa.py_buffer(view)
    return buffer if buffer.address % _ALIGNMENT == 0 else pa.py_buffer(bytes(view))
