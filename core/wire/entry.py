"""The entry format, as sent, stored and returned: 32-byte header, digest, payload (rule LED-5).

The format is BookKeeper's. The digest covers header and payload. A bookie neither checks it nor
rewrites an entry; clients check every entry that they read (rule LED-23). All integers are
big-endian and signed.

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
"""Bytes of an entry, or a view of them in the receive buffer."""


class Entry(NamedTuple):
    """An entry with verified ids and digest. ``length`` is cumulative, in bytes."""

    entry_id: int
    lac: int
    length: int
    payload: Buffer
    """If it is a view, it keeps the whole response in memory."""


def master_key(password: bytes) -> bytes:
    """Return the 20-byte key that authorizes adds, fencing reads and LAC writes at bookies."""
    return hashlib.sha1(b"ledger" + password).digest()


def _crc32c_of(header: bytes, payload: Buffer) -> bytes:
    return _U32(crc32c(payload, crc32c(header)))


def _crc32_of(header: bytes, payload: Buffer) -> bytes:
    return _U64(zlib.crc32(payload, zlib.crc32(header)))


def _empty_digest(header: bytes, payload: Buffer) -> bytes:
    return b""


def _hmac_with(password: bytes) -> Callable[[bytes, Buffer], bytes]:
    key = hashlib.sha1(b"mac" + password).digest()
    return lambda header, payload: hmac.digest(key, header + payload, "sha1")


class EntryDigest:
    """The digest function of one ledger: created once, used for each entry.

    ``of(header, payload)`` is an attribute chosen at construction, so that the hot path does not
    branch on the type. ``size`` is in bytes; ``body_offset`` is the offset of the payload.
    """

    __slots__ = ("body_offset", "of", "size", "type")

    def __init__(self, digest_type: DigestType, password: bytes = b"") -> None:
        self.type = digest_type
        self.of: Callable[[bytes, Buffer], bytes] = {
            DigestType.CRC32C: _crc32c_of,
            DigestType.CRC32: _crc32_of,
            DigestType.DUMMY: _empty_digest,
            DigestType.HMAC: _hmac_with(password),
        }[digest_type]
        self.size = len(self.of(b"", b""))
        self.body_offset = ENTRY_HEADER_BYTES + self.size


def encode_entry(
    digest: EntryDigest, ledger_id: int, entry_id: int, lac: int, length: int, payload: Buffer
) -> bytes:
    """Encode an entry. ``length`` counts the ledger's payload bytes, this entry's included."""
    header = _pack_header(ledger_id, entry_id, lac, length)
    return b"".join((header, digest.of(header, payload), payload))


def decode_entry(digest: EntryDigest, ledger_id: int, entry_id: int, entry: Buffer) -> Entry:
    """Decode and verify an entry. Raises CorruptionError for wrong ids, digest or size.

    ``entry_id`` -1 accepts any entry id: a LAC read returns the bookie's last entry. The LAC may
    reach the entry id or exceed it: Apache's autorecovery writes copies so (rule LED-5).
    """
    offset = digest.body_offset
    if len(entry) < offset:
        raise CorruptionError(f"ledger {ledger_id} entry {entry_id}: only {len(entry)} bytes")
    found_ledger, found, lac, length = _unpack_header(entry)
    if found_ledger != ledger_id or (found != entry_id and entry_id != NO_ENTRY):
        raise CorruptionError(
            f"ledger {ledger_id} entry {entry_id}: received ledger {found_ledger} entry {found}"
        )
    payload = entry[offset:]
    header = bytes(entry[:ENTRY_HEADER_BYTES])
    if digest.of(header, payload) != entry[ENTRY_HEADER_BYTES:offset]:
        raise CorruptionError(f"ledger {ledger_id} entry {found}: wrong {digest.type.name} digest")
    if found < 0 or lac < NO_ENTRY or length < len(payload):
        raise CorruptionError(
            f"ledger {ledger_id} entry {found}: invalid LAC {lac} or length {length}"
        )
    return Entry(found, lac, length, payload)


def encode_lac(digest: EntryDigest, ledger_id: int, lac: int) -> bytes:
    """Encode the body of an explicit LAC: ledger id, LAC and a digest of both."""
    header = _LAC_HEADER.pack(ledger_id, lac)
    return header + digest.of(header, b"")


def decode_lac(digest: EntryDigest, ledger_id: int, body: bytes) -> int:
    """Decode an explicit LAC. Raises CorruptionError for a wrong ledger, digest or size."""
    if len(body) != _LAC_HEADER.size + digest.size:
        raise CorruptionError(f"ledger {ledger_id}: LAC body has {len(body)} bytes")
    found_ledger, lac = _LAC_HEADER.unpack_from(body)
    header = body[: _LAC_HEADER.size]
    if found_ledger != ledger_id or digest.of(header, b"") != body[_LAC_HEADER.size :]:
        raise CorruptionError(
            f"ledger {ledger_id}: wrong ledger ({found_ledger}) or digest in LAC body"
        )
    if lac < NO_ENTRY:
        raise CorruptionError(f"ledger {ledger_id}: invalid LAC {lac}")
    return int(lac)


def peek_lac(body: bytes) -> tuple[int, int]:
    """Return ledger id and LAC of an explicit LAC body, without checking the digest.

    A bookie calls this. Raises ProtocolError if the body is too short or an id is impossible.
    """
    if len(body) < _LAC_HEADER.size:
        raise ProtocolError(f"LAC body has only {len(body)} bytes")
    ledger_id, lac = _LAC_HEADER.unpack_from(body)
    if ledger_id < 0 or lac < NO_ENTRY:
        raise ProtocolError(f"invalid LAC body: ledger {ledger_id}, LAC {lac}")
    return ledger_id, lac
