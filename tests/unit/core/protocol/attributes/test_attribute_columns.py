"""Columns of keys, headers and event times: round trips, one encoding, and typed refusals."""

import struct
from collections.abc import Callable

import crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.attributes.attribute_columns import (
    EVENT_TIMES,
    HEADERS,
    KEYS,
    AttributeBuilder,
    attribute_builder,
)
from rhumbline.core.protocol.attributes.attribute_values import (
    EVENT_TIME_MAX,
    EVENT_TIME_MIN,
    Attributes,
    Headers,
)
from rhumbline.core.protocol.compression import Codec
from rhumbline.core.protocol.errors import CorruptionError, ForeignDataError, RhumblineError
from rhumbline.core.protocol.record_arrow import arrow_batch
from rhumbline.core.protocol.record_set import (
    HEADER,
    RecordSet,
    decode_entry,
    encode_extension,
    encode_record_set,
    stamped,
)

NAMES = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=10)
ROWS = st.lists(
    st.builds(
        Attributes,
        st.none() | st.binary(max_size=12),
        st.none() | st.dictionaries(NAMES, st.binary(max_size=9), max_size=3),
        st.none() | st.integers(EVENT_TIME_MIN, EVENT_TIME_MAX),
    ),
    min_size=1,
    max_size=20,
)


def encode(rows: list[Attributes], **options: object) -> bytes:
    payloads = [b"%d" % number for number in range(len(rows))]
    return encode_record_set(
        payloads,
        first_txid=3,
        last_txid=3,
        attributes=attribute_builder(rows),
        **options,  # type: ignore[arg-type]
    )


def values_of(one: RecordSet) -> list[tuple[bytes | None, Headers, int | None]]:
    assert one.attributes is not None
    found = one.attributes
    return list(zip(found.keys(), found.headers(), found.event_times(), strict=True))


@given(ROWS, st.sampled_from(Codec), st.booleans())
def test_attributes_round_trip_beside_txids_and_extensions(
    rows: list[Attributes], codec: Codec, has_txids: bool
) -> None:
    count = len(rows)
    txids = list(range(1, count + 1)) if has_txids else [1] * count
    trace = encode_extension({1: b"trace"})
    encoded = encode_record_set(
        [b"p"] * count,
        first_txid=txids[0],
        last_txid=txids[-1],
        txids=txids,
        codec=codec,
        extension=trace,
        attributes=attribute_builder(rows),
    )
    (one,) = decode_entry(stamped(encoded, position=7))
    assert one.payloads() == [b"p"] * count
    assert list(one.txids()) == txids
    if not any(row.key is not None or row.headers or row.event_time is not None for row in rows):
        assert one.attributes is None
        assert one.extension == trace
        return
    assert one.extension.startswith(trace)
    assert values_of(one) == [(row.key, row.headers or {}, row.event_time) for row in rows]
    batch = arrow_batch(one, lssn=1, entry_id=0, with_positions=False, with_attributes=True)
    batch.validate(full=True)
    assert batch["key"].to_pylist() == [row.key for row in rows]
    assert batch["event_time"].to_pylist() == [row.event_time for row in rows]
    assert batch["headers"].to_pylist() == [
        list(row.headers.items()) if row.headers else None for row in rows
    ]


@given(ROWS)
def test_values_have_one_encoding(rows: list[Attributes]) -> None:
    encoded = encode(rows)
    (one,) = decode_entry(encoded)
    if one.attributes is not None:
        again = [Attributes(*row) for row in values_of(one)]
        assert encode(again) == encoded


def test_a_set_without_attributes_is_encoded_as_if_there_were_none() -> None:
    plain = encode_record_set([b"a", b"b"], first_txid=1, last_txid=1)
    nothing = [Attributes(None, None, None), Attributes(None, {}, None)]
    for builder in (AttributeBuilder(), attribute_builder(nothing)):
        assert (
            encode_record_set([b"a", b"b"], first_txid=1, last_txid=1, attributes=builder) == plain
        )


def test_a_key_may_be_empty_and_differs_from_none() -> None:
    (one,) = decode_entry(encode([Attributes(b"", None, None), Attributes(None, None, None)]))
    assert one.attributes is not None
    assert list(one.attributes.keys()) == [b"", None]


def test_columns_begin_at_multiples_of_eight_bytes() -> None:
    (one,) = decode_entry(encode([Attributes(b"k", {"a": b"1"}, 5)] * 3))
    views = one.attributes
    assert views is not None
    keys, headers, times = views.key_views(), views.header_views(), views.event_time_views()
    assert keys is not None
    assert headers is not None
    assert times is not None
    assert bytes(times[1]) == struct.pack("<3q", 5, 5, 5)
    assert b"".join(one.body())[:16] == bytes(8) + struct.pack("<q", 5)


# --- refusals -----------------------------------------------------------------------------------


def rebuilt(encoded: bytes, change: Callable[[bytearray, bytearray], None]) -> bytes:
    """Return the set with changed extension area and body, and matching checksums."""
    fields = list(HEADER.unpack_from(encoded))
    extension = bytearray(encoded[HEADER.size : HEADER.size + fields[6]])
    body = bytearray(encoded[HEADER.size + fields[6] :])
    change(extension, body)
    fields[6], fields[7], fields[8] = len(extension), len(body), len(body)
    fields[16] = crc32c.crc32c(bytes(body))
    header = HEADER.pack(*fields)[:-4]
    crc = crc32c.crc32c(bytes(extension), crc32c.crc32c(header))
    return header + struct.pack("<I", crc) + bytes(extension) + bytes(body)


