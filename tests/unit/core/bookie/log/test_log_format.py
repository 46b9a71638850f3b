"""Headers and records survive a round trip, and damage to any byte is detected."""

import struct
from random import Random

import pytest
from crc32c import crc32c

from rhumbline.core.bookie.log.log_format import (
    FILE_HEADER_BYTES,
    FILE_NUMBER_MAX,
    FORMAT_VERSION,
    GROUP_HEADER_BYTES,
    LOG_KIND,
    OFFSET_BITS,
    OFFSET_MASK,
    RECORD_HEADER_BYTES,
    SORTED_KIND,
    FileHeader,
    GroupHeader,
    check_record,
    decode_file_header,
    decode_group_header,
    encode_file_header,
    encode_group_header,
    encode_record,
    iterate_records,
    record_in,
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


def file_header(magic: bytes, version: int, name: bytes = b"b1@0000abcd") -> bytes:
    """Return a file header as the page of storage formats describes it."""
    fields = struct.pack(">8sHHQQQQI", magic, version, LOG_KIND, 7, 88, 6, 12345, 99)
    data = (fields + name).ljust(FILE_HEADER_BYTES - 4, b"\0")
    return data + struct.pack(">I", crc32c(data))


def test_bytes_of_the_headers_are_those_of_the_specification() -> None:
    header = FileHeader(LOG_KIND, 7, 88, 6, 12345, 99, ME)
    assert encode_file_header(header) == file_header(b"RHUMLOG\0", 2)
    group = struct.pack(">4sIQQIIII", b"\xf5RhG", 3, 88, 4, 10, 20, 30, 40)
    group += struct.pack(">I", crc32c(group))
    assert encode_group_header(GroupHeader(3, 88, 4, 10, 20, 30, 40)) == group
    assert len(group) == GROUP_HEADER_BYTES == 44
    record = struct.pack(">II", 5, crc32c(b"entry")) + b"entry"
    assert encode_record(b"entry") == record
    state = struct.pack(">II", 5 | 1 << 31, crc32c(b"state")) + b"state"
    assert encode_record(b"state", is_state=True) == state
    assert (LOG_KIND, SORTED_KIND, FORMAT_VERSION, RECORD_HEADER_BYTES) == (1, 2, 2, 8)
    assert (OFFSET_BITS, OFFSET_MASK, FILE_NUMBER_MAX) == (40, 2**40 - 1, 2**23 - 1)
    assert FILE_NUMBER_MAX << OFFSET_BITS | OFFSET_MASK < 2**63


def test_intact_header_of_another_format_is_foreign_and_any_other_is_damaged() -> None:
    good = file_header(b"RHUMLOG\0", 2)
    assert decode_file_header(good + b"and more", "x").bookie == ME
    for foreign in (file_header(b"OTHERLOG", 2), file_header(b"RHUMLOG\0", 3)):
        with pytest.raises(ForeignDataError, match=r"^log/7 "):
            decode_file_header(foreign, "log/7")
    for damaged in (good[:-1], good[:-1] + b"\0", b""):
        with pytest.raises(CorruptionError, match=r"^log/7: the file header is damaged$"):
            decode_file_header(damaged, "log/7")
    longest = FileHeader(LOG_KIND, 7, 88, 6, 5, 9, BookieId("b" * 241 + "@00000001"))
    assert decode_file_header(encode_file_header(longest), "x") == longest


def test_group_header_is_found_at_any_offset_and_only_if_it_is_complete() -> None:
    group = GroupHeader(3, 88, 4, 10, 20, 30, 40)
    raw = encode_group_header(group)
    for before in (0, 1, 50):
        data = bytes(before) + raw
        assert decode_group_header(data, before) == group
        assert decode_group_header(data + b"body", before) == group
        assert decode_group_header(data[:-1], before) is None
        assert decode_group_header(data, before + 1) is None
    other = b"\xf5RhX" + raw[4:-4]
    assert decode_group_header(other + struct.pack(">I", crc32c(other))) is None


def test_records_of_a_body_are_listed_with_their_offsets() -> None:
    body = b"".join(
        (encode_record(b""), encode_record(b"a" * 300), encode_record(b"", is_state=True))
    )
    assert list(iterate_records(body)) == [
        (8, b"", False),
        (16, b"a" * 300, False),
        (324, b"", True),
    ]
    assert list(iterate_records(b"")) == []
    for cut, message in ((body[:4], "byte 0 of 4$"), (body[:100], r"300 bytes is .* byte 100$")):
        with pytest.raises(CorruptionError, match=message):
            list(iterate_records(cut))
    with pytest.raises(CorruptionError, match="of 5 bytes"):
        list(iterate_records(encode_record(b"state", is_state=True)[:-1]))


def test_record_is_verified_with_its_header_at_any_offset() -> None:
    data = b"xyz" + encode_record(b"entry") + b"more"
    assert bytes(record_in(memoryview(data), 3, 5)) == b"entry"
    for at, length in ((2, 5), (4, 5), (3, 4), (3, 6), (3, 500)):
        with pytest.raises(CorruptionError):
            record_in(memoryview(data), at, length)
    assert isinstance(check_record(encode_record(b"entry"), 5), bytes)
