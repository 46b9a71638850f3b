"""Record sets: round trips, and CorruptionError for everything else."""

import contextlib
import random
import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.core.protocol.compression import Codec, compress
from rhumbline.core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    InvalidArgumentError,
    RecordTooLargeError,
)
from rhumbline.core.protocol.record_arrow import arrow_batch
from rhumbline.core.protocol.record_set import (
    ENTRY_BYTES_MAX,
    EXTENSION_BYTES_MAX,
    HEADER,
    RAW_BYTES_MAX,
    RECORD_BYTES_MAX,
    TXID_END_OF_STREAM,
    TXID_FIRST,
    TXID_LAST,
    Kind,
    Producer,
    RecordSet,
    decode_entry,
    decode_extension,
    encode_control,
    encode_extension,
    encode_record_set,
    extended,
    has_extension,
    numbering,
    stamped,
)

PAYLOADS = st.lists(st.binary(max_size=40), min_size=1, max_size=30)


@st.composite
def encoded_sets(draw: st.DrawFn) -> tuple[list[bytes], list[int], bytes]:
    payloads = draw(PAYLOADS)
    txids = sorted(
        draw(st.lists(st.integers(1, 2**63 - 2), min_size=len(payloads), max_size=len(payloads)))
    )
    encoded = encode_record_set(
        payloads,
        first_txid=txids[0],
        last_txid=txids[-1],
        txids=txids,
        position=draw(st.integers(0, 2**40)),
        created_ms=draw(st.integers(0, 2**45)),
        producer=Producer(draw(st.binary(min_size=16, max_size=16)), draw(st.integers(0, 2**62))),
        codec=draw(st.sampled_from(Codec)),
        extension=draw(st.binary(max_size=20)),
    )
    return payloads, txids, encoded


@given(st.lists(encoded_sets(), min_size=1, max_size=4))
def test_slots_count_through_all_sets_of_an_entry(
    made: list[tuple[list[bytes], list[int], bytes]],
) -> None:
    sets = decode_entry(b"".join(encoded for _, _, encoded in made))
    assert [one.payloads() for one in sets] == [payloads for payloads, _, _ in made]
    assert [list(one.txids()) for one in sets] == [txids for _, txids, _ in made]
    slots = [0]
    for payloads, _, _ in made:
        slots.append(slots[-1] + len(payloads))
    assert [one.slot for one in sets] == slots[:-1]


@given(encoded_sets())
def test_arrow_views_equal_lists(made: tuple[list[bytes], list[int], bytes]) -> None:
    payloads, txids, encoded = made
    (one,) = decode_entry(encoded)
    plain = arrow_batch(one, lssn=3, entry_id=7, with_positions=False)
    assert plain.to_pydict() == {"txid": txids, "payload": payloads}
    count = len(payloads)
    assert arrow_batch(one, lssn=3, entry_id=7, with_positions=True).to_pydict() == {
        **plain.to_pydict(),
        "lssn": [3] * count,
        "entry_id": [7] * count,
        "created_ms": [one.created_ms] * count,
        "slot": list(range(count)),
    }


@pytest.mark.parametrize("offsets", [(0, 9, 4, 6), (0, 1, 2, 7), (-1, 1, 2, 6), (0, -5, 2, 6)])
def test_offsets_that_do_not_fit_are_corrupt_in_every_view(offsets: tuple[int, ...]) -> None:
    encoded = bytearray(encode_record_set([b"ab", b"cd", b"ef"], first_txid=1, last_txid=1))
    body = struct.pack("<4i", *offsets) + b"abcdef"
    raw_crc = crc32c.crc32c(body)
    encoded[-len(body) :] = body
    struct.pack_into("<I", encoded, HEADER.size - 8, raw_crc)
    header_crc = crc32c.crc32c(bytes(encoded[: HEADER.size - 4]))
    struct.pack_into("<I", encoded, HEADER.size - 4, header_crc)
    for (one,) in (decode_entry(bytes(encoded)), decode_entry(memoryview(encoded))):
        with pytest.raises(CorruptionError):
            one.payloads()
        with pytest.raises(CorruptionError):
            arrow_batch(one, lssn=1, entry_id=1, with_positions=False)
        with pytest.raises(CorruptionError):
            arrow_batch(one, lssn=1, entry_id=1, with_positions=True)


