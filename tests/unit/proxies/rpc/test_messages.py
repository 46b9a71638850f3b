"""Policies and descriptions of streams survive the round trip through their messages."""

from dataclasses import fields, replace

import pytest

from rhumbline.core.log.metadata.stream_description import StreamDescription
from rhumbline.core.log.metadata.stream_schema import (
    SCHEMA_CHARACTERS_MAX,
    Compatibility,
    SchemaHistory,
    SchemaKind,
    StreamSchema,
)
from rhumbline.core.log.policy import FlushPolicy, StreamPolicy
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.dlsn import dlsn_in
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.quorum import Quorum
from rhumbline.core.protocol.segments import Segment
from rhumbline.proxies.rpc import rhumbline_pb2 as pb
from rhumbline.proxies.rpc.messages import (
    AppendResult,
    decode_description,
    decode_policy,
    decode_results,
    decode_schemas,
    encode_description,
    encode_policy,
    encode_results,
    encode_schemas,
)
from rhumbline.proxies.write.append_item import Appended

UNUSUAL = StreamPolicy(
    quorum=Quorum(5, 4, 3, 2),
    flush=FlushPolicy(period_ms=7, bytes_max=1234, visibility_ms=5),
    codec=Codec.ZSTD,
    record_bytes_max=999,
    roll_bytes=77_777,
    roll_ms=88_888,
    keepalive_ms=1_500,
    retention_ms=99_999,
    hot_retention_ms=0,
    archive_retention_ms=7,
    truncates_by_subscriptions=True,
    purge_grace_ms=11,
    regions=("eu", "us"),
    spread=("region:2", "rack:3"),
)


def test_example_differs_from_the_default_in_every_field() -> None:
    usual = StreamPolicy()
    same = [f.name for f in fields(usual) if getattr(usual, f.name) == getattr(UNUSUAL, f.name)]
    assert same == []


@pytest.mark.parametrize(
    "policy", [UNUSUAL, StreamPolicy(), StreamPolicy(flush=FlushPolicy(period_ms=None))]
)
def test_policy_survives_the_round_trip(policy: StreamPolicy) -> None:
    assert decode_policy(encode_policy(policy)) == policy


def test_segments_survive_with_the_decision_of_an_operator_about_their_end() -> None:
    segment = Segment(
        4,
        "9f86d081884c",
        17,
        3,
        1_000,
        True,
        2_000,
        9,
        55,
        10,
        4_096,
        30,
        ends_stream=True,
        doubt="closed by hand",
    )
    stream_id = segment.stream_id
    start = dlsn_in(stream_id, 2, 0, 0)
    known = StreamDescription("s", 900, UNUSUAL, True, start, 3, (segment,), stream_id=stream_id)
    assert decode_description(encode_description(known, "eu")) == known
    for age_ms in (0, 61_000):
        old = replace(known, metadata_age_ms=age_ms)
        assert decode_description(encode_description(old, "")) == old


def test_positions_of_results_keep_the_ids_of_their_streams() -> None:
    regions = ("east", "west")
    results: list[AppendResult] = [
        (n, Appended(dlsn_in(stream_id, 1, n, 0), 1, regions))
        for n, stream_id in enumerate(("9f86d081884c", "", "60303ae22b99", "9f86d081884c"))
    ]
    decoded = decode_results(encode_results(list(results)))
    assert sorted(decoded) == results
    found = {id_: outcome.first for id_, outcome in decoded if isinstance(outcome, Appended)}
    assert [found[n].stream_id for n in range(4)] == [
        outcome.first.stream_id for _, outcome in results if isinstance(outcome, Appended)
    ]


def test_schemas_survive() -> None:
    schemas = tuple(StreamSchema(kind, f"a {kind}") for kind in SchemaKind)
    for compatibility in Compatibility:
        history = SchemaHistory(compatibility, schemas)
        assert decode_schemas(encode_schemas(history)) == history
    full = [pb.StreamSchema(kind="avro", definition="x" * SCHEMA_CHARACTERS_MAX)] * 3
    for wrong in (
        pb.SchemaHistory(),
        pb.SchemaHistory(compatibility="some"),
        pb.SchemaHistory(compatibility="none", schemas=[pb.StreamSchema(definition="x")]),
        pb.SchemaHistory(compatibility="none", schemas=[pb.StreamSchema(kind="avro")]),
        pb.SchemaHistory(compatibility="none", schemas=full),
    ):
        with pytest.raises(InvalidArgumentError):
            decode_schemas(wrong)
