"""BookKeeper's v2 packets: the binary form that carries adds and reads.

After the frame length comes ``version(8) opcode(8) flags(16)``; the version is 2, answers carry no
flags. Every frame of a connection may be judged by its first byte: 0x02 here, 0x0a in v3.

``decode_*`` raise ProtocolError for whatever is not exactly one packet; the connection is closed
then. ``encode_*`` return whole frames, length included. The structs are public for those who cut
many equal frames out of one chunk.
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
"""Longest name of an authentication plugin that we look at."""


class Code(IntEnum):
    """What a v2 answer says. Never send UNKNOWN_STATE: a Java v2 client hangs up on it; send IO."""

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
"""Version, opcode, flags: the first four bytes after the frame length."""

ADD_HEAD = struct.Struct(">IBBH20s")
"""Whole frame up to the entry: frame length, version, opcode, flags, master key."""

ADD = struct.Struct(">BBH20sqqqq")
"""A frame's packet up to the entry's digest: header, master key, then the entry's own header."""

READ = struct.Struct(">IBBHqq")
"""Whole frame: frame length, header, ledger id, entry id (then the master key when fencing)."""

BATCH_READ = struct.Struct(">IBBHqqqiq")
"""Whole frame: as READ, then request id, largest count, largest size (then the key if fencing)."""

RESPONSE = struct.Struct(">QIqq")
"""Whole frame of an answer up to a body: length and header as one word, code, ledger, entry."""

ADD_RESPONSE_BYTES = RESPONSE.size
"""28: every answer to an add has this size, its length included."""

ADD_RESPONSE_WORD = (ADD_RESPONSE_BYTES - 4) << 32 | VERSION << 24 | OP_ADD << 16
"""The first word of every add answer, as RESPONSE unpacks it."""

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
    """Store an entry. ``ledger_id``, ``entry_id`` and ``lac`` are the entry's own words."""

    flags: int
    master_key: bytes
    ledger_id: int
    entry_id: int
    lac: int
    entry: bytes


class ReadRequest(NamedTuple):
    """Read an entry; -1 asks for the last one. ``master_key`` is empty unless fencing."""

    flags: int
    ledger_id: int
    entry_id: int
    master_key: bytes


class BatchReadRequest(NamedTuple):
    """Read consecutive entries: at most ``count_max`` (0 or less: no limit), ``bytes_max``."""

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
    """The outcome of an add. ``code`` is a ``Code`` from us, any number from others."""

    code: int
    ledger_id: int
    entry_id: int


class ReadResponse(NamedTuple):
    """The outcome of a read. ``entry_id`` is the one asked for (-1 stays -1)."""

    code: int
    ledger_id: int
    entry_id: int
    body: bytes


class BatchReadResponse(NamedTuple):
    """The entries from the first one asked for, as many as there was room for."""

    code: int
    ledger_id: int
    first_entry_id: int
    request_id: int
    entries: list[bytes | memoryview]
    """Views of the answer where it was decoded: each is copied once, by who checks it."""


class AuthResponse(NamedTuple):
    """The answer of an authentication plugin."""

    plugin: str
    payload: bytes


Request = AddRequest | ReadRequest | BatchReadRequest | AuthRequest
Response = AddResponse | ReadResponse | BatchReadResponse | AuthResponse


# --- requests: client ---------------------------------------------------------------------------


def encode_add(master_key: bytes, entry: bytes, flags: int = 0) -> bytes:
    """An add. The same frame serves all replicas, and later re-sends."""
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
    """``encode_add(master_key, encode_entry(...))`` that copies the payload once, not twice."""
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
    """The entry in a whole add frame that ``encode_add`` or ``encode_new_add`` made."""
    return frame[ADD_HEAD.size :]


def encode_read(ledger_id: int, entry_id: int, flags: int = 0, master_key: bytes = b"") -> bytes:
    """A read; with FLAG_FENCE it needs the master key, and has none otherwise."""
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
    """A batch read; the answer is found by ``request_id``."""
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
    """A message of an authentication plugin, as a request or as an answer: they look alike."""
    message = AuthMessage(plugin=plugin.encode(), payload=payload).SerializeToString()
    size = HEADER.size + len(message)
    return size.to_bytes(4, "big") + HEADER.pack(VERSION, OP_AUTH, 0) + message


