"""Tests of decoding by stored schemas alone: Avro, JSON, MessagePack, Protobuf, and refusals."""

from dataclasses import dataclass

import pytest

from rhumbline.core.log.metadata.stream_schema import SchemaHistory, SchemaKind, StreamSchema
from rhumbline.core.protocol.errors import InvalidArgumentError, PayloadError
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.typed import AvroCodec, JsonCodec, MsgpackCodec, ProtobufCodec
from rhumbline.typed.plain_decoder import PlainDecoder

OLD = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
NEW = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}


@dataclass
class Order:
    """A value of the codecs by type."""

    id: int
    tags: list[str]


def decoder(*schemas: StreamSchema) -> PlainDecoder:
    """Return a decoder for a stream with these schemas."""
    return PlainDecoder(SchemaHistory(schemas=schemas))


def test_avro_records_of_every_schema_have_the_newest_fields() -> None:
    old, new = AvroCodec(OLD), AvroCodec(NEW)
    plain = decoder(old.schema, new.schema)
    assert plain.decode(old.encode({"id": 1})) == {"id": 1, "at": 0, "note": None}
    payload = new.encode({"id": 2, "at": 1_700_000_000_123, "note": "x"})
    assert plain.decode(payload) == {"id": 2, "at": 1_700_000_000_123, "note": "x"}
    with pytest.raises(PayloadError, match="single-object"):
        plain.decode(b"{}")


@pytest.mark.parametrize("codec", [JsonCodec(Order), MsgpackCodec(Order)], ids=["json", "msgpack"])
def test_objects_are_decoded_without_their_type(
    codec: JsonCodec[Order] | MsgpackCodec[Order],
) -> None:
    plain = decoder(codec.schema)
    assert plain.decode(codec.encode(Order(7, ["a", "b"]))) == {"id": 7, "tags": ["a", "b"]}


@pytest.mark.parametrize("payload", [b"", b"[1]", b"{", b"\x81", b"\xff\xfe"])
def test_payloads_that_are_no_objects_are_refused(payload: bytes) -> None:
    with pytest.raises(PayloadError):
        decoder(JsonCodec(Order).schema).decode(payload)


def test_messages_are_decoded_without_their_class() -> None:
    codec = ProtobufCodec(pb.AppendItem)
    message = pb.AppendItem(id=5, namespace="n", stream="s", record_set=b"\x01\x02")
    found = decoder(codec.schema).decode(codec.encode(message))
    assert (found["id"], found["stream"], found["record_set"]) == (5, "s", b"\x01\x02")
    assert set(found) == {field.name for field in pb.AppendItem.DESCRIPTOR.fields}
    with pytest.raises(PayloadError, match="is not a"):
        decoder(codec.schema).decode(b"\xff\xff\xff")


def test_streams_without_a_usable_schema_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="has no schema"):
        decoder()
    with pytest.raises(InvalidArgumentError, match="does not describe a record"):
        decoder(StreamSchema(SchemaKind.AVRO, '"long"'))
    with pytest.raises(InvalidArgumentError, match="malformed"):
        decoder(StreamSchema(SchemaKind.JSON, "{"))
