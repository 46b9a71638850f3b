"""Checks of the records that applications append, and their split into batches (rule STR-14)."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple, cast

from ...protocol.attributes.attribute_values import Attributes
from ...protocol.errors import InvalidArgumentError, RecordTooLargeError, TxidOutOfOrderError
from ...protocol.record_set import (
    ENTRY_BYTES_MAX,
    NO_PRODUCER,
    TXID_FIRST,
    TXID_LAST,
    RecordSet,
    decode_entry,
)
from ..policy import FLUSH_BYTES_MAX
from .batch import RECORD_OVERHEAD_BYTES

SET_BYTES_MAX = ENTRY_BYTES_MAX - FLUSH_BYTES_MAX
"""Maximum bytes of a record set of a remote producer.

A set of this size fits an entry together with the sets that an entry gathers before it.
"""


TIME_TXID_MIN = 1 << 40
"""Lowest txid that can be a time of day, in ms: a day in November 2004."""


def as_bytes(payload: object) -> bytes:
    """Return a payload as bytes. Raises InvalidArgumentError if it is not bytes-like."""
    if isinstance(payload, bytes | bytearray | memoryview):
        return bytes(payload)
    raise InvalidArgumentError(f"a record must be bytes, not {type(payload).__name__}")


def check_sequence(name: str, values: object) -> None:
    """Raise InvalidArgumentError unless ``values`` is a list, or another sequence."""
    if values.__class__ is not list and not isinstance(values, Sequence):
        raise InvalidArgumentError(f"{name} is a list, not {type(values).__name__}")


def too_large(size: int, size_max: int) -> RecordTooLargeError:
    """Return the error for a record of ``size`` bytes."""
    return RecordTooLargeError(f"a record of {size} bytes is above the limit of {size_max} bytes")


def default_txid(last_txid: int, now_ms: int) -> int:
    """Return the txid of a record without one: the time of day, or the last txid if it is higher.

    An application that numbers its records itself uses numbers that are no times of day. A record
    without a txid, appended by hand for example, then gets the last number: the time of day would
    be above all numbers that follow (rule STR-14).
    """
    if 0 < last_txid < TIME_TXID_MIN <= now_ms:
        return last_txid
    return max(last_txid, now_ms, TXID_FIRST)


def check_txid(stream: str, txid: object, before: int) -> int:
    """Return the txid. Raises InvalidArgumentError, TxidOutOfOrderError (below ``before``)."""
    if type(txid) is not int or not TXID_FIRST <= txid <= TXID_LAST:
        raise InvalidArgumentError(f"txid {txid!r} is not between {TXID_FIRST} and {TXID_LAST}")
    if txid < before:
        text = f"stream {stream}: txid {txid} is below {before}"
        if txid < TIME_TXID_MIN <= before:
            text += ", the time of day in ms of an earlier record that was appended without a txid"
        raise TxidOutOfOrderError(text)
    return txid


def check_txids(stream: str, txids: Sequence[object], count: int, before: int) -> None:
    """Check the txids of ``count`` records as ``check_txid`` does."""
    check_sequence("txids", txids)
    if len(txids) != count:
        raise InvalidArgumentError(f"got {len(txids)} txids for {count} records")
    for txid in txids:
        before = check_txid(stream, txid, before)


def check_attributes(
    count: int, keys: object, headers: object, event_times: object
) -> list[Attributes] | None:
    """Return the attributes of ``count`` records, each of them a list or None; None if all are.

    Raises InvalidArgumentError and RecordTooLargeError.
    """
    if keys is None and headers is None and event_times is None:
        return None
    columns: list[Sequence[object]] = []
    for name, values in (("keys", keys), ("headers", headers), ("event_times", event_times)):
        if values is None:
            columns.append([None] * count)
            continue
        check_sequence(name, values)
        assert isinstance(values, Sequence)
        if len(values) != count:
            raise InvalidArgumentError(f"got {len(values)} {name} for {count} records")
        columns.append(values)
    return [Attributes(*row) for row in zip(*columns, strict=True)]


class CheckedRecords(NamedTuple):
    """The records of one call, and the bytes that they need."""

    payloads: Sequence[bytes]
    attributes: list[Attributes] | None
    size: int


def check_records(
    payloads: Sequence[object],
    record_bytes_max: int,
    *,
    keys: object,
    headers: object,
    event_times: object,
) -> CheckedRecords:
    """Check the payloads and attributes of ``append_many``.

    Raises InvalidArgumentError, RecordTooLargeError.
    """
    check_sequence("payloads", payloads)
    count = len(payloads)
    if count == 0:
        raise InvalidArgumentError("append_many needs at least one record")
    if set(map(type, payloads)) == {bytes}:
        records = cast("Sequence[bytes]", payloads)
    else:
        records = [as_bytes(payload) for payload in payloads]
    total = sum(map(len, records))
    if total > record_bytes_max and max(map(len, records)) > record_bytes_max:
        raise too_large(max(map(len, records)), record_bytes_max)
    attributes = check_attributes(count, keys, headers, event_times)
    if attributes is not None:
        for one in attributes:
            total += one.size
    return CheckedRecords(records, attributes, total + count * RECORD_OVERHEAD_BYTES)


def check_atomic(total: int) -> None:
    """Raise RecordTooLargeError if records of ``total`` bytes may not fit one entry (STR-42)."""
    if total > SET_BYTES_MAX:
        raise RecordTooLargeError(
            f"records of {total} bytes cannot be appended together: an entry holds at most "
            f"{SET_BYTES_MAX} bytes of them"
        )


def check_numbering(producer: object, first_sequence: object) -> None:
    """Raise InvalidArgumentError unless these can name a producer and number its records."""
    if (
        not isinstance(producer, bytes)
        or len(producer) != len(NO_PRODUCER)
        or producer == NO_PRODUCER
        or type(first_sequence) is not int
        or first_sequence < 0
    ):
        raise InvalidArgumentError(
            "a producer id has 16 bytes that are not all zero, and sequences count from 0"
        )


def decode_producer_set(encoded: bytes, record_bytes_max: int) -> RecordSet:
    """Decode a single data record set that a producer encoded.

    Raises RecordTooLargeError, CorruptionError, InvalidArgumentError.
    """
    if len(encoded) > SET_BYTES_MAX:
        raise RecordTooLargeError(
            f"a record set of {len(encoded)} bytes is above the limit of {SET_BYTES_MAX} bytes"
        )
    decoded, *others = decode_entry(encoded)
    if others or decoded.is_control:
        raise InvalidArgumentError("append_set takes one data record set")
    largest = decoded.largest_bytes(record_bytes_max)  # validates the offsets as well
    if largest > record_bytes_max:
        raise too_large(largest, record_bytes_max)
    if decoded.attributes is not None:
        decoded.attributes.check()
    return decoded


def split_records(
    records: CheckedRecords, size_max: int, room: int
) -> Iterator[tuple[int, CheckedRecords]]:
    """Split records into batches as ``split_by_size`` does.

    Yield the index of the first record of each batch, and the records.
    """
    payloads, attributes, _ = records
    sizes: Iterable[int] = map(len, payloads)
    if attributes is not None:
        sizes = [size + one.size for size, one in zip(sizes, attributes, strict=True)]
    for first, stop, size in split_by_size(sizes, size_max, room):
        some = None if attributes is None else attributes[first:stop]
        yield first, CheckedRecords(payloads[first:stop], some, size)


def split_by_size(
    sizes: Iterable[int], size_max: int, room: int = 0
) -> Iterator[tuple[int, int, int]]:
    """Split records of these sizes into runs of at most ``size_max`` bytes.

    Yield (first, stop, size) of each run; this size includes the overhead per record. A larger
    record is a run of its own. ``room`` is the space left in the open batch: the first run is the
    records that fit there, if any.
    """
    ends = list(accumulate(sizes, initial=0))

    def size_up_to(index: int) -> int:
        return ends[index] + index * RECORD_OVERHEAD_BYTES

    count = len(ends) - 1
    first = 0
    if count and room >= size_up_to(1):
        first = bisect_right(range(count + 1), room, key=size_up_to) - 1
        yield 0, first, size_up_to(first)
    while first < count:
        before = size_up_to(first)
        stop = bisect_right(range(count + 1), before + size_max, first, key=size_up_to) - 1
        stop = max(first + 1, stop)
        yield first, stop, size_up_to(stop) - before
        first = stop
