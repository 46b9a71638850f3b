"""BookKeeper's v2 packets: the binary encoding of adds and reads.

The frame length is followed by ``version(8) opcode(8) flags(16)``. The version is 2; responses have
no flags. The first byte of a frame identifies the protocol: 0x02 is v2, 0x0a is v3.

``decode_*`` raise ProtocolError for anything that is not exactly one packet; the caller then closes
the connection. ``encode_*`` return whole frames, length included. The structs are public for
callers that decode many equal frames from one chunk.
"""

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from ..protocol.errors import ProtocolError
from ..protocol.ledger_metadata import NO_ENTRY
from .bookkeeper_pb2 import AuthMessage
from .entry import ENTRY_HEADER as _ENTRY_HEADER
from .entry import ENTRY_HEADER_BYTES, MASTER_KEY_BYTES, EntryDigest
from .protobuf_parsing import parse

VERSION = 2
FIRST_BYTE = b"\x02"

OP_ADD = 1
OP_READ = 2
OP_AUTH = 3
OP_BATCH_READ = 7

FLAG_FENCE = 1
FLAG_RECOVERY_ADD = 2
FLAG_HIGH_PRIORITY = 4

PLUGIN_BYTES_MAX = 100
"""Longest name of an authentication plugin that is accepted."""


class Code(IntEnum):
    """The outcome in a v2 response.

    Send IO instead of UNKNOWN_STATE, on which a Java v2 client closes the connection.
    """

    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105
    TOO_MANY_REQUESTS = 106
    UNKNOWN_STATE = 107


HEADER = struct.Struct(">BBH")
"""The first four bytes after the frame length: version, opcode, flags."""

ADD_HEAD = struct.Struct(">IBBH20s")
"""The frame up to the entry: frame length, version, opcode, flags, master key."""

ADD = struct.Struct(">BBH20sqqqq")
"""The packet up to the entry's digest: header, master key, and the entry's header."""

READ = struct.Struct(">IBBHqq")
"""The whole frame: length, header, ledger id, entry id (and the master key if it fences)."""

BATCH_READ = struct.Struct(">IBBHqqqiq")
"""The whole frame: as READ, request id, maximum count and size (and the key if it fences)."""

RESPONSE = struct.Struct(">QIqq")
"""A response frame up to its body: length and header as one word, code, ledger, entry."""

ADD_RESPONSE_BYTES = RESPONSE.size
"""28: the size of every add response, its length included."""

ADD_RESPONSE_WORD = (ADD_RESPONSE_BYTES - 4) << 32 | VERSION << 24 | OP_ADD << 16
"""The first word of every add response, as RESPONSE unpacks it."""

ADD_KEY_BYTES = 16
"""Size of an add's key, ledger id and entry id, with which its entry begins and a response ends."""

_ADD_PACKET_BYTES = HEADER.size + MASTER_KEY_BYTES
_READ_PACKET_BYTES = READ.size - 4
_BATCH_PACKET_BYTES = BATCH_READ.size - 4
_RESPONSE_PACKET_BYTES = RESPONSE.size - 4
_READ_WORD = VERSION << 24 | OP_READ << 16
_BATCH_WORD = VERSION << 24 | OP_BATCH_READ << 16

_READ_PACKET = struct.Struct(">qq")
_BATCH_PACKET = struct.Struct(">qqqiq")
_RESPONSE_PACKET = struct.Struct(">Iiqq")
_BATCH_RESPONSE = struct.Struct(">QIqqq")
_I64 = struct.Struct(">q")
_SIZE = struct.Struct(">i")

_pack_add_head = ADD_HEAD.pack
_unpack_add = ADD.unpack_from
_pack_entry_header = _ENTRY_HEADER.pack
_pack_response = RESPONSE.pack
_unpack_response = _RESPONSE_PACKET.unpack_from


class AddRequest(NamedTuple):
    """A request to store an entry; ids and LAC come from the entry's header."""

    flags: int
    master_key: bytes
    ledger_id: int
    entry_id: int
    lac: int
    entry: bytes


class ReadRequest(NamedTuple):
    """A request to read an entry (-1: the last one). ``master_key`` is empty unless it fences."""

    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes


class BatchReadRequest(NamedTuple):
    """A request to read up to ``count_max`` (0 or less: no limit) consecutive entries."""

    flags: int
    ledger_id: int
    first_entry_id: int
    request_id: int
    count_max: int
    bytes_max: int
    master_key: bytes


class AuthRequest(NamedTuple):
    """A message of an authentication plugin."""

    plugin: str
    payload: bytes


class AddResponse(NamedTuple):
    """The outcome of an add. ``code`` is a ``Code``, or any number from another implementation."""

    code: int
    ledger_id: int
    entry_id: int


class ReadResponse(NamedTuple):
    """The outcome of a read. ``entry_id`` is the requested one (-1 stays -1)."""

    code: int
    ledger_id: int
    entry_id: int
    body: bytes


class BatchReadResponse(NamedTuple):
    """The entries from the first requested one on, as many as fit."""

    code: int
    ledger_id: int
    first_entry_id: int
    request_id: int
    entries: list[bytes | memoryview]
    """After decoding, views of the response: each is copied once, when it is verified."""


class AuthResponse(NamedTuple):
    """The response of an authentication plugin."""

    plugin: str
    payload: bytes


Request = AddRequest | ReadRequest | BatchReadRequest | AuthRequest
Response = AddResponse | ReadResponse | BatchReadResponse | AuthResponse


# --- requests, client side ----------------------------------------------------------------------


def encode_add(master_key: bytes, entry: bytes, flags: int = 0) -> bytes:
    """Encode an add. The same frame serves all replicas, and later resends."""
    return (
        _pack_add_head(_ADD_PACKET_BYTES + len(entry), VERSION, OP_ADD, flags, master_key) + entry
    )


def encode_new_add(
    digest: EntryDigest,
    master_key: bytes,
    ledger_id: int,
    entry_id: int,
    lac: int,
    length: int,
    payload: bytes,
) -> bytes:
    """Encode as ``encode_add(master_key, encode_entry(...))``, but copy the payload only once."""
    header = _pack_entry_header(ledger_id, entry_id, lac, length)
    size = _ADD_PACKET_BYTES + digest.body_offset + len(payload)
    return b"".join(
        (
            _pack_add_head(size, VERSION, OP_ADD, 0, master_key),
            header,
            digest.of(header, payload),
            payload,
        )
    )


def entry_of_add(frame: bytes) -> bytes:
    """Return the entry of a frame from ``encode_add`` or ``encode_new_add``."""
    return frame[ADD_HEAD.size :]


