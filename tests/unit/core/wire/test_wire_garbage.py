"""Every decoder returns a value or raises its typed error, for any bytes."""

from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from rhumbline.core.protocol.bookie_id import BookieId
from rhumbline.core.protocol.errors import CorruptionError, ProtocolError, RhumblineError
from rhumbline.core.protocol.ledger_metadata import DigestType, Fragment, LedgerMetadata
from rhumbline.core.wire import (
    availability,
    cookie,
    entry,
    handshake,
    ledger_metadata,
    registration,
    v2,
    v3,
)

BOOKIE = BookieId("bk-1@0011aaff")
DIGEST = entry.EntryDigest(DigestType.CRC32C)
KEY = entry.master_key(b"")
ENTRY = entry.encode_entry(DIGEST, 7, 3, 2, 20, b"hello")
LEDGER = LedgerMetadata(7, 1, 1, 1, (Fragment(0, (BOOKIE,)),), custom={"k": b"v"}, created_ms=1)


def request_of(data: bytes) -> object:
    """Decode and check a v3 request as a bookie does before it processes it."""
    request = v3.decode_request(data)
    if v3.rejection_status(request) is None:
        v3.frame(v3.refusal(request, v3.Status.IO))
    return request


# name: (what reads it, the error it may raise, a valid value)
READERS: dict[str, tuple[Callable[[bytes], object], type[RhumblineError], bytes]] = {
    "v2 add": (v2.decode_request, ProtocolError, v2.encode_add(KEY, ENTRY)[4:]),
    "v2 read": (v2.decode_request, ProtocolError, v2.encode_read(7, 3)[4:]),
    "v2 fence": (v2.decode_request, ProtocolError, v2.encode_read(7, -1, 1, KEY)[4:]),
    "v2 auth": (v2.decode_request, ProtocolError, v2.encode_auth("rhumbline", b"xy")[4:]),
    "v2 batch": (
        v2.decode_request,
        ProtocolError,
        v2.encode_batch_read(7, 0, 1, count_max=2, bytes_max=3)[4:],
    ),
    "v2 added": (v2.decode_response, ProtocolError, v2.encode_add_response(0, 7, 3)[4:]),
    "v2 found": (v2.decode_response, ProtocolError, v2.encode_read_response(0, 7, 3, ENTRY)[4:]),
    "v2 greeted": (v2.decode_response, ProtocolError, v2.encode_auth("rhumbline", b"x" * 30)[4:]),
    "v2 batched": (
        v2.decode_response,
        ProtocolError,
        v2.encode_batch_read_response(0, 7, 0, 1, [ENTRY, ENTRY])[4:],
    ),
    "v3 request": (request_of, ProtocolError, v3.frame(v3.add_request(1, 7, 3, KEY, ENTRY))[4:]),
    "v3 poll": (
        request_of,
        ProtocolError,
        v3.frame(v3.long_poll_request(1, 7, previous_lac=2, timeout_ms=9))[4:],
    ),
    "v3 answer": (
        lambda data: v3.status_of(v3.decode_response(data)),
        ProtocolError,
        v3.frame(v3.read_response(v3.read_request(1, 7, 3), v3.Status.OK, ENTRY, max_lac=5))[4:],
    ),
    "entries": (availability.decode, ProtocolError, availability.encode([(0, 2), (5, 1)])),
    "hello": (handshake.decode_hello, ProtocolError, handshake.encode_hello(BOOKIE)),
    "LAC seen": (entry.peek_lac, ProtocolError, entry.encode_lac(DIGEST, 7, 3)),
    "entry": (lambda data: entry.decode_entry(DIGEST, 7, 3, data), CorruptionError, ENTRY),
    "LAC": (
        lambda data: entry.decode_lac(DIGEST, 7, data),
        CorruptionError,
        entry.encode_lac(DIGEST, 7, 3),
    ),
    "ledger": (
        lambda data: ledger_metadata.decode(7, data),
        CorruptionError,
        ledger_metadata.encode(LEDGER),
    ),
    "ledger as text": (
        lambda data: ledger_metadata.decode(7, data),
        CorruptionError,
        b"BookieMetadataFormatVersion\t2\nquorumSize: 1 ensembleSize: 1 length: 0 state: OPEN "
        b'segment { ensembleMember: "a:1" firstEntryId: 0 }',
    ),
    "ledger as lines": (
        lambda data: ledger_metadata.decode(7, data),
        CorruptionError,
        b"BookieMetadataFormatVersion\t1\n1\n1\n0\n0\ta:1\n-102\tCLOSED",
    ),
    "registration": (
        lambda data: registration.decode(BOOKIE, data),
        CorruptionError,
        registration.encode(registration.Registration(BOOKIE, "host", 3181, {"rack": "r1"})),
    ),
    "cookie": (
        cookie.decode,
        CorruptionError,
        cookie.encode(cookie.Cookie(BOOKIE, "/j", ("/l",), "id")),
    ),
}
every_reader = pytest.mark.parametrize("name", READERS)


def read(name: str, data: bytes) -> None:
    reader, error, _ = READERS[name]
    try:
        reader(data)
    except error:
        return


@every_reader
def test_the_valid_value_is_decoded(name: str) -> None:
    reader, _, valid = READERS[name]
    assert reader(valid) is not None


@every_reader
@given(data=st.binary(max_size=120))
@settings(max_examples=60)
def test_random_bytes_raise_only_typed_errors(name: str, data: bytes) -> None:
    read(name, data)


@every_reader
@given(data=st.data())
@settings(max_examples=150)
def test_changed_bytes_raise_only_typed_errors(name: str, data: st.DataObject) -> None:
    changed = bytearray(READERS[name][2])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
        if not changed:
            break
    read(name, bytes(changed))


@every_reader
def test_truncations_and_extensions_raise_only_typed_errors(name: str) -> None:
    valid = READERS[name][2]
    for size in range(len(valid)):
        read(name, valid[:size])
    for more in (b"\x00", b"\xff", b"\n", valid):
        read(name, valid + more)


@given(st.binary(max_size=60))
@example(b"segment {" * 200)
@example(b"quorumSize: " + b"9" * 5000)
@example(b'customMetadata < key: "' + b"\\x" * 5)
@example(b'bookieHost: "\\?"')
@example(b'bookieHost: "\\777"')
@example(b'bookieHost: "\\ "')
@example(b'bookieHost: "\\u12"')
@example(b'bookieHost: "a\\')
def test_text_parsers_accept_or_reject_any_bytes(text: bytes) -> None:
    """This includes escapes for which the protobuf library only warns."""
    read("ledger as text", b"BookieMetadataFormatVersion\t2\n" + text)
    read("cookie", b"5\n" + text)