def test_header_fields_round_trip() -> None:
    encoded = encode_record_set(
        [b"a"],
        first_txid=7,
        last_txid=7,
        position=11,
        created_ms=13,
        producer=Producer(b"p" * 16, 17),
        extension=encode_extension({1: b"trace"}),
    )
    (one,) = decode_entry(encoded)
    assert (one.kind, one.count, one.first_txid, one.last_txid) == (Kind.DATA, 1, 7, 7)
    assert (one.position, one.created_ms, one.producer, one.first_sequence) == (
        11,
        13,
        b"p" * 16,
        17,
    )
    assert decode_extension(one.extension) == {1: b"trace"}
    assert not one.is_control


def test_equal_txids_are_not_stored() -> None:
    same = encode_record_set([b"x"] * 100, first_txid=5, last_txid=5)
    rising = encode_record_set([b"x"] * 100, first_txid=1, last_txid=100, txids=range(1, 101))
    assert len(rising) - len(same) == 800
    assert list(decode_entry(same)[0].txids()) == [5] * 100


def test_compression_is_skipped_where_it_does_not_help() -> None:
    text = [b"the same line again and again"] * 100
    plain = encode_record_set(text, first_txid=1, last_txid=1)
    coded = encode_record_set(text, first_txid=1, last_txid=1, codec=Codec.ZSTD)
    assert len(coded) < len(plain) // 5
    assert decode_entry(coded)[0].raw_crc == decode_entry(plain)[0].raw_crc
    noise = [random.Random(1).randbytes(1000)]
    assert len(encode_record_set(noise, first_txid=1, last_txid=1, codec=Codec.ZSTD)) <= len(
        encode_record_set(noise, first_txid=1, last_txid=1)
    )


def test_a_control_record_takes_one_slot_and_is_marked() -> None:
    entry = encode_control(Kind.FLUSH, txid=0, position=3, created_ms=1) + encode_record_set(
        [b"a", b"b"], first_txid=1, last_txid=1, position=3
    )
    control, data = decode_entry(entry)
    assert control.is_control
    assert (control.slot, data.slot) == (0, 1)


@given(encoded_sets(), st.integers(0, 2**40))
def test_stamping_changes_position_and_nothing_else(
    made: tuple[list[bytes], list[int], bytes], position: int
) -> None:
    payloads, txids, encoded = made
    (before,), (after,) = decode_entry(encoded), decode_entry(stamped(encoded, position=position))
    assert after.position == position
    assert after.raw_crc == before.raw_crc
    assert after.payloads() == payloads
    assert list(after.txids()) == txids


def test_stamping_a_txid_reaches_every_record_but_never_overrides_a_column() -> None:
    encoded = encode_record_set([b"a", b"b"], first_txid=1, last_txid=1)
    assert list(decode_entry(stamped(encoded, position=0, txid=9))[0].txids()) == [9, 9]
    columned = encode_record_set([b"a", b"b"], first_txid=1, last_txid=2, txids=[1, 2])
    with pytest.raises(InvalidArgumentError):
        stamped(columned, position=0, txid=9)


def _touch(one: RecordSet) -> None:
    one.payloads()
    one.txids()
    arrow_batch(one, lssn=1, entry_id=1, with_positions=True)
    decode_extension(one.extension)


@given(st.binary(max_size=300))
def test_random_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_entry(data)


@given(encoded_sets(), st.data())
def test_a_truncated_or_extended_set_is_corrupt(
    made: tuple[list[bytes], list[int], bytes], data: st.DataObject
) -> None:
    encoded = made[2]
    with pytest.raises(CorruptionError):
        decode_entry(encoded[: data.draw(st.integers(0, len(encoded) - 1))])
    with pytest.raises(CorruptionError):
        decode_entry(encoded + data.draw(st.binary(min_size=1, max_size=100)))