def encode_read(ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
    """Encode a read. It carries the master key only with FLAG_FENCE."""
    key = _key_for(flags, master_key)
    size = _READ_PACKET_BYTES + len(key)
    return READ.pack(size, VERSION, OP_READ, flags, ledger_id, entry_id) + key


def encode_batch_read(
    ledger_id: int,
    first_entry_id: int,
    request_id: int,
    *,
    count_max: int,
    bytes_max: int,
    flags: int = 0,
    master_key: bytes = b"",
) -> bytes:
    """Encode a batch read; its response carries the same ``request_id``."""
    key = _key_for(flags, master_key)
    size = _BATCH_PACKET_BYTES + len(key)
    head = BATCH_READ.pack(
        size,
        VERSION,
        OP_BATCH_READ,
        flags,
        ledger_id,
        first_entry_id,
        request_id,
        count_max,
        bytes_max,
    )
    return head + key


def encode_auth(plugin: str, payload: bytes) -> bytes:
    """Encode a message of an authentication plugin; requests and responses have the same form."""
    message = AuthMessage(plugin=plugin.encode(), payload=payload).SerializeToString()
    size = HEADER.size + len(message)
    return size.to_bytes(4, "big") + HEADER.pack(VERSION, OP_AUTH, 0) + message


def _key_for(flags: int, master_key: bytes) -> bytes:
    if not flags & FLAG_FENCE:
        return b""
    assert len(master_key) == MASTER_KEY_BYTES, "fencing needs the master key"
    return master_key


# --- requests, bookie side ----------------------------------------------------------------------


def decode_request(frame: bytes) -> Request:
    """Decode the request in a frame without its length. Raises ProtocolError."""
    if frame[:2] == b"\x02\x01":  # an add: the hot path is tested first
        try:
            _, _, flags, key, ledger_id, entry_id, lac, length = _unpack_add(frame)
        except struct.error as error:
            raise ProtocolError(f"add request has only {len(frame)} bytes") from error
        is_late = lac >= entry_id and not flags & FLAG_RECOVERY_ADD  # rule BKE-8
        if is_late or ledger_id < 0 or entry_id < 0 or lac < NO_ENTRY or length < 0:
            raise ProtocolError(
                f"impossible add: ledger {ledger_id}, entry {entry_id}, LAC {lac}, length {length}"
            )
        return AddRequest(flags, key, ledger_id, entry_id, lac, frame[_ADD_PACKET_BYTES:])
    if len(frame) < HEADER.size:
        raise ProtocolError(f"packet has only {len(frame)} bytes")
    version, opcode, flags = HEADER.unpack_from(frame)
    if version == VERSION and opcode == OP_READ:
        return _decode_read(frame, flags)
    if version == VERSION and opcode == OP_BATCH_READ:
        return _decode_batch_read(frame, flags)
    if version == VERSION and opcode == OP_AUTH:
        return AuthRequest(*_decode_auth(frame))
    raise ProtocolError(f"unknown v2 request: version {version}, opcode {opcode}")


def _decode_read(frame: bytes, flags: int) -> ReadRequest:
    key = _key_in(frame, _READ_PACKET_BYTES, flags)
    ledger_id, entry_id = _READ_PACKET.unpack_from(frame, HEADER.size)
    if ledger_id < 0 or entry_id < NO_ENTRY:
        raise ProtocolError(f"invalid read: ledger {ledger_id}, entry {entry_id}")
    return ReadRequest(flags, ledger_id, entry_id, key)


def _decode_batch_read(frame: bytes, flags: int) -> BatchReadRequest:
    key = _key_in(frame, _BATCH_PACKET_BYTES, flags)
    ledger_id, first, request_id, count, size = _BATCH_PACKET.unpack_from(frame, HEADER.size)
    if ledger_id < 0 or first < 0:
        raise ProtocolError(f"invalid batch read: ledger {ledger_id} from entry {first}")
    return BatchReadRequest(flags, ledger_id, first, request_id, count, size, key)


def _key_in(frame: bytes, packet_bytes: int, flags: int) -> bytes:
    expected = packet_bytes + (MASTER_KEY_BYTES if flags & FLAG_FENCE else 0)
    if len(frame) != expected:
        raise ProtocolError(f"request with flags {flags} has {len(frame)} bytes, not {expected}")
    return frame[packet_bytes:]


def _decode_auth(frame: bytes) -> tuple[str, bytes]:
    try:
        message = parse(AuthMessage, frame[HEADER.size :])
        if len(message.plugin) > PLUGIN_BYTES_MAX:
            raise ProtocolError(
                f"plugin name of {len(message.plugin)} bytes is longer than {PLUGIN_BYTES_MAX}"
            )
        return message.plugin.decode(), message.payload
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError("authentication message does not parse") from error


# --- responses, bookie side ---------------------------------------------------------------------


def encode_refusal(request: AddRequest | ReadRequest | BatchReadRequest, code: int) -> bytes:
    """Encode the response that refuses a request."""
    if isinstance(request, AddRequest):
        return encode_add_response(code, request.ledger_id, request.entry_id)
    if isinstance(request, ReadRequest):
        return encode_read_response(code, request.ledger_id, request.entry_id)
    return encode_batch_read_response(
        code, request.ledger_id, request.first_entry_id, request.request_id
    )


def encode_add_response(code: int, ledger_id: int, entry_id: int) -> bytes:
    """Encode the response to an add: 28 bytes."""
    return _pack_response(ADD_RESPONSE_WORD, code, ledger_id, entry_id)


def add_response_head(code: int) -> bytes:
    """Encode the response to an add up to the add's key."""
    return _pack_response(ADD_RESPONSE_WORD, code, 0, 0)[:-ADD_KEY_BYTES]


def encode_read_response(code: int, ledger_id: int, entry_id: int, body: bytes = b"") -> bytes:
    """Encode the response to a read: the requested ``entry_id`` and, if OK, the whole entry."""
    word = (_RESPONSE_PACKET_BYTES + len(body)) << 32 | _READ_WORD
    return _pack_response(word, code, ledger_id, entry_id) + body


def encode_batch_read_response(
    code: int,
    ledger_id: int,
    first_entry_id: int,
    request_id: int,
    entries: Sequence[bytes | memoryview] = (),
) -> bytes:
    """Encode the response to a batch read: consecutive entries if OK, else none."""
    return b"".join(batch_read_response_parts(code, ledger_id, first_entry_id, request_id, entries))


def batch_read_response_parts(
    code: int,
    ledger_id: int,
    first_entry_id: int,
    request_id: int,
    entries: Sequence[bytes | memoryview],
) -> list[bytes | memoryview]:
    """Return the parts that ``encode_batch_read_response`` joins, without copying the entries."""
    size = BATCH_RESPONSE_BYTES - 4 + sum(_SIZE.size + len(entry) for entry in entries)
    word = size << 32 | _BATCH_WORD
    head = _BATCH_RESPONSE.pack(word, code, ledger_id, first_entry_id, request_id)
    parts: list[bytes | memoryview] = [head]
    for entry in entries:
        parts += (_SIZE.pack(len(entry)), entry)
    return parts


BATCH_RESPONSE_BYTES = _BATCH_RESPONSE.size
"""Size of a batch response without entries, its length included: 36 bytes."""

BATCH_ENTRY_BYTES = _SIZE.size
"""Overhead of each entry in a batch response: 4 bytes."""


# --- responses, client side ---------------------------------------------------------------------


def decode_response(frame: bytes) -> Response:
    """Decode the response in a frame without its length. Raises ProtocolError."""
    if len(frame) < _RESPONSE_PACKET_BYTES:
        if frame[:2] == b"\x02\x03":
            return AuthResponse(*_decode_auth_frame(frame))
        raise ProtocolError(f"response has only {len(frame)} bytes")
    word, code, ledger_id, entry_id = _unpack_response(frame)
    opcode = word >> 16 & 0xFF
    if word >> 24 != VERSION:
        raise ProtocolError(f"response has version {word >> 24}, not {VERSION}")
    if opcode == OP_ADD:
        if len(frame) != _RESPONSE_PACKET_BYTES:
            raise ProtocolError(f"add response has {len(frame)} bytes")
        return AddResponse(code, ledger_id, entry_id)
    if opcode == OP_READ:
        return ReadResponse(code, ledger_id, entry_id, frame[_RESPONSE_PACKET_BYTES:])
    if opcode == OP_BATCH_READ:
        return decode_batch_response(frame)
    if opcode == OP_AUTH:
        return AuthResponse(*_decode_auth_frame(frame))
    raise ProtocolError(f"unknown v2 response: opcode {opcode}")


def _decode_auth_frame(frame: bytes) -> tuple[str, bytes]:
    if len(frame) < HEADER.size:
        raise ProtocolError(f"response has only {len(frame)} bytes")
    return _decode_auth(frame)


def decode_batch_response(frame: bytes | memoryview) -> BatchReadResponse:
    """Decode a batch response, whose entries are views of ``frame``. Raises ProtocolError."""
    end = len(frame)
    if end < BATCH_RESPONSE_BYTES - 4:
        raise ProtocolError(f"batch response has only {end} bytes")
    _, code, ledger_id, first_entry_id = _unpack_response(frame)
    (request_id,) = _I64.unpack_from(frame, _RESPONSE_PACKET_BYTES)
    entries: list[bytes | memoryview] = []
    view = memoryview(frame)
    position = _RESPONSE_PACKET_BYTES + _I64.size
    while position < end:
        if position + _SIZE.size > end:
            raise ProtocolError("batch response ends within the size of an entry")
        (size,) = _SIZE.unpack_from(frame, position)
        position += _SIZE.size
        if not ENTRY_HEADER_BYTES <= size <= end - position:
            raise ProtocolError(f"batch response has an entry of {size} bytes")
        entries.append(view[position : position + size])
        position += size
    return BatchReadResponse(code, ledger_id, first_entry_id, request_id, entries)
