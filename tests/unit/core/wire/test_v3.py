"""v3 packets equal the bytes that Apache BookKeeper 4.17's client and bookie sent."""

import pytest

from rhumbline.core.protocol.errors import ProtocolError
from rhumbline.core.protocol.ledger_metadata import DigestType
from rhumbline.core.wire import availability, v3
from rhumbline.core.wire import bookkeeper_pb2 as pb
from rhumbline.core.wire.entry import EntryDigest, encode_entry, encode_lac, master_key

LEDGER = 0x70
KEY = master_key(b"secret")
K = KEY.hex()
CRC32C = EntryDigest(DigestType.CRC32C, b"secret")
ENTRY = encode_entry(CRC32C, LEDGER, 0, -1, 5, b"hello")
E = ENTRY.hex()
LAC_BODY = encode_lac(CRC32C, LEDGER, 1)
MINUS_1 = "ffffffffffffffffff01"
LISTED = f"0000000000000001{'00' * 56}{'00' * 16}0000000200000000"

ADD = v3.add_request(7, LEDGER, 0, KEY, ENTRY)
READ_LAC = v3.read_lac_request(1, LEDGER)
WRITE_LAC = v3.write_lac_request(0xD, LEDGER, 1, KEY, LAC_BODY)
READ = v3.read_request(0x13, LEDGER, 0)
LONG_POLL = v3.long_poll_request(0x14, LEDGER, previous_lac=1, timeout_ms=300)
FENCE = v3.read_request(0x16, LEDGER, -1, fence_key=KEY)
LIST = v3.list_entries_request(0x22, LEDGER)
INFO = v3.bookie_info_request(0x23)

REQUESTS = {
    "add": (f"00000050 0a06080310021807 aa0645 08701000 1a14{K} 2229{E}", ADD),
    "read LAC": ("0000000d 0a06080310071801 c206020870", READ_LAC),
    "write LAC": (
        f"0000003b 0a0608031006180d ba0630 08701001 1a14{K} 2214 "
        "00000000000000700000000000000001fec59405",
        WRITE_LAC,
    ),
    "read": ("0000000f 0a06080310011813 a20604 08701000", READ),
    "long poll": (
        f"00000020 0a06080310011814 a20615 0870 10{MINUS_1} 2001 28ac02 a00602",
        LONG_POLL,
    ),
    "fence": (f"00000031 0a06080310011816 a20626 0870 10{MINUS_1} 1a14{K} a00601", FENCE),
    "list": ("0000000d 0a060803100b1822 e206020870", LIST),
    "info": ("0000000d 0a06080310081823 ca06020803", INFO),
}
OK, FENCED, NO_ENTRY = v3.Status.OK, v3.Status.FENCED, v3.Status.NO_ENTRY
RESPONSES = {
    "added": ("00000013 0a06080310021807 1000 aa0606 080010701800", v3.add_response(ADD, OK)),
    "no LAC": (
        "00000013 0a06080310071801 109303 c206050893031070",
        v3.read_lac_response(READ_LAC, NO_ENTRY),
    ),
    "both LACs": (
        f"00000052 0a06080310071801 1000 c20645 08001070 1a14{LAC_BODY.hex()} 2229{E}",
        v3.read_lac_response(READ_LAC, OK, lac_body=LAC_BODY, last_entry=ENTRY),
    ),
    "LAC written": (
        "00000011 0a0608031006180d 1000 ba060408001070",
        v3.write_lac_response(WRITE_LAC, OK),
    ),
    "read": (
        f"00000040 0a06080310011813 1000 a20633 080010701800 2229{E} 2801",
        v3.read_response(READ, OK, ENTRY, max_lac=1),
    ),
    "idle long poll": (
        f"0000001e 0a06080310011814 1000 a20611 08001070 18{MINUS_1} 2801",
        v3.read_response(LONG_POLL, OK, max_lac=1),
    ),
    "fenced": (
        "00000015 0a06080310021807 10f803 aa060708f80310701802",
        v3.add_response(v3.add_request(7, LEDGER, 2, KEY, ENTRY), FENCED),
    ),
    "listed": (
        f"0000006b 0a060803100b1822 1000 e2065e 08001070 1a58{LISTED}",
        v3.list_entries_response(LIST, OK, availability.encode([(0, 2)])),
    ),
}


def test_the_entry_of_the_vectors_has_its_digest() -> None:
    assert ENTRY[32:36].hex() == "687bf392"


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_equal_bookkeepers(name: str) -> None:
    expected, request = REQUESTS[name]
    frame = v3.frame(request)
    assert frame.hex() == expected.replace(" ", "")
    assert v3.decode_request(frame[4:]) == request
    assert frame[4:5] == v3.FIRST_BYTE
    assert v3.rejection_status(request) is None