@given(encoded_sets(), st.data())
def test_any_flipped_bit_is_found(
    made: tuple[list[bytes], list[int], bytes], data: st.DataObject
) -> None:
    encoded = bytearray(made[2])
    bit = data.draw(st.integers(0, 8 * len(encoded) - 1))
    encoded[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptionError):
        decode_entry(bytes(encoded))


@settings(max_examples=300)
@given(encoded_sets(), st.data())
def test_wrong_content_with_a_good_checksum_raises_only_typed_errors(
    made: tuple[list[bytes], list[int], bytes], data: st.DataObject
) -> None:
    """A faulty or hostile producer sends any body and header fields with correct checksums."""
    import crc32c

    encoded = made[2]
    size = HEADER.size
    fields = list(HEADER.unpack_from(encoded))
    body = bytearray(encoded[size + fields[6] :])
    if body:
        body[data.draw(st.integers(0, len(body) - 1))] ^= data.draw(st.integers(0, 255))
    changed = data.draw(st.sampled_from([None, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]))
    if changed is not None:
        limit = {3: 255, 4: 255, 2: 255}.get(changed, 2**31 - 1)
        fields[changed] = data.draw(st.integers(0, limit))
    fields[-2] = crc32c.crc32c(bytes(body))
    header = HEADER.pack(*fields)[:-4]
    extension = encoded[size : size + fields[6]]
    fields[-1] = crc32c.crc32c(extension, crc32c.crc32c(header))
    try:
        for one in decode_entry(HEADER.pack(*fields) + extension + bytes(body)):
            _touch(one)
    except (CorruptionError, ForeignDataError):  # ForeignDataError: an unknown required extension
        pass


def test_a_compression_bomb_is_rejected_before_it_is_decompressed() -> None:
    import crc32c
    import zstandard

    bomb = zstandard.ZstdCompressor().compress(bytes(50_000_000))
    fields = list(HEADER.unpack_from(encode_record_set([b"x" * 500], first_txid=1, last_txid=1)))
    fields[3], fields[8] = Codec.ZSTD, len(bomb)
    fields[-1] = crc32c.crc32c(HEADER.pack(*fields)[:-4])
    with pytest.raises(CorruptionError):
        decode_entry(HEADER.pack(*fields) + bomb)


@given(st.dictionaries(st.integers(0, 65535), st.binary(max_size=50), max_size=8))
def test_extensions_round_trip(values: dict[int, bytes]) -> None:
    assert decode_extension(encode_extension(values)) == values


@given(st.binary(max_size=60))
def test_random_extensions_are_decoded_or_corrupt(area: bytes) -> None:
    with contextlib.suppress(CorruptionError):
        assert sum(map(len, decode_extension(area).values())) <= len(area)


def test_too_large_extensions_are_rejected() -> None:
    with pytest.raises(InvalidArgumentError):
        encode_extension({1: bytes(EXTENSION_BYTES_MAX)})


def test_the_bytes_are_those_of_the_documented_format() -> None:
    encoded = encode_record_set(
        [b"ab", b"c"],
        first_txid=5,
        last_txid=9,
        txids=[5, 9],
        position=11,
        producers_entry=12,
        created_ms=13,
        producer=Producer(b"P" * 16, 14),
        extension=b"ext",
    )
    raw = struct.pack("<2q3i", 5, 9, 0, 2, 3) + b"abc"
    header = struct.pack(
        "<4s4B4I5q16sqI",
        b"RhRS", 1, 0, 0, 1, 2, 3, len(raw), len(raw), 5, 9, 11, 12, 13, b"P" * 16, 14,
        crc32c.crc32c(raw),
    )  # fmt: skip
    assert encoded == header + struct.pack("<I", crc32c.crc32c(header + b"ext")) + b"ext" + raw
    assert len(header) == 92
    (one,) = decode_entry(encoded)
    assert (b"".join(one.body()), one.raw_crc, one.extension) == (raw, crc32c.crc32c(raw), b"ext")
    assert one.producers_entry == 12


def test_a_set_says_nothing_that_it_was_not_given() -> None:
    (one,) = decode_entry(encode_record_set([b"a"], first_txid=1, last_txid=1))
    assert (one.kind, one.position, one.producers_entry, one.created_ms) == (Kind.DATA, 0, -1, 0)
    assert (one.producer, one.first_sequence, one.extension) == (bytes(16), -1, b"")


