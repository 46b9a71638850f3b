"""Rows become record sets with the attributes of their columns, whatever batches they come in."""

from datetime import UTC, datetime
from itertools import pairwise

import pyarrow as pa

from rhumbline.core.protocol.record_set import decode_entry
from rhumbline.spark.read.columns import arrow_batches, as_archived
from rhumbline.spark.write.row_encoder import encode_numbered_sets

TIME = datetime(2026, 1, 31, 12, 0, 0, 123_456, UTC)


def encode(*batches: pa.RecordBatch) -> list[bytes]:
    return list(encode_numbered_sets(b"p" * 16, batches, keeps_txids=False))


def test_columns_become_attributes() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "payload": pa.array(["a", None, "c"]),
            "key": pa.array(["k", None, ""]),
            "headers": pa.array([[("h", b"v")], None, []], pa.map_(pa.string(), pa.binary())),
            "event_time": pa.array([TIME, None, None], pa.timestamp("us", tz="UTC")),
        }
    )
    (encoded,) = encode(batch)
    (one,) = decode_entry(encoded)
    assert one.payloads() == [b"a", b"", b"c"]
    assert one.attributes is not None
    assert list(one.attributes.keys()) == [b"k", None, b""]
    assert [dict(headers) for headers in one.attributes.headers()] == [{"h": b"v"}, {}, {}]
    assert list(one.attributes.event_times()) == [1_769_860_800_123, None, None]


def test_event_times_may_be_milliseconds() -> None:
    (encoded,) = encode(pa.RecordBatch.from_pydict({"payload": [b"a"], "event_time": [-7]}))
    (one,) = decode_entry(encoded)
    assert one.attributes is not None
    assert list(one.attributes.event_times()) == [-7]


def test_rows_without_attributes_are_encoded_as_before() -> None:
    plain = encode(pa.RecordBatch.from_pydict({"payload": [b"a", b"b"]}))
    nulls = encode(
        pa.RecordBatch.from_pydict(
            {"payload": [b"a", b"b"], "key": pa.nulls(2, pa.binary()), "event_time": pa.nulls(2)}
        )
    )
    body = slice(96, None)
    assert [one[body] for one in plain] == [one[body] for one in nulls]
    assert decode_entry(nulls[0])[0].attributes is None


def test_sets_do_not_depend_on_batches() -> None:
    rows = [{"payload": bytes(200), "key": bytes(n % 90)} for n in range(3000)]
    whole = encode(pa.RecordBatch.from_pylist(rows))
    cuts = [0, 1, 700, 2999, 3000]
    parts = encode(*(pa.RecordBatch.from_pylist(rows[a:b]) for a, b in pairwise(cuts)))
    sets = [[decode_entry(one)[0].raw_crc for one in found] for found in (whole, parts)]
    assert sets[0] == sets[1]
    assert len(sets[0]) > 1


def test_attributes_are_columns_of_the_source() -> None:
    rows = pa.record_batch(
        {
            "key": pa.array([b"k", None]),
            "event_time": pa.array([1_769_860_800_123, None], pa.int64()),
            "headers": pa.array([[("h", b"v")], None], pa.map_(pa.string(), pa.binary())),
        }
    )
    stored = pa.Table.from_batches([as_archived(rows)])
    (batch,) = arrow_batches(stored, "s", ("key", "headers", "event_time"))
    assert batch.to_pydict() == {
        "key": [b"k", None],
        "headers": [[("h", b"v")], None],
        "event_time": [TIME.replace(microsecond=123_000), None],
    }
