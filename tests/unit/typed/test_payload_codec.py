"""Every codec returns what it was given, and refuses anything else with one error."""

import enum
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import InvalidArgumentError, PayloadError
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.typed import (
    ArrowCodec,
    AvroCodec,
    BytesCodec,
    JsonCodec,
    MsgpackCodec,
    PayloadCodec,
    ProtobufCodec,
    StrCodec,
    UnknownWriterSchemaError,
)


@dataclass
class Order:
    number: int
    items: list[str]


ORDER = Order(7, ["tea", "milk"])
SCHEMA = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "number", "type": "long"},
        {"name": "items", "type": {"type": "array", "items": "string"}},
    ],
}
ARROW = pa.schema([pa.field("number", pa.int64(), nullable=False), pa.field("note", pa.string())])
AVRO_ORDERS = AvroCodec(SCHEMA).mapped(lambda fields: Order(**fields), asdict)
CODECS: list[tuple[PayloadCodec[Any], object]] = [
    (BytesCodec(), b"\x00\xff"),
    (StrCodec(), "grüße"),
    (JsonCodec(Order), ORDER),
    (JsonCodec(dict[str, int]), {"a": 1}),
    (MsgpackCodec(Order), ORDER),
    (ProtobufCodec(pb.Position), pb.Position(lssn=1, stream_id="abc")),
    (AvroCodec(SCHEMA), asdict(ORDER)),
    (AVRO_ORDERS, ORDER),
    (ArrowCodec(ARROW), pa.RecordBatch.from_pydict({"number": [1], "note": ["x"]}, schema=ARROW)),
]
IDS = [f"{type(codec).__name__}-{index}" for index, (codec, _) in enumerate(CODECS)]


@pytest.mark.parametrize(("codec", "value"), CODECS, ids=IDS)
def test_a_value_survives(codec: PayloadCodec[Any], value: object) -> None:
    payload = codec.encode(value)
    assert type(payload) is bytes
    assert codec.decode(payload) == value


@pytest.mark.parametrize(("codec", "value"), CODECS, ids=IDS)
def test_a_value_of_another_type_is_refused(codec: PayloadCodec[Any], value: object) -> None:
    with pytest.raises(PayloadError):
        codec.encode(object())


@pytest.mark.parametrize(("codec", "value"), CODECS[1:], ids=IDS[1:])
def test_damaged_payloads_raise_one_error_or_decode(
    codec: PayloadCodec[Any], value: object
) -> None:
    payload = codec.encode(value)
    for length in range(len(payload)):
        for damaged in (payload[:length], payload[:length] + b"\xff" + payload[length + 1 :]):
            try:
                codec.decode(damaged)
            except PayloadError:
                continue


@given(st.binary(max_size=200))
def test_no_other_payload_raises_anything_else(payload: bytes) -> None:
    for codec, _ in CODECS:
        for prefix in (b"", b"\xc3\x01" + bytes(8)):
            try:
                codec.decode(prefix + payload)
            except PayloadError:
                continue


def test_decoding_checks_the_type() -> None:
    with pytest.raises(PayloadError, match="does not fit the type"):
        JsonCodec(Order).decode(b'{"number": "seven", "items": []}')
    with pytest.raises(PayloadError, match="does not fit the type"):
        MsgpackCodec(Order).decode(MsgpackCodec(dict[str, str]).encode({"number": "x"}))
    with pytest.raises(InvalidArgumentError, match="not a type of payloads"):
        JsonCodec(enum.Enum)
    with pytest.raises(PayloadError, match="cannot be converted"):
        AVRO_ORDERS.encode("no order")  # type: ignore[arg-type]
    narrow = StrCodec().mapped(int, str)
    assert narrow.decode(narrow.encode(12)) == 12
    with pytest.raises(PayloadError, match="does not fit the type"):
        narrow.decode(b"twelve")


def test_avro_reads_records_of_other_schemas_of_the_stream() -> None:
    wider = AvroCodec(
        {
            **SCHEMA,
            "fields": [
                {"name": "number", "type": "long"},
                {"name": "note", "type": "string", "default": "none"},
            ],
        }
    )
    payload = AvroCodec(SCHEMA).encode(asdict(ORDER))
    with pytest.raises(UnknownWriterSchemaError, match="no schema of the stream"):
        wider.decode(payload)
    informed = wider.with_schemas([AvroCodec(SCHEMA).schema])
    assert informed.decode(payload) == {"number": 7, "note": "none"}
    assert informed.schema == wider.schema
    with pytest.raises(InvalidArgumentError, match="Avro schema is not valid"):
        AvroCodec('{"type": "record"}')


def test_arrow_casts_and_fills_columns() -> None:
    older = pa.schema([pa.field("number", pa.int32(), nullable=False)])
    payload = ArrowCodec(older).encode(pa.RecordBatch.from_pydict({"number": [5]}, schema=older))
    assert ArrowCodec(ARROW).decode(payload).to_pylist() == [{"number": 5, "note": None}]
    strict = pa.schema([pa.field("price", pa.int32(), nullable=False)])
    with pytest.raises(PayloadError, match="lacks the column price"):
        ArrowCodec(strict).decode(payload)
    with pytest.raises(PayloadError, match="has the schema"):
        ArrowCodec(strict).encode(pa.RecordBatch.from_pydict({"number": [5]}, schema=older))