def test_the_numbers_of_the_kinds_are_those_of_the_format() -> None:
    assert [kind.name for kind in sorted(Kind)] == [
        "DATA", "FLUSH", "KEEPALIVE", "END_OF_STREAM", "PRODUCERS", "ERASED",
    ]  # fmt: skip
    assert sorted(Kind) == list(range(6))


def test_a_control_record_keeps_its_fields() -> None:
    encoded = encode_control(
        Kind.PRODUCERS, txid=4, position=3, created_ms=2, producers_entry=8, data=b"table"
    )
    (one,) = decode_entry(encoded)
    assert (one.kind, one.count, one.payloads()) == (Kind.PRODUCERS, 1, [b"table"])
    assert (one.first_txid, one.last_txid, one.position) == (4, 4, 3)
    assert (one.created_ms, one.producers_entry) == (2, 8)
    (end,) = decode_entry(
        encode_control(Kind.END_OF_STREAM, txid=TXID_END_OF_STREAM, position=0, created_ms=1)
    )
    assert (end.first_txid, end.producers_entry, end.payloads()) == (2**63 - 1, -1, [b""])


def test_sizes_and_searches_of_a_set() -> None:
    (one,) = decode_entry(
        encode_record_set([b"", b"abc", b"ab"], first_txid=3, last_txid=8, txids=[3, 8, 8])
    )
    assert one.largest_bytes() == one.largest_bytes(unless_below=4) == 3
    assert one.largest_bytes(unless_below=5) == 5  # of all payloads, none of which can be larger
    assert [one.first_at_txid(txid) for txid in (1, 3, 4, 8, 9)] == [0, 0, 1, 1, 3]
    assert bytes(one.offsets_view()) == struct.pack("<4i", 0, 0, 3, 5)
    assert bytes(one.payload_buffer()) == b"abcab"
    txids = one.txids_view()
    assert txids is not None
    assert bytes(txids) == struct.pack("<3q", 3, 8, 8)
    (same,) = decode_entry(encode_record_set([b"x"] * 3, first_txid=4, last_txid=4))
    assert same.txids_view() is None
    assert [same.first_at_txid(txid) for txid in (4, 5)] == [0, 3]


def with_fields(encoded: bytes, body: bytes | None = None, **changes: int) -> bytes:
    """Return the set with other header fields or another body, and correct checksums."""
    names = [
        "magic", "version", "kind", "codec", "flags", "count", "extension_bytes", "raw_bytes",
        "coded_bytes", "first_txid", "last_txid", "position", "producers_entry", "created_ms",
    ]  # fmt: skip
    fields = list(HEADER.unpack_from(encoded))
    body = encoded[HEADER.size :] if body is None else body
    for name, value in changes.items():
        fields[names.index(name)] = value
    fields[-2] = crc32c.crc32c(body)
    fields[-1] = crc32c.crc32c(HEADER.pack(*fields)[:-4])
    return HEADER.pack(*fields) + body


ONE = encode_record_set([b"a"], first_txid=1, last_txid=1)
TWO = encode_record_set([b"a", b"b"], first_txid=1, last_txid=2, txids=[1, 2])
CONTROL = encode_control(Kind.FLUSH, txid=0, position=0, created_ms=0)


@pytest.mark.parametrize("encoded", [ONE, TWO, CONTROL, with_fields(CONTROL, kind=200)])
def test_sets_with_unchanged_fields_are_decoded(encoded: bytes) -> None:
    (one,) = decode_entry(with_fields(encoded))
    assert one.is_control is (one.kind != Kind.DATA)


