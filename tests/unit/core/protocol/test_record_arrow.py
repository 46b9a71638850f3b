"""Arrow batches of record sets: names, types, buffers, and rejection of wrong offsets."""

import struct

import pyarrow as pa
import pytest

from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.record_arrow import arrow_batch
from rhumbline.core.protocol.record_set import (
    RecordSet,
    decode_entry,
    encode_record_set,
)

PAYLOADS = [b"one", b"", b"three"]
POSITIONED = {
    "txid": pa.int64(),
    "payload": pa.binary(),
    "lssn": pa.int64(),
    "entry_id": pa.int64(),
    "created_ms": pa.int64(),
    "slot": pa.int32(),
}


def record_sets(count: int = 1) -> list[RecordSet]:
    encoded = encode_record_set(PAYLOADS, first_txid=5, last_txid=9, txids=[5, 5, 9], created_ms=77)
    return decode_entry(encoded * count)


def test_a_batch_has_the_columns_of_the_archive() -> None:
    batch = arrow_batch(record_sets()[0], lssn=2, entry_id=4, with_positions=True)
    batch.validate(full=True)
    assert {field.name: field.type for field in batch.schema} == POSITIONED
    assert list(batch.schema.names) == list(POSITIONED)


def test_a_batch_without_positions_has_txid_and_payload() -> None:
    batch = arrow_batch(record_sets()[0], lssn=2, entry_id=4, with_positions=False)
    assert {field.name: field.type for field in batch.schema} == dict(list(POSITIONED.items())[:2])


def test_slots_continue_from_set_to_set() -> None:
    slots = [
        arrow_batch(one, lssn=2, entry_id=4, with_positions=True)["slot"].to_pylist()
        for one in record_sets(3)
    ]
    assert slots == [[0, 1, 2], [3, 4, 5], [6, 7, 8]]


@pytest.mark.parametrize("shift", range(9))
def test_columns_are_right_wherever_the_set_lies_in_memory(shift: int) -> None:
    encoded = encode_record_set(PAYLOADS, first_txid=5, last_txid=9, txids=[5, 5, 9])
    (one,) = decode_entry(memoryview(bytes(shift) + encoded)[shift:])
    batch = arrow_batch(one, lssn=1, entry_id=0, with_positions=False)
    assert batch.to_pydict() == {"txid": [5, 5, 9], "payload": PAYLOADS}
    for column in batch.columns:
        addresses = [buffer.address for buffer in column.buffers()[:2] if buffer is not None]
        assert all(address % 8 == 0 for address in addresses)


def test_payloads_are_not_copied() -> None:
    payload = bytes(10_000)
    entry = encode_record_set([payload], first_txid=1, last_txid=1)
    (one,) = decode_entry(entry)
    column = arrow_batch(one, lssn=1, entry_id=0, with_positions=False)["payload"]
    first = pa.py_buffer(entry).address
    assert first < column.buffers()[2].address < first + len(entry)


def test_offsets_that_decrease_are_corrupt() -> None:
    (one,) = record_sets()
    one._offsets, one._offsets_at = memoryview(struct.pack("<4i", 0, 6, 3, 8)), 0
    with pytest.raises(CorruptionError, match="record set"):
        arrow_batch(one, lssn=1, entry_id=0, with_positions=False)


def test_aligned_columns_are_not_copied() -> None:
    entry = encode_record_set(PAYLOADS, first_txid=5, last_txid=9, txids=[5, 5, 9])
    first = pa.py_buffer(entry).address
    assert first % 8 == 0, "CPython aligns the content of bytes"
    batch = arrow_batch(decode_entry(entry)[0], lssn=1, entry_id=0, with_positions=False)
    for name in ("txid", "payload"):
        assert first <= batch[name].buffers()[1].address < first + len(entry)
