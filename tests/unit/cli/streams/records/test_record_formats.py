"""Each format prints the first records of a batch as it promises."""

import json

import pytest

from rhumbline.cli.streams.records.record_formats import FORMATS, record_format
from rhumbline.cli.streams.records.record_parts import RecordPart
from rhumbline.core.log.read.record_batch import RecordBatch
from rhumbline.core.protocol.record_set import decode_entry, encode_record_set

PAYLOADS = [b"one", b"", b"a\nb", b"\xff"]


def printed(form: str, count: int, *, skipped: int = 0) -> bytes:
    """Return what is printed of ``count`` records after the first ``skipped`` ones."""
    (record_set,) = decode_entry(encode_record_set(PAYLOADS, first_txid=5, last_txid=5))
    batch = RecordBatch(1, 2, record_set).without_first(skipped)
    return record_format(form)(RecordPart(batch, count))


def test_lines_end_with_a_line_feed() -> None:
    assert printed("lines", 4) == b"one\n\na\nb\n\xff\n"
    assert printed("lines", 1) == b"one\n"
    assert printed("lines", 1, skipped=1) == b"\n"


def test_lengths_are_four_bytes_before_each_payload() -> None:
    expected = b"".join(len(payload).to_bytes(4, "big") + payload for payload in PAYLOADS)
    assert printed("length-prefixed", 4) == expected
    assert printed("length-prefixed", 2) == b"\0\0\0\x03one\0\0\0\0"


def test_documents_and_positions_are_printed_by_record() -> None:
    lines = printed("json", 2).splitlines()
    assert [json.loads(line)["dlsn"] for line in lines] == ["1:2:0", "1:2:1"]
    assert printed("verbose", 1, skipped=3) == b"1:2:3\t5\t\xff\n"


@pytest.mark.parametrize("form", FORMATS)
def test_no_records_are_printed_as_nothing(form: str) -> None:
    assert printed(form, 0) == b""
