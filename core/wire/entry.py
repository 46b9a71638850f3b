"""An entry as it is sent, stored and returned: 32-byte header, digest, payload.

The bytes are BookKeeper's. The digest covers the header and the payload, not itself; a bookie never
checks it and never rewrites an entry, the client checks what it reads. All integers are big-endian
and signed.

| offset | size | field |
|---|---|---|
| 0 | 8 | ledger id |
| 8 | 8 | entry id |
| 16 | 8 | LAC that the writer knew when it sent the entry (-1: none): always below the entry id |
| 24 | 8 | payload bytes of the ledger up to and including this entry |
| 32 | D | digest (CRC32C 4, CRC32 8, HMAC 20, DUMMY 0 bytes) |
| 32 + D | n | payload; n may be 0 |
"""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable
from typing import NamedTuple

from crc32c import crc32c

from ..protocol.errors import CorruptionError, ProtocolError
from ..protocol.ledger_metadata import NO_ENTRY, DigestType

ENTRY_HEADER = struct.Struct(">qqqq")
"""Ledger id, entry id, LAC, length."""

ENTRY_HEADER_BYTES = ENTRY_HEADER.size
MASTER_KEY_BYTES = 20

_LAC_HEADER = struct.Struct(">qq")
_U32 = struct.Struct(">I").pack
_U64 = struct.Struct(">Q").pack
_pack_header = ENTRY_HEADER.pack
_unpack_header = ENTRY_HEADER.unpack_from


Buffer = bytes | memoryview
"""Bytes of an entry, or a view of them where they were received."""


class EntryHeader(NamedTuple):
    """The first 32 bytes of an entry."""

    ledger_id: int
    entry_id: int
    lac: int
    length: int


class Entry(NamedTuple):
    """An entry whose identity and digest were checked. ``length`` is cumulative, in bytes."""

    entry_id: int
    lac: int
    length: int
    payload: Buffer
    """A view keeps all of the answer that it came in."""


def master_key(password: bytes) -> bytes:
    """What a writer shows to bookies in adds, fencing reads and LAC writes: 20 bytes."""
    return hashlib.sha1(b"ledger" + password).digest()


def _crc32c_of(header: bytes, payload: Buffer) -> bytes:
    return _U32(crc32c(payload, crc32c(header)))


def _crc32_of(header: bytes, payload: Buffer) -> bytes:
    return _U64(zlib.crc32(payload, zlib.crc32(header)))


def _nothing_of(header: bytes, payload: Buffer) -> bytes:
    return b""


def _hmac_with(password: bytes) -> Callable[[bytes, Buffer], bytes]:
    key = hashlib.sha1(b"mac" + password).digest()
    return lambda header, payload: hmac.digest(key, header + payload, "sha1")


class EntryDigest:
    """How the entries of one ledger are protected: made once a ledger, used for each entry.

    ``of(header, payload)`` is an attribute chosen at construction, so that the hot path has no
    branch on the type. ``size`` is in bytes; ``body_offset`` is where the payload begins.
    """

    __slots__ = ("body_offset", "of", "size", "type")

    def __init__(self, digest_type: DigestType, password: bytes = b"") -> None:
        self.type = digest_type
        self.of: Callable[[bytes, Buffer], bytes] = {
            DigestType.CRC32C: _crc32c_of,
            DigestType.CRC32: _crc32_of,
            DigestType.DUMMY: _nothing_of,
            DigestType.HMAC: _hmac_with(password),
        }[digest_type]
        self.size = len(self.of(b"", b""))
        self.body_offset = ENTRY_HEADER_BYTES + self.size


def encode_entry(
    digest: EntryDigest, ledger_id: int, entry_id: int, lac: int, length: int, payload: Buffer
) -> bytes:
    """The whole entry. ``length`` counts payload bytes of the ledger, this entry's included."""
    header = _pack_header(ledger_id, entry_id, lac, length)
    return b"".join((header, digest.of(header, payload), payload))


def decode_header(entry: bytes) -> EntryHeader:
    """The header of an entry that a peer wants stored. Raises ProtocolError when it cannot be one.

    The digest is not checked: only clients know the password that an HMAC needs.
    """
    if len(entry) < ENTRY_HEADER_BYTES:
        raise ProtocolError(f"an entry of {len(entry)} bytes has no header")
    header = EntryHeader(*_unpack_header(entry))
    if header.ledger_id < 0 or not NO_ENTRY <= header.lac < header.entry_id or header.length < 0:
        raise ProtocolError(f"an impossible entry header: {header}")
    return header


def decode_entry(digest: EntryDigest, ledger_id: int, entry_id: int, entry: Buffer) -> Entry:
    """Checks an entry that was read. Raises CorruptionError: wrong ids, digest or size.

    ``entry_id`` -1 takes whatever entry the bookie has as its last (a LAC read).
    """
    offset = digest.body_offset
    if len(entry) < offset:
        raise CorruptionError(f"ledger {ledger_id} entry {entry_id}: only {len(entry)} bytes")
    found_ledger, found, lac, length = _unpack_header(entry)
    if found_ledger != ledger_id or (found != entry_id and entry_id != NO_ENTRY):
        raise CorruptionError(
            f"ledger {ledger_id} entry {entry_id}: got ledger {found_ledger} entry {found}"
        )
    payload = entry[offset:]
    header = bytes(entry[:ENTRY_HEADER_BYTES])
    if digest.of(header, payload) != entry[ENTRY_HEADER_BYTES:offset]:
        raise CorruptionError(f"ledger {ledger_id} entry {found}: {digest.type.name} is wrong")
    if not NO_ENTRY <= lac < found or length < len(payload):
        raise CorruptionError(
            f"ledger {ledger_id} entry {found}: LAC {lac}, length {length} cannot be"
        )
    return Entry(found, lac, length, payload)


def encode_lac(digest: EntryDigest, ledger_id: int, lac: int) -> bytes:
    """The body of an explicit LAC: ledger id, LAC and a digest over both."""
    header = _LAC_HEADER.pack(ledger_id, lac)
    return header + digest.of(header, b"")


def decode_lac(digest: EntryDigest, ledger_id: int, body: bytes) -> int:
    """The LAC in an explicit LAC body. Raises CorruptionError: wrong ledger, digest or size."""
    if len(body) != _LAC_HEADER.size + digest.size:
        raise CorruptionError(f"ledger {ledger_id}: a LAC body of {len(body)} bytes")
    found_ledger, lac = _LAC_HEADER.unpack_from(body)
    header = body[: _LAC_HEADER.size]
    if found_ledger != ledger_id or digest.of(header, b"") != body[_LAC_HEADER.size :]:
        raise CorruptionError(f"ledger {ledger_id}: bad LAC body for ledger {found_ledger}")
    if lac < NO_ENTRY:
        raise CorruptionError(f"ledger {ledger_id}: LAC {lac} cannot be")
    return int(lac)


def peek_lac(body: bytes) -> tuple[int, int]:
    """(ledger id, LAC) of an explicit LAC body, as a bookie sees it: without the digest.

    Raises ProtocolError when the body is too short or names no ledger or LAC.
    """
    if len(body) < _LAC_HEADER.size:
        raise ProtocolError(f"a LAC body of {len(body)} bytes")
    ledger_id, lac = _LAC_HEADER.unpack_from(body)
    if ledger_id < 0 or lac < NO_ENTRY:
        raise ProtocolError(f"an impossible LAC body: ledger {ledger_id}, LAC {lac}")
    return ledger_id, lac
