"""The format of a log file: a file header, then commit groups of records.

A group is what one sync makes durable. Its header holds the file's generation, a secret random
number, so that bytes of a deleted file, or bytes that a client put into an entry, are never taken
for a group. It also holds the length and CRC of the previous group, so that groups form a chain.
Each record has its own CRC, so that one record can be verified when it is read.

All integers are big-endian. A CRC is the CRC32C of the preceding bytes, unless said otherwise.

- file header, 512 bytes: magic, version, kind, number, generation, the previous file's number, end
  and last CRC, bookie id, zeros, CRC;
- group header: magic, count of records, generation, group number, previous length and CRC, length
  and CRC of the body, CRC;
- record: length (top bit: a state record, else an entry), CRC of the bytes, bytes.

Invariant: the group numbers of a file are 0, 1, 2, ... without a gap.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from ...protocol.bookie_id import BookieId
from ...protocol.errors import CorruptionError, ForeignDataError

FORMAT_VERSION = 2
"""Version of the file format. A file with another version is refused."""

FILE_HEADER_BYTES = 512
LOG_KIND = 1
SORTED_KIND = 2

RECORD_HEADER = struct.Struct(">II")
RECORD_HEADER_BYTES = RECORD_HEADER.size
STATE_BIT = 0x8000_0000
"""Bit in a record's length that marks a state record."""

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
    """The header of a file, with the end of the previous file (``previous_number`` 0: none)."""

    kind: int
    number: int
    generation: int
    previous_number: int
    previous_end: int
    previous_crc: int
    bookie: BookieId


class GroupHeader(NamedTuple):
    """The header of a group: its position in the file's chain, and its body's length and CRC."""

    record_count: int
    generation: int
    number: int
    previous_length: int
    previous_crc: int
    length: int
    crc: int


def encode_file_header(header: FileHeader) -> bytes:
    """Return the first 512 bytes of a file."""
    name = header.bookie.encode("ascii")
    assert len(name) <= 250
    fields = _FILE_FIELDS.pack(_FILE_MAGIC, FORMAT_VERSION, *header[:6], name)
    body = fields.ljust(FILE_HEADER_BYTES - _CRC.size, b"\x00")
    return body + _pack_crc(crc32c(body))


def decode_file_header(data: bytes, path: str) -> FileHeader:
    """Decodes a file header.

    Raises CorruptionError (too short, wrong checksum), ForeignDataError (intact, another format).
    """
    head = data[:FILE_HEADER_BYTES]
    if len(head) < FILE_HEADER_BYTES or head[-4:] != _pack_crc(crc32c(head[:-4])):
        raise CorruptionError(f"{path}: the file header is damaged")
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
    """Return the bytes before a group's body."""
    fields = _pack_group(GROUP_MAGIC, *header)
    return fields + _pack_crc(crc32c(fields))


def decode_group_header(data: bytes, offset: int = 0) -> GroupHeader | None:
    """Return the group header at ``offset``, None if there is no complete and valid one."""
    end = offset + GROUP_HEADER_BYTES
    if len(data) < end or data[offset : offset + 4] != GROUP_MAGIC:
        return None
    fields = data[offset : end - _CRC.size]
    if data[end - _CRC.size : end] != _pack_crc(crc32c(fields)):
        return None
    return GroupHeader(*_GROUP_FIELDS.unpack(fields)[1:])


def encode_record(data: bytes, *, is_state: bool = False) -> bytes:
    """Return the bytes of one record. The hot path packs the record header itself."""
    return RECORD_HEADER.pack(len(data) | (STATE_BIT if is_state else 0), crc32c(data)) + data


def iterate_records(body: bytes) -> Iterator[tuple[int, bytes, bool]]:
    """Yield (offset in the body, bytes, is a state record) of each record of a verified body.

    Raises CorruptionError if the records do not fill the body exactly.
    """
    offset, end = 0, len(body)
    unpack = RECORD_HEADER.unpack_from
    while offset < end:
        if end - offset < RECORD_HEADER_BYTES:
            raise CorruptionError(f"a record header is truncated at byte {offset} of {end}")
        length, _ = unpack(body, offset)
        offset += RECORD_HEADER_BYTES
        stop = offset + (length & ~STATE_BIT)
        if stop > end:
            raise CorruptionError(
                f"a record of {length & ~STATE_BIT} bytes is truncated at byte {end}"
            )
        yield offset, body[offset:stop], length >= STATE_BIT
        offset = stop


def check_record(data: bytes, length: int) -> bytes:
    """Return the entry in ``data``, which begins with a record header.

    Raises CorruptionError.
    """
    return bytes(record_in(memoryview(data), 0, length))


def record_in(data: memoryview, at: int, length: int) -> memoryview:
    """Return a view of the entry whose record header begins at ``at``. Raises CorruptionError."""
    start = at + RECORD_HEADER_BYTES
    entry = data[start : start + length]
    if len(entry) != length or data[at:start] != RECORD_HEADER.pack(length, crc32c(entry)):
        raise CorruptionError("a record does not match its checksum")
    return entry
