"""Tests of the columns for stored schemas, and of values that fit them."""

import pickle
from decimal import Decimal
from typing import Any

import pytest

from rhumbline.core.log.metadata.stream_schema import SchemaHistory, SchemaKind, StreamSchema
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.spark.jobs.stored_schema import StoredSchemaDecoder
from rhumbline.typed import AvroCodec, ProtobufCodec

ITEM = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": "int"},
        {"name": "total", "type": ["null", "double"], "default": None},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "items", "type": {"type": "array", "items": ITEM}},
        {"name": "labels", "type": {"type": "map", "values": "string"}},
        {"name": "digest", "type": {"type": "fixed", "name": "Digest", "size": 2}},
        {"name": "extra", "type": ["string", "long"]},
        {"name": "is_paid", "type": "boolean"},
    ],
}
VALUE = {
    "id": 1 << 40, "count": 3, "total": None, "state": "SENT", "items": [{"sku": "a"}],
    "labels": {"x": "y"}, "digest": b"\x01\x02", "extra": 5, "is_paid": True,
}  # fmt: skip


def test_avro_types_have_columns_and_values() -> None:
    codec = AvroCodec(ORDER)
    decoder = StoredSchemaDecoder(SchemaHistory(schemas=(codec.schema,)))
    assert decoder.columns.simpleString() == (
        "struct<id:bigint,count:int,total:double,state:string,items:array<struct<sku:string>>,"
        "labels:map<string,string>,digest:binary,extra:string,is_paid:boolean>"
    )
    copy = pickle.loads(pickle.dumps(decoder))
    found = copy(codec.encode(VALUE))
    assert found == {**VALUE, "items": [("a",)], "digest": bytearray(b"\x01\x02"), "extra": "5"}


def test_large_numbers_of_messages_are_decimals() -> None:
    codec = ProtobufCodec(pb.AppendItem)
    decoder = StoredSchemaDecoder(SchemaHistory(schemas=(codec.schema,)))
    assert decoder.columns["id"].dataType.simpleString() == "decimal(20,0)"
    found = decoder(codec.encode(pb.AppendItem(id=2**64 - 1, stream="s")))
    assert (found["id"], found["stream"]) == (Decimal(2**64 - 1), "s")


@pytest.mark.parametrize(
    ("payload", "fault"),
    [
        (b'{"n": 1.5}', "not a whole number"),
        (b'{"n": "1"}', "not a number"),
        (b'{"n": true}', "not a number"),
    ],
)
def test_values_of_other_types_are_refused(payload: bytes, fault: str) -> None:
    schema = StreamSchema(
        SchemaKind.JSON, '{"type":"object","properties":{"n":{"type":"integer"}}}'
    )
    decoder = StoredSchemaDecoder(SchemaHistory(schemas=(schema,)))
    assert decoder(b'{"n": 2}') == {"n": 2}
    with pytest.raises((TypeError, ValueError), match=fault):
        decoder(payload)
