"""Headers and records survive a round trip, and damage to any byte is detected."""

from random import Random

import pytest

from rhumbline.core.bookie.log.log_format import (
    LOG_KIND,
    FileHeader,
    GroupHeader,
    check_record,
    decode_file_header,
    decode_group_header,
    encode_file_header,
    encode_group_header,
    encode_record,
    iterate_records,
)
from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError

ME = BookieId("b1@0000abcd")


def test_headers_round_trip_and_every_flipped_bit_is_detected() -> None:
    random = Random(4)
    header = FileHeader(LOG_KIND, 7, 2**63 + 5, 6, 12345, 99, ME)
    data = bytearray(encode_file_header(header))
    assert decode_file_header(bytes(data), "log/7") == header
    for _ in range(200):
        at, bit = random.randrange(len(data)), random.randrange(8)
        data[at] ^= 1 << bit
        with pytest.raises((CorruptionError, ForeignDataError)):
            decode_file_header(bytes(data), "log/7")
        data[at] ^= 1 << bit
    group = GroupHeader(3, 2**63 + 5, 4, 10, 20, 30, 40)
    raw = bytearray(encode_group_header(group))
    assert decode_group_header(bytes(raw)) == group
    for at in range(len(raw)):
        raw[at] ^= 1
        assert decode_group_header(bytes(raw)) is None
        raw[at] ^= 1
    body = encode_record(b"entry") + encode_record(b"state", is_state=True)
    assert list(iterate_records(body)) == [(8, b"entry", False), (21, b"state", True)]
    assert check_record(encode_record(b"entry"), 5) == b"entry"
    for cut in range(1, len(body)):
        if cut != 13:
            with pytest.raises(CorruptionError):
                list(iterate_records(body[:cut]))
    with pytest.raises(CorruptionError):
        check_record(encode_record(b"entry")[:-1] + b"Y", 5)
