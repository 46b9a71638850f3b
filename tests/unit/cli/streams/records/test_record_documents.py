"""Records as JSON: what is printed can be appended again, and wrong input is named."""

import json

import pytest

from rhumbline.cli.streams.records.record_documents import (
    InputRecord,
    as_document,
    common_attributes,
    event_time_text,
    parse_documents,
    parse_event_time,
)
from rhumbline.cli.streams.records.record_formats import record_format
from rhumbline.cli.streams.records.record_parts import RecordPart
from rhumbline.core.log.read.record_batch import Record, RecordBatch
from rhumbline.core.protocol.attributes.attribute_columns import attribute_builder
from rhumbline.core.protocol.attributes.attribute_values import (
    EVENT_TIME_MAX,
    EVENT_TIME_MIN,
    Attributes,
)
from rhumbline.core.protocol.errors import InvalidArgumentError
from rhumbline.core.protocol.record_set import decode_entry, encode_record_set


def a_record(payload: bytes, *attributes: object) -> Record:
    rows = [Attributes(*(attributes or (None, None, None)))]
    (record_set,) = decode_entry(
        encode_record_set([payload], first_txid=5, last_txid=5, attributes=attribute_builder(rows))
    )
    (found,) = RecordBatch(1, 2, record_set).records()
    return found


def printed(form: str, record: Record) -> bytes:
    return record_format(form)(RecordPart(record._batch, 1))


def test_a_record_without_attributes_is_printed_as_before() -> None:
    assert as_document(a_record(b"x")) == {"dlsn": "1:2:0", "txid": 5, "payload": "x"}
    assert printed("verbose", a_record(b"x")) == b"1:2:0\t5\tx\n"


def test_what_is_printed_can_be_appended_again() -> None:
    headers = {"text": b"v", "bytes": b"\xff"}
    for key in (b"k", b"\xfe", b""):
        line = printed("json", a_record(b"\xfd", key, headers, 1_700_000_000_123))
        document = json.loads(line)
        assert document["event_at"] == "2023-11-14T22:13:20.123Z"
        assert (document["headers"], document["headers_hex"]) == ({"text": "v"}, {"bytes": "ff"})
        assert parse_documents([line]) == [InputRecord(b"\xfd", key, headers, 1_700_000_000_123)]
    verbose = printed("verbose", a_record(b"x", b"k", None, None))
    assert verbose == b'1:2:0\t5\tx\t{"key": "k"}\n'


@pytest.mark.parametrize("event_time", [EVENT_TIME_MIN, -1, 0, EVENT_TIME_MAX])
def test_event_times_round_trip(event_time: int) -> None:
    assert parse_event_time(event_time_text(event_time)) == event_time
    assert parse_event_time(str(event_time)) == event_time


def test_event_times_have_an_offset_or_are_in_utc() -> None:
    assert parse_event_time("1970-01-01T01:00:00+01:00") == 0
    assert parse_event_time("1970-01-01 00:00:01") == 1000


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("{", "not a line of JSON"),
        ("[]", "not a JSON object"),
        ("{}", "neither payload nor payload_hex"),
        ('{"payload": 1}', "1 is not a string"),
        ('{"payload_hex": "xy"}', "'xy' is not in hexadecimal digits"),
        ('{"payload": "", "headers": []}', "headers is not an object"),
        ('{"payload": "", "event_at": "soon"}', "'soon' is neither a time in ISO 8601"),
        ('{"payload": "", "keys": ""}', r"unknown fields \['keys'\] .*: the fields .* key, "),
    ],
)
def test_wrong_lines_are_named(line: str, match: str) -> None:
    with pytest.raises(InvalidArgumentError, match=match):
        parse_documents([line.encode()])


def test_attributes_of_a_command_are_checked() -> None:
    found = common_attributes("k", ["a=b=c", "d="], "1000")
    assert found == InputRecord(b"", b"k", {"a": b"b=c", "d": b""}, 1000)
    for headers in (["a"], ["a=1", "a=2"], ["=v"]):
        with pytest.raises(InvalidArgumentError, match="header"):
            common_attributes(None, headers, None)
