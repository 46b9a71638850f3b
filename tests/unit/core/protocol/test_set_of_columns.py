"""A record set that is a view of columns equals the one that is decoded from its bytes."""

import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.attributes.attribute_columns import attribute_builder
from rhumbline.core.protocol.attributes.attribute_values import NO_HEADERS, Attributes
from rhumbline.core.protocol.errors import CorruptionError, RecordTooLargeError
from rhumbline.core.protocol.record_arrow import arrow_batch
from rhumbline.core.protocol.record_set import (
    RAW_BYTES_MAX,
    TXID_LAST,
    Producer,
    RecordSet,
    decode_entry,
    encode_record_set,
    set_of_columns,
)

ATTRIBUTES = [
    Attributes(b"k", {"name": b"value"}, 5),
    Attributes(None, NO_HEADERS, None),
    Attributes(b"", NO_HEADERS, -7),
]


def columns(
    payloads: list[bytes], txids: list[int], before: bytes = b"", after: bytes = b""
) -> tuple[memoryview, memoryview, memoryview]:
    """Return the columns of a set, with other bytes ``before`` and ``after`` its payloads."""
    offsets = accumulate(map(len, payloads), initial=len(before))
    return (
        memoryview(struct.pack(f"<{len(txids)}q", *txids)),
        memoryview(struct.pack(f"<{len(payloads) + 1}i", *offsets)),
        memoryview(before + b"".join(payloads) + after),
    )


def view(txids: list[int], offsets: list[int], payloads: bytes, position: int = 0) -> RecordSet:
    return set_of_columns(
        memoryview(struct.pack(f"<{len(txids)}q", *txids)),
        memoryview(struct.pack(f"<{len(offsets)}i", *offsets)),
        memoryview(payloads),
        slot=0,
        position=position,
        created_ms=0,
    )


records = st.lists(st.tuples(st.binary(max_size=9), st.integers(1, 3)), min_size=1, max_size=6).map(
    lambda found: ([payload for payload, _ in found], list(accumulate(t for _, t in found)))
)


@given(records, st.binary(max_size=5), st.binary(max_size=5), st.booleans(), st.booleans())
def test_a_view_of_columns_equals_the_encoded_set(
    rows: tuple[list[bytes], list[int]],
    before: bytes,
    after: bytes,
    has_one_txid: bool,
    has_attributes: bool,
) -> None:
    payloads, txids = rows
    if has_one_txid:
        txids = [9] * len(payloads)
    attributes = None
    if has_attributes:
        attributes = attribute_builder(ATTRIBUTES[: len(payloads)])
    producer = Producer(b"P" * 16, 14)
    encoded = encode_record_set(
        payloads, first_txid=txids[0], last_txid=txids[-1], txids=txids, position=11,
        created_ms=12, producer=producer, attributes=attributes,
    )  # fmt: skip
    one = set_of_columns(
        *columns(payloads, txids, before, after), slot=3, position=11,
        created_ms=12, producer=producer, attributes=attributes,
    )  # fmt: skip
    (decoded,) = decode_entry(encoded)
    assert (one.slot, decoded.slot) == (3, 0)
    assert one.encode() == decoded.encode() == encoded
    assert (one.raw_bytes, one.raw_crc) == (decoded.raw_bytes, decoded.raw_crc)
    assert (one.payload_bytes, one.largest_bytes()) == (
        len(b"".join(payloads)),
        max(map(len, payloads)),
    )
    assert one.payloads() == payloads
    assert list(one.txids()) == txids
    batches = [
        arrow_batch(record_set, lssn=1, entry_id=2, with_positions=False, with_attributes=True)
        for record_set in (one, decoded)
    ]
    assert batches[0].equals(batches[1])
    assert batches[0]["payload"].to_pylist() == payloads


@pytest.mark.parametrize("offsets", [[0, 2, 4], [-1, 2, 3], [2, 2, 1]])
def test_offsets_outside_of_the_column_are_corrupt(offsets: list[int]) -> None:
    with pytest.raises(CorruptionError, match="offsets"):
        view([1, 1], offsets, b"abc")


def test_offsets_that_decrease_are_corrupt_when_they_are_used() -> None:
    one = view([1, 1, 1], [1, 3, 2, 3], b"abc")
    for use in (one.payloads, one.largest_bytes):
        with pytest.raises(CorruptionError, match="offsets"):
            use()
    with pytest.raises(CorruptionError):
        arrow_batch(one, lssn=1, entry_id=0, with_positions=False)


@pytest.mark.parametrize(
    ("txids", "position"), [([0, 1], 0), ([2, 1], 0), ([-5, -5], 0), ([1, 1], -1)]
)
def test_values_that_no_set_has_are_corrupt(txids: list[int], position: int) -> None:
    with pytest.raises(CorruptionError, match="inconsistent"):
        view(txids, [0, 1, 2], b"ab", position)
    view([TXID_LAST] * 2, [0, 1, 2], b"ab", 0)


def test_txids_that_decrease_are_corrupt_when_they_are_used() -> None:
    one = view([1, 3, 2], [0, 1, 2, 3], b"abc")
    with pytest.raises(CorruptionError, match="txids decrease"):
        one.txids()


def test_a_view_that_is_too_large_is_not_encoded() -> None:
    one = view([1], [0, RAW_BYTES_MAX], bytes(RAW_BYTES_MAX))
    with pytest.raises(RecordTooLargeError):
        one.encode()
    assert view([1], [0, RAW_BYTES_MAX - 8], bytes(RAW_BYTES_MAX)).encode()