@pytest.mark.parametrize("name", RESPONSES)
def test_responses_equal_bookkeepers(name: str) -> None:
    expected, response = RESPONSES[name]
    frame = v3.frame(response)
    assert frame.hex() == expected.replace(" ", "")
    assert v3.decode_response(frame[4:]) == response


def test_a_recovery_read_has_priority_100() -> None:
    request = v3.read_request(0x19, LEDGER, 0, fence_key=KEY, priority=v3.HIGH_PRIORITY)
    assert v3.frame(request)[4:].hex().startswith("0a080803100118192064")


def test_a_recovery_add_is_flagged_and_has_priority() -> None:
    request = v3.add_request(1, LEDGER, 0, KEY, ENTRY, is_recovery=True)
    assert request.header.priority == v3.HIGH_PRIORITY
    assert request.add_request.flag == pb.AddRequest.RECOVERY_ADD


def test_responses_never_carry_the_priority_of_the_request() -> None:
    request = v3.read_request(0x19, LEDGER, 0, priority=v3.HIGH_PRIORITY)
    assert not v3.read_response(request, OK).header.HasField("priority")


def test_bookie_info_holds_only_the_requested_values() -> None:
    for requested in range(4):
        request = v3.bookie_info_request(1, requested)
        body = v3.bookie_info_response(
            request, OK, total_bytes=10, free_bytes=4
        ).get_bookie_info_response
        assert body.HasField("total_bytes") == bool(requested & v3.TOTAL_BYTES_WANTED)
        assert body.HasField("free_bytes") == bool(requested & v3.FREE_BYTES_WANTED)


def test_the_other_builders_round_trip() -> None:
    for request in (
        v3.force_request(1, LEDGER),
        v3.auth_request(2, "rhumbline", b"x"),
        v3.start_tls_request(3),
    ):
        assert v3.decode_request(v3.frame(request)[4:]) == request
        assert v3.rejection_status(request) is None
    for response in (
        v3.force_response(v3.force_request(1, LEDGER), OK),
        v3.auth_response(v3.auth_request(2, "rhumbline", b"x"), OK, "rhumbline", b"y"),
        v3.read_response(READ, OK, ENTRY, entry_id=4, max_lac=9, lac_updated_ms=12),
        v3.refusal(v3.start_tls_request(3), v3.Status.BAD_REQUEST),
    ):
        assert v3.decode_response(v3.frame(response)[4:]) == response


@pytest.mark.parametrize("operation", v3.Operation)
def test_a_request_without_its_message_is_a_bad_request(operation: v3.Operation) -> None:
    name = pb.OperationType.Name(operation)
    header = pb.PacketHeader(version=pb.VERSION_THREE, operation=name, txn_id=1)
    assert v3.rejection_status(pb.Request(header=header)) is v3.Status.BAD_REQUEST


def test_requests_that_parse_are_rejected_with_the_right_status() -> None:
    old = v3.read_request(1, LEDGER, 0)
    old.header.version = pb.VERSION_TWO
    assert v3.rejection_status(old) is v3.Status.BAD_VERSION
    assert v3.rejection_status(v3.read_request(1, -1, 0)) is v3.Status.BAD_REQUEST
    short_key = v3.read_request(1, LEDGER, -1, fence_key=b"short")
    assert v3.rejection_status(short_key) is v3.Status.UNAUTHORIZED


def test_the_outer_status_counts_unless_it_is_ok() -> None:
    response = v3.add_response(ADD, OK)
    assert v3.status_of(response) == OK
    response.add_response.status = pb.EFENCED
    assert v3.status_of(response) == FENCED
    response.status = pb.EIO
    assert v3.status_of(response) == v3.Status.IO
    assert v3.status_of(v3.refusal(ADD, OK)) == OK


def test_enums_have_the_values_of_the_messages() -> None:
    assert [int(s) for s in v3.Status] == sorted(pb.StatusCode.values())
    assert [int(o) for o in v3.Operation] == sorted(pb.OperationType.values())


@pytest.mark.parametrize("packet", ["", "0a", "0a0608631006180d", "1000", "02010000"])
def test_malformed_messages_are_rejected(packet: str) -> None:
    with pytest.raises(ProtocolError):
        v3.decode_request(bytes.fromhex(packet))
    with pytest.raises(ProtocolError):
        v3.decode_response(bytes.fromhex(packet))
