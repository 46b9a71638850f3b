"""The bytes of a log file: a file header, then commit groups of records.

A group is what one sync makes durable. Its header names the file's generation (a random number that
nobody else knows), so that bytes of another life, or bytes that a client put into an entry, are
never taken for a group, and the length and CRC of the group before it, so that groups form a chain.
Inside, each record has a CRC of its own, so that one record can be verified when it is read.

All integers are big-endian, CRCs are CRC32C of what stands before them, unless said otherwise.

- file header, 512 bytes: magic, version, kind, number, generation, the previous file's number, end
  and last CRC, bookie id, zeros, CRC;
- group header: magic, count of records, generation, group number, previous length and CRC, length
  and CRC of the body, CRC;
- record: length (top bit: a state record, else an entry), CRC of the bytes, bytes.

Invariant: in one file, group numbers are 0, 1, 2 ... without a hole.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, ForeignDataError

FORMAT_VERSION = 1
"""Of log files. A file of another version is refused, never guessed at."""

FILE_HEADER_BYTES = 512
LOG_KIND = 1
SORTED_KIND = 2

RECORD_HEADER = struct.Struct(">II")
RECORD_HEADER_BYTES = RECORD_HEADER.size
STATE_BIT = 0x8000_0000
"""In a record's length: a state record."""

OFFSET_BITS = 40
"""A position is ``file number << OFFSET_BITS | offset of the record's bytes``."""

OFFSET_MASK = (1 << OFFSET_BITS) - 1
FILE_NUMBER_MAX = 2**23 - 1

_FILE_MAGIC = b"RHUMLOG\x00"
_FILE_FIELDS = struct.Struct(">8sHHQQQQI250s")
_CRC = struct.Struct(">I")
GROUP_MAGIC = b"\xf5RhG"
_GROUP_FIELDS = struct.Struct(">4sIQQIIII")
GROUP_HEADER_BYTES = _GROUP_FIELDS.size + _CRC.size

_pack_group = _GROUP_FIELDS.pack
_pack_crc = _CRC.pack


class FileHeader(NamedTuple):
    """Who wrote a file and where the file before it ended. ``previous_number`` 0: there is none."""

    kind: int
    number: int
    generation: int
    previous_number: int
    previous_end: int
    previous_crc: int
    bookie: BookieId


class GroupHeader(NamedTuple):
    """A group's place in its file's chain and what its body must be."""

    record_count: int
    generation: int
    number: int
    previous_length: int
    previous_crc: int
    length: int
    crc: int


def encode_file_header(header: FileHeader) -> bytes:
    """The first 512 bytes of a file."""
    name = header.bookie.encode("ascii")
    assert len(name) <= 250
    fields = _FILE_FIELDS.pack(_FILE_MAGIC, FORMAT_VERSION, *header[:6], name)
    body = fields.ljust(FILE_HEADER_BYTES - _CRC.size, b"\x00")
    return body + _pack_crc(crc32c(body))


def decode_file_header(data: bytes, path: str) -> FileHeader:
    """Reads a file header.

    Raises CorruptionError (too short, checksum), ForeignDataError (whole, but not our format).
    """
    head = data[:FILE_HEADER_BYTES]
    if len(head) < FILE_HEADER_BYTES or head[-4:] != _pack_crc(crc32c(head[:-4])):
        raise CorruptionError(f"{path}: its header is damaged")
    magic, version, kind, number, generation, previous, end, crc, name = _FILE_FIELDS.unpack_from(
        head
    )
    if magic != _FILE_MAGIC:
        raise ForeignDataError(f"{path} is not a log file of a bookie")
    if version != FORMAT_VERSION:
        raise ForeignDataError(
            f"{path} has format version {version}; this program reads {FORMAT_VERSION}"
        )
    bookie = BookieId(name.rstrip(b"\x00").decode("ascii"))
    return FileHeader(kind, number, generation, previous, end, crc, bookie)


def encode_group_header(header: GroupHeader) -> bytes:
    """What stands before a group's body."""
    fields = _pack_group(GROUP_MAGIC, *header)
    return fields + _pack_crc(crc32c(fields))


def decode_group_header(data: bytes, offset: int = 0) -> GroupHeader | None:
    """The group header at ``offset``, or None if there is no whole and valid one."""
    end = offset + GROUP_HEADER_BYTES
    if len(data) < end or data[offset : offset + 4] != GROUP_MAGIC:
        return None
    fields = data[offset : end - _CRC.size]
    if data[end - _CRC.size : end] != _pack_crc(crc32c(fields)):
        return None
    return GroupHeader(*_GROUP_FIELDS.unpack(fields)[1:])


def encode_record(data: bytes, *, is_state: bool = False) -> bytes:
    """One record; the hot path packs its header itself."""
    return RECORD_HEADER.pack(len(data) | (STATE_BIT if is_state else 0), crc32c(data)) + data


def iterate_records(body: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """(offset of the bytes in the body, bytes, whether state) of each record of a verified body.

    Raises CorruptionError when the records do not fill the body exactly.
    """
    offset, end = 0, len(body)
    unpack = RECORD_HEADER.unpack_from
    while offset < end:
        if end - offset < RECORD_HEADER_BYTES:
            raise CorruptionError(f"a record header is cut at {offset} of {end}")
        length, _ = unpack(body, offset)
        offset += RECORD_HEADER_BYTES
        stop = offset + (length & ~STATE_BIT)
        if stop > end:
            raise CorruptionError(f"a record of {length & ~STATE_BIT} bytes is cut at {end}")
        yield offset, body[offset:stop], length >= STATE_BIT
        offset = stop


def check_record(data: bytes, length: int) -> bytes:
    """The entry in ``data``, which begins with its record header. Raises CorruptionError."""
    return bytes(record_in(memoryview(data), 0, length))


def record_in(data: memoryview, at: int, length: int) -> memoryview:
    """The entry in ``data`` whose record header begins ``at``, in place. Raises CorruptionError."""
    start = at + RECORD_HEADER_BYTES
    entry = data[start : start + length]
    if len(entry) != length or data[at:start] != RECORD_HEADER.pack(length, crc32c(entry)):
        raise CorruptionError("a record does not match its checksum")
    return entry
