"""The container of backups and inventories: a line with kind, version and digest, then content.

The content is JSON, compressed by zlib. A reader refuses another kind, a version that needs a newer
reader, a size above the bound, and a content that does not match its SHA-256.
"""

import hashlib
import json
import zlib
from typing import Any

from ..core.protocol.errors import CorruptionError, ForeignDataError, LimitExceededError

VERSION = 1
CONTENT_BYTES_MAX = 1 << 30
"""Largest content in bytes, before compression."""

_MAGIC = "rhumbline"
_HEADER_BYTES_MAX = 512


def seal(kind: str, content: dict[str, Any]) -> bytes:
    """Return the bytes of a file. Raises LimitExceededError."""
    plain = json.dumps(content, separators=(",", ":")).encode()
    if len(plain) > CONTENT_BYTES_MAX:
        raise LimitExceededError(
            f"the {kind} has {len(plain)} bytes; the maximum is {CONTENT_BYTES_MAX}"
        )
    body = zlib.compress(plain, 6)
    header = {
        "format": f"{_MAGIC} {kind}",
        "version": VERSION,
        "min_reader": 1,
        "bytes": len(plain),
        "sha256": hashlib.sha256(body).hexdigest(),
    }
    return json.dumps(header).encode() + b"\n" + body


def unseal(kind: str, data: bytes, name: str) -> dict[str, Any]:
    """Return the content of a file; ``name`` is for the text of errors.

    Raises ForeignDataError (another kind of file, or a newer version) and CorruptionError.
    """
    line, found, body = data.partition(b"\n")
    try:
        header = json.loads(line) if found and len(line) <= _HEADER_BYTES_MAX else {}
        if not isinstance(header, dict) or header.get("format") != f"{_MAGIC} {kind}":
            raise ForeignDataError(f"{name} is not a {kind} of Rhumbline")
        reader, size, digest = header["min_reader"], int(header["bytes"]), header["sha256"]
    except (ValueError, KeyError, TypeError) as error:
        raise ForeignDataError(f"{name} is not a {kind} of Rhumbline") from error
    if type(reader) is not int or reader > VERSION:
        raise ForeignDataError(f"{name} needs a reader of version {reader}; this one has {VERSION}")
    if not 0 <= size <= CONTENT_BYTES_MAX or hashlib.sha256(body).hexdigest() != digest:
        raise CorruptionError(f"{name} does not match its checksum")
    try:
        decoder = zlib.decompressobj()
        plain = decoder.decompress(body, CONTENT_BYTES_MAX + 1)
        content = json.loads(plain)
    except (zlib.error, ValueError) as error:
        raise CorruptionError(f"{name} is damaged: {error}") from error
    if len(plain) != size or not isinstance(content, dict):
        raise CorruptionError(f"{name} has {len(plain)} bytes of content, not {size}")
    return content
