"""Entries, digests and LAC bodies equal the bytes of Apache BookKeeper 4.17."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import CorruptionError, ProtocolError
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.wire.entry import (
    Entry,
    EntryDigest,
    decode_entry,
    decode_lac,
    encode_entry,
    encode_lac,
    master_key,
    peek_lac,
)

HEADER = "0000000000000007000000000000000300000000000000020000000000000014"
ENTRY_DIGESTS = {
    DigestType.CRC32C: "e9857074",
    DigestType.CRC32: "000000002190aea7",
    DigestType.HMAC: "ff80af4a2b5760bd40408670cef01600e4d8fa6f",
    DigestType.DUMMY: "",
}
LAC_DIGESTS = {
    DigestType.CRC32C: "9640a704",
    DigestType.CRC32: "0000000011d37726",
    DigestType.HMAC: "33245783ccc733f22c3d2a5aee2cdc4d1645d5ec",
    DigestType.DUMMY: "",
}
every_digest = pytest.mark.parametrize("kind", DigestType)


def digest_of(kind: DigestType) -> EntryDigest:
    return EntryDigest(kind, b"secret")


def test_master_key_equals_bookkeepers() -> None:
    assert master_key(b"secret").hex() == "e793cbc379107648537183605cd361d3bb789a39"
    assert master_key(b"").hex() == "850bf1071c5e3d8c24235676f8816ae0cbe2f14f"


@every_digest
def test_entry_has_the_bytes_of_bookkeeper(kind: DigestType) -> None:
    entry = encode_entry(digest_of(kind), 7, 3, 2, 20, b"hello")
    assert entry == bytes.fromhex(HEADER + ENTRY_DIGESTS[kind]) + b"hello"
    assert decode_entry(digest_of(kind), 7, 3, entry) == Entry(3, 2, 20, b"hello")


@every_digest
def test_lac_body_has_the_bytes_of_bookkeeper(kind: DigestType) -> None:
    body = encode_lac(digest_of(kind), 7, 3)
    assert body.hex() == "00000000000000070000000000000003" + LAC_DIGESTS[kind]
    assert decode_lac(digest_of(kind), 7, body) == 3
    assert peek_lac(body) == (7, 3)


@given(
    kind=st.sampled_from(DigestType),
    entry_id=st.integers(0, 2**63 - 1),
    gap=st.integers(1, 2**63),
    before=st.integers(0, 2**60),
    payload=st.binary(max_size=200),
)
def test_entries_round_trip(
    kind: DigestType, entry_id: int, gap: int, before: int, payload: bytes
) -> None:
    lac = max(-1, entry_id - gap)
    length = before + len(payload)
    entry = encode_entry(digest_of(kind), 9, entry_id, lac, length, payload)
    expected = Entry(entry_id, lac, length, payload)
    assert decode_entry(digest_of(kind), 9, entry_id, entry) == expected
    assert decode_entry(digest_of(kind), 9, -1, entry) == expected


@given(st.data())
def test_a_flipped_bit_is_always_detected(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([DigestType.CRC32C, DigestType.CRC32, DigestType.HMAC]))
    entry = bytearray(encode_entry(digest_of(kind), 7, 3, 2, 20, b"hello"))
    bit = data.draw(st.integers(0, len(entry) * 8 - 1))
    entry[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptionError):
        decode_entry(digest_of(kind), 7, -1, bytes(entry))


@every_digest
def test_every_truncation_of_an_entry_is_corrupt(kind: DigestType) -> None:
    digest = digest_of(kind)
    entry = encode_entry(digest, 7, 3, 2, 20, b"")
    for size in range(len(entry)):
        with pytest.raises(CorruptionError):
            decode_entry(digest, 7, 3, entry[:size])
    body = encode_lac(digest, 7, 3)
    for size in range(len(body)):
        with pytest.raises(CorruptionError):
            decode_lac(digest, 7, body[:size])


def test_the_bytes_of_another_ledger_or_entry_are_corrupt() -> None:
    digest = digest_of(DigestType.CRC32C)
    entry = encode_entry(digest, 7, 3, 2, 20, b"hello")
    with pytest.raises(CorruptionError, match="received ledger 7 entry 3"):
        decode_entry(digest, 8, 3, entry)
    with pytest.raises(CorruptionError, match="received ledger 7 entry 3"):
        decode_entry(digest, 7, 4, entry)
    with pytest.raises(CorruptionError):
        decode_lac(digest, 8, encode_lac(digest, 7, 3))
    with pytest.raises(CorruptionError, match="wrong CRC32C digest"):
        other = EntryDigest(DigestType.HMAC, b"other")
        decode_entry(digest, 7, 3, encode_entry(other, 7, 3, 2, 20, b"hello"))


@pytest.mark.parametrize(("entry_id", "lac", "length"), [(3, -2, 20), (3, 2, 4), (-5, -1, 20)])
def test_impossible_numbers_are_corrupt_even_with_a_good_digest(
    entry_id: int, lac: int, length: int
) -> None:
    digest = digest_of(DigestType.CRC32C)
    entry = encode_entry(digest, 7, entry_id, lac, length, b"hello")
    with pytest.raises(CorruptionError):
        decode_entry(digest, 7, entry_id, entry)


def test_a_copy_of_autorecovery_has_the_lac_of_the_whole_ledger() -> None:
    digest = digest_of(DigestType.CRC32C)
    entry = encode_entry(digest, 7, 3, 299, 20, b"hello")
    assert decode_entry(digest, 7, 3, entry).lac == 299


def test_an_explicit_lac_below_minus_one_is_rejected() -> None:
    digest = digest_of(DigestType.CRC32C)
    with pytest.raises(CorruptionError):
        decode_lac(digest, 7, encode_lac(digest, 7, -2))
    with pytest.raises(ProtocolError):
        peek_lac(encode_lac(digest, 7, -2))
    with pytest.raises(ProtocolError):
        peek_lac(b"short")