def _key_for(flags: int, master_key: bytes) -> bytes:
    if not flags & FLAG_FENCE:
        return b""
    assert len(master_key) == MASTER_KEY_BYTES, "fencing needs the master key"
    return master_key


# --- requests: bookie ---------------------------------------------------------------------------


def decode_request(frame: bytes) -> Request:
    """The request in a frame without its length. Raises ProtocolError."""
    if frame[:2] == b"\x02\x01":  # an add: the hot path comes first
        try:
            _, _, flags, key, ledger_id, entry_id, lac, length = _unpack_add(frame)
        except struct.error as error:
            raise ProtocolError(f"an add of {len(frame)} bytes") from error
        if ledger_id < 0 or not NO_ENTRY <= lac < entry_id or length < 0:
            raise ProtocolError(
                f"an add of ledger {ledger_id}, entry {entry_id}, LAC {lac}, length {length}"
            )
        return AddRequest(flags, key, ledger_id, entry_id, lac, frame[_ADD_PACKET_BYTES:])
    if len(frame) < HEADER.size:
        raise ProtocolError(f"a packet of {len(frame)} bytes")
    version, opcode, flags = HEADER.unpack_from(frame)
    if version == VERSION and opcode == OP_READ:
        return _decode_read(frame, flags)
    if version == VERSION and opcode == OP_BATCH_READ:
        return _decode_batch_read(frame, flags)
    if version == VERSION and opcode == OP_AUTH:
        return AuthRequest(*_decode_auth(frame))
    raise ProtocolError(f"no v2 request has version {version} and opcode {opcode}")


def _decode_read(frame: bytes, flags: int) -> ReadRequest:
    key = _key_in(frame, _READ_PACKET_BYTES, flags)
    ledger_id, entry_id = _READ_PACKET.unpack_from(frame, HEADER.size)
    if ledger_id < 0 or entry_id < NO_ENTRY:
        raise ProtocolError(f"a read of ledger {ledger_id}, entry {entry_id}")
    return ReadRequest(flags, ledger_id, entry_id, key)


def _decode_batch_read(frame: bytes, flags: int) -> BatchReadRequest:
    key = _key_in(frame, _BATCH_PACKET_BYTES, flags)
    ledger_id, first, request_id, count, size = _BATCH_PACKET.unpack_from(frame, HEADER.size)
    if ledger_id < 0 or first < 0:
        raise ProtocolError(f"a batch read of ledger {ledger_id} from entry {first}")
    return BatchReadRequest(flags, ledger_id, first, request_id, count, size, key)


def _key_in(frame: bytes, packet_bytes: int, flags: int) -> bytes:
    expected = packet_bytes + (MASTER_KEY_BYTES if flags & FLAG_FENCE else 0)
    if len(frame) != expected:
        raise ProtocolError(f"a request of {len(frame)} bytes with flags {flags}, not {expected}")
    return frame[packet_bytes:]


def _decode_auth(frame: bytes) -> tuple[str, bytes]:
    try:
        message = parse(AuthMessage, frame[HEADER.size :])
        if len(message.plugin) > PLUGIN_BYTES_MAX:
            raise ProtocolError(f"a plugin name of {len(message.plugin)} bytes")
        return message.plugin.decode(), message.payload
    except (DecodeError, UnicodeDecodeError) as error:
        raise ProtocolError("an authentication message that does not parse") from error


# --- answers: bookie ----------------------------------------------------------------------------


def encode_add_response(code: int, ledger_id: int, entry_id: int) -> bytes:
    """The answer to an add: 28 bytes."""
    return _pack_response(ADD_RESPONSE_WORD, code, ledger_id, entry_id)


def encode_read_response(code: int, ledger_id: int, entry_id: int, body: bytes = b"") -> bytes:
    """The answer to a read; ``entry_id`` is the one asked for, ``body`` the whole entry if OK."""
    word = (_RESPONSE_PACKET_BYTES + len(body)) << 32 | _READ_WORD
    return _pack_response(word, code, ledger_id, entry_id) + body


