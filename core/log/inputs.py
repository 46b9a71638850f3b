"""What applications hand in: made bytes, and cut into what one entry takes."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from ..protocol.errors import InvalidArgumentError
from .batch import RECORD_OVERHEAD_BYTES


def as_bytes(payload: object) -> bytes:
    """A payload as bytes. Raises InvalidArgumentError for what is none."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise InvalidArgumentError(f"a record is bytes, not {type(payload).__name__}")


def cut(payloads: Sequence[bytes], size_max: int) -> Iterator[tuple[int, int, int]]:
    """Cuts into runs of at most ``size_max`` bytes, overhead included: (first, stop, size) each.

    A record that is larger alone makes a run of its own.
    """
    ends = list(accumulate(map(len, payloads), initial=0))

    def size_up_to(index: int) -> int:
        return ends[index] + index * RECORD_OVERHEAD_BYTES

    count = len(payloads)
    first = 0
    while first < count:
        before = size_up_to(first)
        stop = bisect_right(range(count + 1), before + size_max, first, key=size_up_to) - 1
        stop = max(first + 1, stop)
        yield first, stop, size_up_to(stop) - before
        first = stop
