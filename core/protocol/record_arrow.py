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

    array = pa.Array.from_buffers(
        pa.binary(),
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

    view = record_set.txids_view()
    if view is None:
        view = memoryview(_I64.pack(record_set.first_txid) * record_set.count)
    return pa.Array.from_buffers(pa.int64(), record_set.count, [None, _aligned(view)])


def arrow_batch(
    record_set: RecordSet, *, lssn: int, entry_id: int, with_positions: bool
) -> "pa.RecordBatch":
    """Columns ``txid`` and ``payload``.

    ``with_positions`` adds ``lssn``, ``entry_id``, ``slot`` and ``created_ms``, named and typed as
    in the archive. Raises CorruptionError.
    """
    import pyarrow as pa

    columns = {"txid": arrow_txids(record_set), "payload": arrow_payloads(record_set)}
    if with_positions:
        count, slot = record_set.count, record_set.slot
        for name, value in (
            ("lssn", lssn),
            ("entry_id", entry_id),
            ("created_ms", record_set.created_ms),
        ):
            columns[name] = pa.repeat(pa.scalar(value, pa.int64()), count)
        columns["slot"] = _slots(slot, count)
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


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