def check_refused(encoded: bytes, error: type[RhumblineError], match: str) -> None:
    with pytest.raises(error, match=match):
        for one in decode_entry(encoded):
            if one.attributes is not None:
                one.attributes.check()
            one.payloads()


TIMES = [Attributes(None, None, 5), Attributes(None, None, None), Attributes(None, None, 7)]
KEYED = [Attributes(b"ab", None, None), Attributes(None, None, None), Attributes(b"c", None, None)]
HEADED = [Attributes(None, {"n": b"v"}, None), Attributes(None, {"x": b"", "y": b"w"}, None)]


def poke(at: int, layout: str, value: int) -> Callable[[bytearray, bytearray], None]:
    return lambda _, body: struct.pack_into(layout, body, at, value)


def poke_tag(at: int, layout: str, value: int) -> Callable[[bytearray, bytearray], None]:
    return lambda extension, _: struct.pack_into(layout, extension, at, value)


@pytest.mark.parametrize(
    ("rows", "change", "match"),
    [
        (TIMES, poke(0, "<I", 2), "bitmap of a column contradicts"),
        (TIMES, poke(0, "<I", 3), "bitmap does not fit"),
        (TIMES, poke(4, "<I", 1), "event times has a wrong size"),
        (TIMES, poke(8, "<B", 0b1101), "bitmap of a column contradicts"),
        (TIMES, poke(9, "<B", 1), "padding"),
        (TIMES, poke(24, "<q", 1), "absent event time is not 0"),
        (TIMES, poke(16, "<q", EVENT_TIME_MAX + 1), "event time is out of range"),
        (KEYED, poke(4, "<I", 1), "keys has a wrong size"),
        (KEYED, poke(16, "<i", 1), "offsets decrease"),
        (KEYED, poke(20, "<i", 9), "offsets decrease"),
        (KEYED, poke(24, "<i", 3), "absent key is not empty"),
        (KEYED, poke(28, "<i", 99), "offsets do not fit a column"),
        (KEYED, poke(28, "<i", -1), "offsets do not fit a column"),
        (KEYED, poke(35, "<B", 1), "padding"),
        (HEADED, poke(4, "<I", 2), "headers contradict|do not fit|wrong size|padding"),
        (HEADED, poke(8, "<i", 1), "headers contradict"),
        (HEADED, poke(12, "<i", 0), "wrong number"),
        (HEADED, poke(12, "<i", 4), "wrong number"),
        (HEADED, poke(40, "<B", 10), "printable ASCII"),
        (HEADED, poke(41, "<B", ord("y")), "occurs twice"),
        (TIMES, poke_tag(0, "<H", KEYS), "wrong size|offsets"),
        (TIMES, poke_tag(2, "<H", 3), "bad tag"),
        (TIMES, poke_tag(4, "<I", 41), "size of a column"),
        (TIMES, poke_tag(4, "<I", 4096), "size of a column"),
        (TIMES, poke_tag(4, "<I", 0), "size of a column"),
        (TIMES, poke_tag(0, "<H", 7), "contradict each other"),
        (TIMES, lambda extension, _: extension.clear(), "contradict each other"),
        (TIMES, lambda extension, _: extension.extend(b"\1"), "truncated"),
        (TIMES, lambda extension, _: extension.extend(extension), "bad tag"),
    ],
)
def test_columns_that_contradict_themselves_are_corrupt(
    rows: list[Attributes], change: Callable[[bytearray, bytearray], None], match: str
) -> None:
    check_refused(rebuilt(encode(rows), change), CorruptionError, match)


def test_a_required_extension_of_a_newer_version_is_refused_as_such() -> None:
    newer = rebuilt(encode(TIMES), poke_tag(0, "<H", HEADERS + 1))
    check_refused(newer, ForeignDataError, "required extension 0x8004 is not known")


def test_an_optional_extension_of_a_newer_version_is_ignored() -> None:
    newer = encode(TIMES, extension=encode_extension({9: b"later"}))
    (one,) = decode_entry(newer)
    assert one.attributes is not None
    assert list(one.attributes.event_times()) == [5, None, 7]


def test_a_program_before_attributes_refuses_sets_with_them() -> None:
    """Such a program knew flag 1 only, and refused every other one as corrupt."""
    assert HEADER.unpack_from(encode(TIMES))[4] == 2
    assert struct.unpack_from("<HHI", encode(TIMES), HEADER.size) == (EVENT_TIMES, 4, 40)


@given(ROWS, st.data())
def test_a_damaged_column_is_corrupt_or_harmless(
    rows: list[Attributes], data: st.DataObject
) -> None:
    encoded = encode(rows)

    def change(extension: bytearray, body: bytearray) -> None:
        target = data.draw(st.sampled_from([part for part in (extension, body) if part]))
        at = data.draw(st.integers(0, len(target) - 1))
        target[at] = data.draw(st.integers(0, 255))

    try:
        for one in decode_entry(rebuilt(encoded, change)):
            if one.attributes is not None:
                one.attributes.check()
            one.payloads()
    except (CorruptionError, ForeignDataError):
        pass
