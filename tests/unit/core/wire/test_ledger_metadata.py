"""Ledger metadata equals the bytes of Apache BookKeeper 4.17; older versions are decoded."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError
from rhumbline.core.protocol.ledger_metadata import (
    R_KEY,
    DigestType,
    Fragment,
    LedgerMetadata,
    LedgerState,
)
from rhumbline.core.wire.formats_pb2 import LedgerMetadataFormat
from rhumbline.core.wire.ledger_metadata import decode, encode

HEADER = b"BookieMetadataFormatVersion\t%d\n"
NAMES = ("127.0.0.1:24192", "127.0.0.1:24191", "127.0.0.1:24193")
BOOKIES = tuple(BookieId(name) for name in NAMES)
BOOKIES_HEX = "".join("0a0f" + name.encode().hex() for name in NAMES)

OPEN_HEX = (
    "426f6f6b69654d65746164617461466f726d617456657273696f6e09330a"
    f"5f 0803 1003 1800 20ffffffffffffffffff01 2801 3235 {BOOKIES_HEX} 1000"
    "3803 42056669727374 4802 60efb5a49cd6f5d69a7a"
)
OPEN = LedgerMetadata(
    ledger_id=1,
    ensemble_size=3,
    write_quorum=3,
    ack_quorum=2,
    fragments=(Fragment(0, BOOKIES),),
    password=b"first",
    creation_token=1,
)
CLOSED_HEX = (
    HEADER.replace(b"%d", b"3").hex()
    + f"57 0803 1003 180a 2001 2803 3235 {BOOKIES_HEX} 1000"
    + "3803 4206736563726574 4802 5a060a016b120176 6000"
)
CLOSED = replace(
    OPEN,
    state=LedgerState.CLOSED,
    last_entry_id=1,
    length=10,
    password=b"secret",
    custom={"k": b"v"},
    creation_token=0,
)


def test_an_open_ledger_has_the_bytes_of_bookkeeper() -> None:
    data = bytes.fromhex(OPEN_HEX)
    found = decode(1, data)
    assert found == replace(OPEN, creation_token=found.creation_token)
    assert found.creation_token > 0
    assert encode(found) == data


def test_a_closed_ledger_has_the_bytes_of_bookkeeper() -> None:
    data = bytes.fromhex(CLOSED_HEX)
    assert decode(1, data) == CLOSED
    assert encode(CLOSED) == data


def test_an_open_ledger_has_no_end() -> None:
    recovering = replace(OPEN, state=LedgerState.IN_RECOVERY, last_entry_id=7, length=70)
    found = decode(1, encode(recovering))
    assert (found.state, found.last_entry_id, found.length) == (LedgerState.IN_RECOVERY, -1, 0)


def test_a_rewrite_by_java_keeps_our_keys_and_loses_the_token() -> None:
    ours = replace(OPEN, custom={R_KEY: b"0:2", "other.key": b"\x00\xff"})
    rewritten = decode(1, encode(replace(ours, creation_token=0)))
    assert rewritten.creation_token == 0
    assert rewritten.custom == ours.custom
    assert rewritten.quorum_at(5).min_regions == 2


def test_version_2_text_is_decoded() -> None:
    text = HEADER % 2 + (
        b"quorumSize: 2\nensembleSize: 3\nlength: 10\nlastEntryId: 1\nstate: CLOSED\n"
        b'segment {\n  ensembleMember: "a:1"\n  ensembleMember: "b:1"\n'
        b'  ensembleMember: "c:1"\n  firstEntryId: 0\n}\n'
        b'digestType: HMAC\npassword: "\\001x"\nackQuorumSize: 1\n'
        b'customMetadata {\n  key: "k"\n  value: "v"\n}\n'
    )
    found = decode(4, text)
    assert (found.write_quorum, found.ensemble_size, found.ack_quorum) == (2, 3, 1)
    assert found.state is LedgerState.CLOSED
    assert found.digest_type is DigestType.HMAC
    assert found.password == b"\x01x"
    assert found.custom == {"k": b"v"}
    assert decode(4, encode(found)) == found


@pytest.mark.parametrize(
    ("last_line", "state", "end"),
    [
        (b"", LedgerState.OPEN, (-1, 0)),
        (b"-102\tCLOSED", LedgerState.IN_RECOVERY, (-1, 0)),
        (b"7\tCLOSED", LedgerState.CLOSED, (7, 70)),
        (b"7\tCLOSED\n", LedgerState.CLOSED, (7, 70)),
    ],
)
def test_version_1_lines_are_decoded(
    last_line: bytes, state: LedgerState, end: tuple[int, int]
) -> None:
    found = decode(4, HEADER % 1 + b"2\n3\n70\n0\ta:1\tb:1\tc:1\n5\ta:1\td:1\tc:1\n" + last_line)
    assert found.state is state
    assert (found.last_entry_id, found.length) == end
    assert (found.write_quorum, found.ensemble_size, found.ack_quorum) == (2, 3, 2)
    assert [fragment.first_entry_id for fragment in found.fragments] == [0, 5]
    assert found.fragments[1].bookies == ("a:1", "d:1", "c:1")


def test_without_an_ack_quorum_all_copies_must_acknowledge() -> None:
    message = LedgerMetadataFormat.FromString(bytes.fromhex(CLOSED_HEX)[31:])
    message.ClearField("ackQuorumSize")
    body = message.SerializeToString()
    assert decode(1, HEADER % 3 + bytes([len(body)]) + body).ack_quorum == 3


names = st.from_regex(r"[a-z0-9:\-_.]{1,20}(@[0-9a-f]{8})?", fullmatch=True)


@st.composite
def ledgers(draw: st.DrawFn) -> LedgerMetadata:
    size = draw(st.integers(1, 5))
    write_quorum = draw(st.integers(1, size))
    ack_quorum = draw(st.integers(1, write_quorum))
    firsts = [0, *sorted(draw(st.sets(st.integers(1, 2**62), max_size=3)))]
    ensembles = st.lists(
        names.filter(lambda n: n != "readonly"), min_size=size, max_size=size, unique=True
    )
    metadata = LedgerMetadata(
        ledger_id=draw(st.integers(0, 2**63 - 1)),
        ensemble_size=size,
        write_quorum=write_quorum,
        ack_quorum=ack_quorum,
        fragments=tuple(Fragment(first, tuple(map(BookieId, draw(ensembles)))) for first in firsts),
        digest_type=draw(st.sampled_from(DigestType)),
        password=draw(st.binary(max_size=20)),
        custom=draw(
            st.dictionaries(
                st.text(max_size=9).filter(lambda k: k != R_KEY and _is_utf8(k)),
                st.binary(max_size=9),
                max_size=3,
            )
        ),
        created_ms=draw(st.none() | st.integers(0, 2**60)),
        creation_token=draw(st.integers(0, 2**63 - 1)),
    )
    if draw(st.booleans()):
        metadata = metadata.in_recovery()
    if draw(st.booleans()):
        last = draw(st.integers(firsts[-1] - 1, 2**63 - 1))
        return metadata.closed(last, draw(st.integers(0, 2**63 - 1)))
    return metadata


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


@given(ledgers())
def test_metadata_round_trips(metadata: LedgerMetadata) -> None:
    assert decode(metadata.ledger_id, encode(metadata)) == metadata


def test_the_order_of_custom_keys_does_not_matter() -> None:
    one = replace(OPEN, custom={"a": b"1", "b": b"2"})
    other = replace(OPEN, custom={"b": b"2", "a": b"1"})
    assert encode(one) == encode(other)


def test_every_truncation_is_corrupt() -> None:
    for data in (bytes.fromhex(OPEN_HEX), bytes.fromhex(CLOSED_HEX)):
        for size in range(len(data)):
            with pytest.raises(CorruptionError):
                decode(1, data[:size])
        with pytest.raises(CorruptionError):
            decode(1, data + b"\x00")


def message(**changes: object) -> bytes:
    found = LedgerMetadataFormat.FromString(bytes.fromhex(CLOSED_HEX)[31:])
    for name, value in changes.items():
        setattr(found, name, value)
    body = found.SerializeToString()
    return HEADER % 3 + len(body).to_bytes(1, "big") + body


@pytest.mark.parametrize(
    "data",
    [
        b"",
        HEADER % 4 + b"\x00",
        HEADER % 3 + b"\xff\xff\xff\xff\xff\x01",
        message(ackQuorumSize=4),  # more acknowledgements than copies: an illegal quorum
        message(ackQuorumSize=0),
        message(ensembleSize=2),
        message(lastEntryId=-2),
        message(length=-1),
        HEADER % 2 + b"quorumSize: 2",
        HEADER % 2 + b"unknown: 2",
        HEADER % 2 + b"\xff",
        HEADER % 1 + b"2\n3\n70\n",
        HEADER % 1 + b"2\n3\nx\n0\ta:1\tb:1\tc:1\n",
        HEADER % 1 + b"2\n3\n70\n0\ta:1\tb:1\treadonly\n",
        HEADER % 1 + b"2\n3\n70\n0\ta:1\tb:1\tc:1\n-5\tCLOSED",
        HEADER % 1 + "2\n3\n70\n\u0660\ta:1\tb:1\tc:1".encode(),
    ],
)
def test_impossible_metadata_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="ledger 1"):
        decode(1, data)


def test_malformed_bookie_ids_are_corrupt() -> None:
    for name in (b"\xff", b"a b", b"", b"readonly"):
        found = LedgerMetadataFormat.FromString(bytes.fromhex(CLOSED_HEX)[31:])
        found.segment[0].ensembleMember[1] = name
        body = found.SerializeToString()
        with pytest.raises(CorruptionError):
            decode(1, HEADER % 3 + bytes([len(body)]) + body)
