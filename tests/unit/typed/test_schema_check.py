"""The same changes of a schema are decided in the same way in every language."""

import json
from dataclasses import dataclass
from enum import Enum
from typing import NotRequired, TypedDict

import pyarrow as pa
import pytest

from rhumbline.core.log.metadata.stream_schema import (
    Compatibility,
    SchemaHistory,
    SchemaKind,
    StreamSchema,
)
from rhumbline.core.protocol.errors import IncompatibleSchemaError, InvalidArgumentError
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.typed import ArrowCodec, AvroCodec, JsonCodec, ProtobufCodec, StrCodec
from rhumbline.typed.schema_check import check_new_schema, check_reader_schema, shape_of
from rhumbline.typed.shapes.shape import Fields, Items, Scalar


@dataclass
class Order:
    number: int


@dataclass
class OrderWithNote:
    number: int
    note: str = ""


@dataclass
class OrderWithPrice:
    number: int
    price: float


@dataclass
class OrderOfText:
    number: str


def arrow(*fields: pa.Field) -> StreamSchema:
    return ArrowCodec(pa.schema(fields)).schema


def avro(*fields: object) -> StreamSchema:
    return AvroCodec({"type": "record", "name": "Order", "fields": list(fields)}).schema


NUMBER = {"name": "number", "type": "long"}
LANGUAGES = {
    "json": (
        JsonCodec(Order).schema,
        JsonCodec(OrderWithNote).schema,
        JsonCodec(OrderWithPrice).schema,
        JsonCodec(OrderOfText).schema,
    ),
    "avro": (
        avro(NUMBER),
        avro(NUMBER, {"name": "note", "type": "string", "default": ""}),
        avro(NUMBER, {"name": "price", "type": "double"}),
        avro({"name": "number", "type": "string"}),
    ),
    "arrow": (
        arrow(pa.field("number", pa.int64(), nullable=False)),
        arrow(pa.field("number", pa.int64(), nullable=False), pa.field("note", pa.string())),
        arrow(
            pa.field("number", pa.int64(), nullable=False),
            pa.field("price", pa.float64(), nullable=False),
        ),
        arrow(pa.field("number", pa.string(), nullable=False)),
    ),
}
"""A schema, one with an optional field more, with a required field more, and of another type."""
B, F = Compatibility.BACKWARD, Compatibility.FORWARD


def is_compatible(rule: Compatibility, old: StreamSchema, new: StreamSchema) -> bool:
    try:
        check_new_schema("s", new, SchemaHistory(rule, (old,)))
    except IncompatibleSchemaError:
        return False
    return True


@pytest.mark.parametrize("language", LANGUAGES)
def test_changes_of_a_schema_are_decided(language: str) -> None:
    plain, optional, required, other = LANGUAGES[language]
    decided = {
        "add an optional field": [is_compatible(rule, plain, optional) for rule in (B, F)],
        "remove an optional field": [is_compatible(rule, optional, plain) for rule in (B, F)],
        "add a required field": [is_compatible(rule, plain, required) for rule in (B, F)],
        "remove a required field": [is_compatible(rule, required, plain) for rule in (B, F)],
        "change a type": [is_compatible(rule, plain, other) for rule in (B, F)],
    }
    assert decided == {
        "add an optional field": [True, True],
        "remove an optional field": [True, True],
        "add a required field": [False, True],
        "remove a required field": [True, False],
        "change a type": [False, False],
    }
    for old, new in ((plain, optional), (plain, required), (required, plain), (plain, other)):
        both = is_compatible(B, old, new) and is_compatible(F, old, new)
        assert is_compatible(Compatibility.FULL, old, new) is both
        assert is_compatible(Compatibility.NONE, old, new)


def test_every_version_counts_and_the_error_names_it() -> None:
    plain, optional, required, _ = LANGUAGES["json"]
    history = SchemaHistory(B, (plain, optional))
    with pytest.raises(IncompatibleSchemaError) as raised:
        check_new_schema("orders", required, history)
    assert str(raised.value) == (
        "stream orders: a new schema must be backward compatible: cannot read records of version 1 "
        "with the new schema: price: required, but absent; cannot read records of version 2 with "
        "the new schema: price: required, but absent"
    )
    check_new_schema("orders", optional, history)  # the stream has it already


def test_languages_do_not_mix() -> None:
    with pytest.raises(IncompatibleSchemaError, match="languages json-schema and avro"):
        check_new_schema("s", LANGUAGES["json"][0], SchemaHistory(B, (LANGUAGES["avro"][0],)))


def test_a_reader_must_read_all_versions() -> None:
    plain, optional, required, _ = LANGUAGES["avro"]
    check_reader_schema("s", plain, SchemaHistory(B, (plain, optional)))
    check_reader_schema("s", plain, SchemaHistory())
    with pytest.raises(IncompatibleSchemaError, match="records of version 1: price"):
        check_reader_schema("s", required, SchemaHistory(B, (plain, required)))
    check_reader_schema("s", required, SchemaHistory(Compatibility.NONE, (plain,)))
    assert StrCodec().schema is None


def test_types_of_protobuf_are_compared_by_their_wire_form() -> None:
    position = ProtobufCodec(pb.Position).schema
    shape = shape_of(position)
    assert isinstance(shape, Fields)
    assert shape.members["field 1"].shape == Scalar("varint")
    assert shape.members["field 4"].shape == Scalar("string")
    nested = shape_of(ProtobufCodec(pb.AppendRequest).schema)
    assert isinstance(nested, Fields)
    assert isinstance(nested.members["field 1"].shape, Items)
    assert is_compatible(Compatibility.FULL, position, position)
    owner = ProtobufCodec(pb.GetOwnerRequest).schema  # its field 1 is a string
    with pytest.raises(IncompatibleSchemaError, match="field 1: string is not readable as varint"):
        check_new_schema("s", position, SchemaHistory(B, (owner,)))


class Colour(Enum):
    RED = "red"


class Node(TypedDict):
    children: list["Node"]
    colour: NotRequired[Colour | None]
    names: dict[str, int]


def test_recursive_types_and_enumerations_have_shapes() -> None:
    node = JsonCodec(Node).schema
    assert is_compatible(Compatibility.FULL, node, node)
    assert isinstance(shape_of(node), Fields)
    linked = AvroCodec(
        {
            "type": "record", "name": "Link", "namespace": "n",
            "fields": [
                {"name": "next", "type": ["null", "Link"], "default": None},
                {"name": "id", "type": {"type": "fixed", "name": "Id", "size": 16}},
                {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
                {"name": "tags", "type": {"type": "map", "values": "string"}},
                {"name": "list", "type": {"type": "array", "items": "n.Kind"}},
            ],
        }
    ).schema  # fmt: skip
    fewer = StreamSchema(SchemaKind.AVRO, linked.definition.replace('["A", "B"]', '["A"]'))
    assert json.loads(fewer.definition) != json.loads(linked.definition)
    with pytest.raises(IncompatibleSchemaError, match="kind: the symbols B are not known"):
        check_new_schema("s", fewer, SchemaHistory(B, (linked,)))


@pytest.mark.parametrize("kind", SchemaKind)
def test_a_malformed_schema_is_an_error_of_its_own(kind: SchemaKind) -> None:
    with pytest.raises(InvalidArgumentError, match="malformed"):
        shape_of(StreamSchema(kind, "{"))
