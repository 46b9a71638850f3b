"""v2 packets equal the bytes that Apache BookKeeper 4.17's client and bookie sent."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rhumbline.core.protocol.errors import ProtocolError
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.wire import v2
from rhumbline.core.wire.bookkeeper_pb2 import AuthMessage
from rhumbline.core.wire.entry import EntryDigest, encode_entry, master_key

KEY = master_key(b"secret")
K = KEY.hex()
L = "000000000000006f"
N0, N1, N2, LAST = (f"{n:016x}" for n in (0, 1, 2, 2**64 - 1))
CRC32C = EntryDigest(DigestType.CRC32C, b"secret")
ENTRY_0 = encode_entry(CRC32C, 0x6F, 0, -1, 5, b"hello")
ENTRY_1 = encode_entry(CRC32C, 0x6F, 1, 0, 10, b"world")
RECOVERY_READ = v2.FLAG_FENCE | v2.FLAG_HIGH_PRIORITY
RECOVERY_ADD = v2.FLAG_RECOVERY_ADD | v2.FLAG_HIGH_PRIORITY

BATCH_HEX = f"00000028 02070000 {L}{N0} 0000000000000026 00000002 0000000000500000"
REQUESTS = {
    "add 0": (
        f"00000041 02010000 {K} {L}{N0} {LAST} 0000000000000005 f3d95a84 68656c6c6f",
        v2.encode_add(KEY, ENTRY_0),
        v2.AddRequest(0, KEY, 0x6F, 0, -1, ENTRY_0),
    ),
    "add 1": (
        f"00000041 02010000 {K} {L}{N1} {N0} 000000000000000a f6efa9f8 776f726c64",
        v2.encode_add(KEY, ENTRY_1),
        v2.AddRequest(0, KEY, 0x6F, 1, 0, ENTRY_1),
    ),
    "recovery add": (
        f"00000041 02010006 {K} {L}{N1} {N0} 000000000000000a f6efa9f8 776f726c64",
        v2.encode_add(KEY, ENTRY_1, RECOVERY_ADD),
        v2.AddRequest(6, KEY, 0x6F, 1, 0, ENTRY_1),
    ),
    "read 0": (
        f"00000014 02020000 {L}{N0}",
        v2.encode_read(0x6F, 0),
        v2.ReadRequest(0, 0x6F, 0, b""),
    ),
    "fence -1": (
        f"00000028 02020001 {L}{LAST}{K}",
        v2.encode_read(0x6F, -1, v2.FLAG_FENCE, KEY),
        v2.ReadRequest(1, 0x6F, -1, KEY),
    ),
    "recovery read": (
        f"00000028 02020005 {L}{N1}{K}",
        v2.encode_read(0x6F, 1, RECOVERY_READ, KEY),
        v2.ReadRequest(5, 0x6F, 1, KEY),
    ),
    "batch read": (
        BATCH_HEX,
        v2.encode_batch_read(0x6F, 0, 0x26, count_max=2, bytes_max=0x500000),
        v2.BatchReadRequest(0, 0x6F, 0, 0x26, 2, 0x500000, b""),
    ),
}
RESPONSES = {
    "added": (
        f"00000018 02010000 00000000 {L}{N0}",
        v2.encode_add_response(v2.Code.OK, 0x6F, 0),
        v2.AddResponse(0, 0x6F, 0),
    ),
    "fenced": (
        f"00000018 02010000 00000068 {L}{N2}",
        v2.encode_add_response(v2.Code.FENCED, 0x6F, 2),
        v2.AddResponse(104, 0x6F, 2),
    ),
    "read": (
        f"00000041 02020000 00000000 {L}{N0} {ENTRY_0.hex()}",
        v2.encode_read_response(v2.Code.OK, 0x6F, 0, ENTRY_0),
        v2.ReadResponse(0, 0x6F, 0, ENTRY_0),
    ),
    "nothing there": (
        f"00000018 02020000 00000001 {L}{LAST}",
        v2.encode_read_response(v2.Code.NO_LEDGER, 0x6F, -1),
        v2.ReadResponse(1, 0x6F, -1, b""),
    ),
    "batch": (
        f"0000007a 02070000 00000000 {L}{N0} 0000000000000026 "
        f"00000029 {ENTRY_0.hex()} 00000029 {ENTRY_1.hex()}",
        v2.encode_batch_read_response(v2.Code.OK, 0x6F, 0, 0x26, [ENTRY_0, ENTRY_1]),
        v2.BatchReadResponse(0, 0x6F, 0, 0x26, [ENTRY_0, ENTRY_1]),
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_equal_bookkeepers(name: str) -> None:
    expected, frame, request = REQUESTS[name]
    assert frame == bytes.fromhex(expected)
    assert v2.decode_request(frame[4:]) == request


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_equal_bookkeepers(name: str) -> None:
    expected, frame, response = RESPONSES[name]
    assert frame == bytes.fromhex(expected)
    assert v2.decode_response(frame[4:]) == response


def test_an_add_response_has_28_bytes_and_a_fixed_first_word() -> None:
    frame = v2.encode_add_response(0, 1, 2)
    assert len(frame) == v2.ADD_RESPONSE_BYTES == 28
    assert v2.RESPONSE.unpack(frame) == (v2.ADD_RESPONSE_WORD, 0, 1, 2)


def test_an_auth_message_is_the_same_in_both_directions() -> None:
    frame = v2.encode_auth("rhumbline", b"\x01\x00b")
    assert frame[4:8] == bytes.fromhex("02030000")
    assert v2.decode_request(frame[4:]) == v2.AuthRequest("rhumbline", b"\x01\x00b")
    assert v2.decode_response(frame[4:]) == v2.AuthResponse("rhumbline", b"\x01\x00b")
    short = v2.encode_auth("", b"")
    assert v2.decode_response(short[4:]) == v2.AuthResponse("", b"")


@given(
    entry_id=st.integers(0, 2**63 - 1),
    length=st.integers(0, 2**40),
    payload=st.binary(max_size=100),
    kind=st.sampled_from(DigestType),
)
def test_a_new_add_is_the_add_of_its_entry(
    entry_id: int, length: int, payload: bytes, kind: DigestType
) -> None:
    digest = EntryDigest(kind, b"x")
    entry = encode_entry(digest, 5, entry_id, entry_id - 1, length, payload)
    frame = v2.encode_new_add(digest, KEY, 5, entry_id, entry_id - 1, length, payload)
    assert frame == v2.encode_add(KEY, entry)
    assert v2.entry_of_add(frame) == entry
    assert v2.decode_request(frame[4:]) == v2.AddRequest(0, KEY, 5, entry_id, entry_id - 1, entry)


@given(
    ledger_id=st.integers(0, 2**63 - 1),
    first=st.integers(0, 2**63 - 1),
    number=st.integers(-(2**63), 2**63 - 1),
    count=st.integers(-(2**31), 2**31 - 1),
    size=st.integers(-(2**63), 2**63 - 1),
    is_fencing=st.booleans(),
)
def test_batch_reads_round_trip(
    ledger_id: int, first: int, number: int, count: int, size: int, is_fencing: bool
) -> None:
    flags, key = (v2.FLAG_FENCE, KEY) if is_fencing else (0, b"")
    frame = v2.encode_batch_read(
        ledger_id, first, number, count_max=count, bytes_max=size, flags=flags, master_key=key
    )
    assert v2.decode_request(frame[4:]) == v2.BatchReadRequest(
        flags, ledger_id, first, number, count, size, key
    )


@pytest.mark.parametrize("name", REQUESTS)
def test_a_truncated_request_is_rejected_or_has_a_shorter_entry(name: str) -> None:
    packet = REQUESTS[name][1][4:]
    for size in range(len(packet)):
        if packet[1] == v2.OP_ADD and size >= v2.ADD.size:
            shorter = v2.decode_request(packet[:size])
            assert isinstance(shorter, v2.AddRequest)
            assert shorter.entry == packet[24:size]
            continue
        with pytest.raises(ProtocolError):
            v2.decode_request(packet[:size])


@pytest.mark.parametrize("name", RESPONSES)
def test_a_truncated_response_is_rejected_or_has_a_shorter_body(name: str) -> None:
    packet = RESPONSES[name][1][4:]
    for size in range(len(packet)):
        try:
            answer = v2.decode_response(packet[:size])
        except ProtocolError:
            continue
        if isinstance(answer, v2.ReadResponse):
            assert answer.body == packet[24:size]  # its digest will tell
        else:
            assert isinstance(answer, v2.BatchReadResponse)
            assert answer.entries == [ENTRY_0, ENTRY_1][: len(answer.entries)]
            assert len(answer.entries) < 2


@pytest.mark.parametrize(
    "packet",
    [
        "",
        "02",
        "0201",
        "02040000" + L,  # READ_LAC exists as a name only
        "01020000" + L + N0,  # version 1
        "02020001" + L + N0,  # fencing without a key
        "02020000" + L + N0 + K,  # a key without fencing
        "02020000" + LAST + N0,  # ledger -1
        "02020000" + L + "fffffffffffffffe",  # entry -2
        "02010000" + K + L + N0 + N0 + N0,  # LAC not below the entry
        "02010000" + K + LAST + N0 + LAST + N0,  # ledger -1
        "0203000008",
    ],
)
def test_malformed_requests_are_rejected(packet: str) -> None:
    with pytest.raises(ProtocolError):
        v2.decode_request(bytes.fromhex(packet))


@pytest.mark.parametrize(
    "packet",
    [
        "",
        "02010000 00000000" + L,
        "02010000 00000000" + L + N0 + "00",  # longer than an add's answer
        "01010000 00000000" + L + N0,
        "02090000 00000000" + L + N0,
        "02070000 00000000" + L + N0,  # a batch without a request id
        "02070000 00000000" + L + N0 + N0 + "000000",  # ends within a size
        "02070000 00000000" + L + N0 + N0 + "00000029" + ENTRY_0.hex()[:-2],
        "02070000 00000000" + L + N0 + N0 + "ffffffff",
        "020300",
        "02030000 ff",
    ],
)
def test_malformed_responses_are_rejected(packet: str) -> None:
    with pytest.raises(ProtocolError):
        v2.decode_response(bytes.fromhex(packet))


def test_a_plugin_name_is_text_of_bounded_length() -> None:
    for name in (b"\xff\xfe", b"x" * 101):
        message = AuthMessage(plugin=name, payload=b"").SerializeToString()
        with pytest.raises(ProtocolError):
            v2.decode_request(bytes.fromhex("02030000") + message)