def encode_batch_read_response(
    code: int,
    ledger_id: int,
    first_entry_id: int,
    request_id: int,
    entries: Sequence[bytes | memoryview] = (),
) -> bytes:
    """The answer to a batch read; ``entries`` are consecutive, none unless OK."""
    return b"".join(batch_read_response_parts(code, ledger_id, first_entry_id, request_id, entries))


def batch_read_response_parts(
    code: int,
    ledger_id: int,
    first_entry_id: int,
    request_id: int,
    entries: Sequence[bytes | memoryview],
) -> list[bytes | memoryview]:
    """``encode_batch_read_response`` whose parts are not yet joined: the entries as they are."""
    size = BATCH_RESPONSE_BYTES - 4 + sum(_SIZE.size + len(entry) for entry in entries)
    word = size << 32 | _BATCH_WORD
    head = _BATCH_RESPONSE.pack(word, code, ledger_id, first_entry_id, request_id)
    parts: list[bytes | memoryview] = [head]
    for entry in entries:
        parts += (_SIZE.pack(len(entry)), entry)
    return parts


BATCH_RESPONSE_BYTES = _BATCH_RESPONSE.size
"""What the frame of a batch answer takes without its entries: 36 bytes, its length included."""

BATCH_ENTRY_BYTES = _SIZE.size
"""What a batch answer takes for each entry, beside the entry: 4 bytes."""


# --- answers: client ----------------------------------------------------------------------------


def decode_response(frame: bytes) -> Response:
    """The answer in a frame without its length. Raises ProtocolError."""
    if len(frame) < _RESPONSE_PACKET_BYTES:
        if frame[:2] == b"\x02\x03":
            return AuthResponse(*_decode_auth_frame(frame))
        raise ProtocolError(f"an answer of {len(frame)} bytes")
    word, code, ledger_id, entry_id = _unpack_response(frame)
    opcode = word >> 16 & 0xFF
    if word >> 24 != VERSION:
        raise ProtocolError(f"an answer of version {word >> 24}")
    if opcode == OP_ADD:
        if len(frame) != _RESPONSE_PACKET_BYTES:
            raise ProtocolError(f"an add answer of {len(frame)} bytes")
        return AddResponse(code, ledger_id, entry_id)
    if opcode == OP_READ:
        return ReadResponse(code, ledger_id, entry_id, frame[_RESPONSE_PACKET_BYTES:])
    if opcode == OP_BATCH_READ:
        return decode_batch_response(frame)
    if opcode == OP_AUTH:
        return AuthResponse(*_decode_auth_frame(frame))
    raise ProtocolError(f"no v2 answer has opcode {opcode}")


def _decode_auth_frame(frame: bytes) -> tuple[str, bytes]:
    if len(frame) < HEADER.size:
        raise ProtocolError(f"an answer of {len(frame)} bytes")
    return _decode_auth(frame)


def decode_batch_response(frame: bytes | memoryview) -> BatchReadResponse:
    """The answer to a batch read, whose entries are views of ``frame``. Raises ProtocolError."""
    end = len(frame)
    if end < BATCH_RESPONSE_BYTES - 4:
        raise ProtocolError(f"a batch answer of {end} bytes")
    _, code, ledger_id, first_entry_id = _unpack_response(frame)
    (request_id,) = _I64.unpack_from(frame, _RESPONSE_PACKET_BYTES)
    entries: list[bytes | memoryview] = []
    view = memoryview(frame)
    position = _RESPONSE_PACKET_BYTES + _I64.size
    while position < end:
        if position + _SIZE.size > end:
            raise ProtocolError("a batch answer ends within a size")
        (size,) = _SIZE.unpack_from(frame, position)
        position += _SIZE.size
        if not ENTRY_HEADER_BYTES <= size <= end - position:
            raise ProtocolError(f"a batch answer with an entry of {size} bytes")
        entries.append(view[position : position + size])
        position += size
    return BatchReadResponse(code, ledger_id, first_entry_id, request_id, entries)
