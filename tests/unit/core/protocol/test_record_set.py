"""Record sets: round trips, and CorruptionError for everything else."""

import contextlib
import random
import struct

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.errors import CorruptionError, InvalidArgumentError
from rhumbline.core.protocol.record_arrow import arrow_batch
from rhumbline.core.protocol.record_set import (
    EXTENSION_BYTES_MAX,
    HEADER,
    Kind,
    Producer,
    RecordSet,
    decode_entry,
    decode_extension,
    encode_control,
    encode_extension,
    encode_record_set,
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
    except CorruptionError:
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