@pytest.mark.parametrize(
    "encoded",
    [
        with_fields(ONE, version=2),
        with_fields(ONE, version=0),
        with_fields(ONE, codec=2),
        with_fields(ONE, flags=2),
        with_fields(ONE, flags=1),
        with_fields(TWO, flags=0),
        with_fields(TWO, flags=3),
        with_fields(ONE, count=0),
        with_fields(ONE, count=2),
        with_fields(ONE, position=-1),
        with_fields(ONE, producers_entry=-2),
        with_fields(ONE, first_txid=0, last_txid=0),
        with_fields(ONE, last_txid=2),
        with_fields(TWO, first_txid=2, last_txid=1),
        with_fields(TWO, last_txid=1),
        with_fields(TWO, kind=Kind.FLUSH),
        with_fields(CONTROL, first_txid=-1, last_txid=-1),
        with_fields(ONE, raw_bytes=RAW_BYTES_MAX + 1),
        with_fields(ONE, raw_bytes=8),
        with_fields(ONE, extension_bytes=1),
        with_fields(ONE, coded_bytes=8),
        with_fields(ONE, coded_bytes=10),
    ],
)
def test_inconsistent_fields_are_corrupt_although_their_checksums_are_right(encoded: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_entry(encoded)


@pytest.mark.parametrize("txids", [(2, 2), (1, 1), (1, 3), (0, 2)])
def test_txids_that_differ_from_the_header_are_corrupt(txids: tuple[int, int]) -> None:
    body = struct.pack("<2q", *txids) + TWO[HEADER.size + 16 :]
    (one,) = decode_entry(with_fields(TWO, body))
    with pytest.raises(CorruptionError):
        one.txids()


def test_txids_that_decrease_between_equal_ends_are_corrupt() -> None:
    three = encode_record_set([b"a"] * 3, first_txid=1, last_txid=9, txids=[1, 5, 9])
    for column in ([1, 0, 9], [1, 10, 9]):
        (one,) = decode_entry(with_fields(three, struct.pack("<3q", *column) + three[-19:]))
        with pytest.raises(CorruptionError):
            one.txids()
    (one,) = decode_entry(with_fields(three, struct.pack("<3q", 1, 1, 9) + three[-19:]))
    assert list(one.txids()) == [1, 1, 9]


def test_a_set_may_be_as_large_as_the_limit() -> None:
    fitting = bytes(RAW_BYTES_MAX - 8)
    encoded = encode_record_set([fitting], first_txid=1, last_txid=1)
    assert decode_entry(encoded)[0].largest_bytes() == len(fitting)
    with pytest.raises(RecordTooLargeError, match=str(RAW_BYTES_MAX)):
        encode_record_set([fitting + b"x"], first_txid=1, last_txid=1)


def test_compression_that_saves_nothing_is_not_used() -> None:
    (one,) = decode_entry(encode_record_set([b"x"], first_txid=1, last_txid=1, codec=Codec.ZSTD))
    assert one.raw_bytes == 9
    assert (
        HEADER.unpack_from(encode_record_set([b"x"], first_txid=1, last_txid=1, codec=Codec.ZSTD))[
            3
        ]
        == Codec.NONE
    )


def test_stamping_sets_position_snapshot_and_txid_and_keeps_the_extension() -> None:
    encoded = encode_record_set([b"a", b"b"], first_txid=1, last_txid=1, extension=b"ext")
    (one,) = decode_entry(stamped(encoded, position=7, producers_entry=5, txid=9))
    assert (one.position, one.producers_entry) == (7, 5)
    assert (one.first_txid, one.last_txid) == (9, 9)
    assert one.extension == b"ext"
    (kept,) = decode_entry(stamped(encoded, position=7))
    assert (kept.producers_entry, kept.first_txid, kept.last_txid) == (-1, 1, 1)
    (columned,) = decode_entry(stamped(TWO, position=3))
    assert (columned.first_txid, columned.last_txid, columned.position) == (1, 2, 3)


def test_numbering_reads_the_header_only() -> None:
    encoded = encode_record_set(
        [b"a", b"b", b"c"], first_txid=1, last_txid=1, producer=Producer(b"Q" * 16, 40)
    )
    assert numbering(encoded[: HEADER.size]) == (3, Producer(b"Q" * 16, 40))
    assert numbering(ONE) == (1, Producer(bytes(16), -1))
    with pytest.raises(InvalidArgumentError):
        numbering(encoded[: HEADER.size - 1])


def test_an_extension_is_added_without_another_change() -> None:
    area = encode_extension({7: b"trace"})
    assert not has_extension(TWO)
    changed = extended(TWO, area)
    assert has_extension(changed)
    assert changed == encode_record_set(
        [b"a", b"b"], first_txid=1, last_txid=2, txids=[1, 2], extension=area
    )


def test_extensions_are_tag_length_value_in_order_of_tags() -> None:
    assert encode_extension({2: b"xy", 1: b""}) == struct.pack("<4H", 1, 0, 2, 2) + b"xy"
    assert encode_extension({}) == b""
    largest = {1: bytes(EXTENSION_BYTES_MAX - 4)}
    assert decode_extension(encode_extension(largest)) == largest
    assert EXTENSION_BYTES_MAX == 4096
    with pytest.raises(InvalidArgumentError):
        encode_extension({1: bytes(EXTENSION_BYTES_MAX - 7), 2: b""})


@pytest.mark.parametrize("area", [b"\1", b"\1\0\0", b"\1\0\2\0x", b"\1\0\0\0\1\0\0\0"])
def test_truncated_or_doubled_extensions_are_corrupt(area: bytes) -> None:
    with pytest.raises(CorruptionError):
        decode_extension(area)


def test_an_extension_may_be_as_large_as_the_limit() -> None:
    area = bytes(EXTENSION_BYTES_MAX)
    (one,) = decode_entry(encode_record_set([b"a"], first_txid=1, last_txid=1, extension=area))
    assert one.extension == area
    assert has_extension(extended(ONE, area))
    longer = struct.pack("<I", EXTENSION_BYTES_MAX + 1)
    header = bytearray(ONE[: HEADER.size])
    header[12:16] = longer
    extension = bytes(EXTENSION_BYTES_MAX + 1)
    header[-4:] = struct.pack("<I", crc32c.crc32c(bytes(header[:-4]) + extension))
    with pytest.raises(CorruptionError, match="sizes"):
        decode_entry(bytes(header) + extension + ONE[HEADER.size :])


def test_limits_are_those_of_the_format() -> None:
    assert (RECORD_BYTES_MAX, ENTRY_BYTES_MAX) == (1_048_576, 3_670_016)
    assert (RAW_BYTES_MAX, EXTENSION_BYTES_MAX) == (16_777_216, 4096)
    assert (TXID_FIRST, TXID_LAST, TXID_END_OF_STREAM) == (1, 2**63 - 2, 2**63 - 1)


@pytest.mark.parametrize("offsets", [(1, 1), (0, 0), (0, 2), (1, 0), (-1, 1)])
def test_wrong_offsets_of_a_single_record_are_corrupt(offsets: tuple[int, int]) -> None:
    (one,) = decode_entry(with_fields(ONE, struct.pack("<2i", *offsets) + b"a"))
    with pytest.raises(CorruptionError):
        one.payloads()
    for unless_below in (0, 100):
        with pytest.raises(CorruptionError):
            one.largest_bytes(unless_below)


@pytest.mark.parametrize("offsets", [(0, 2, 1, 3), (1, 1, 2, 3), (0, 1, 2, 2), (0, -1, 2, 3)])
def test_wrong_offsets_of_several_records_are_corrupt(offsets: tuple[int, ...]) -> None:
    three = encode_record_set([b"a"] * 3, first_txid=1, last_txid=1)
    (one,) = decode_entry(with_fields(three, struct.pack("<4i", *offsets) + b"aaa"))
    for unless_below in (0, 100):
        with pytest.raises(CorruptionError):
            one.largest_bytes(unless_below)


def test_a_body_that_compression_leaves_as_long_as_it_was_stays_raw() -> None:
    noise = random.Random(1).randbytes(200)
    bodies = [noise[:size] + bytes(zeros) for size in range(200) for zeros in range(40)]
    even = next(
        body
        for body in bodies
        if len(compress(Codec.ZSTD, raw := struct.pack("<2i", 0, len(body)) + body)) == len(raw)
    )
    plain = encode_record_set([even], first_txid=1, last_txid=1)
    assert encode_record_set([even], first_txid=1, last_txid=1, codec=Codec.ZSTD) == plain
