"""The content digest of a segment, which does not depend on how the archive splits it into files.

The digest is the SHA-256 over (entry id, slot of the first record, CRC32C of the uncompressed body)
of every data record set, in order, each packed as ``<qiI``. Record sets carry this CRC32C
(rule STR-12), so the digest can be computed from the log without decoding records, and again from
the rows of the archive.
"""

import hashlib
import struct

import crc32c

from ...core.protocol.attributes.attribute_columns import AttributeBuilder

_LINE = struct.Struct("<qiI")


class ContentDigest:
    """Computes a content digest. ``add`` takes every data record set in order of position."""

    __slots__ = ("_sha",)

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, entry_id: int, slot: int, raw_crc: int) -> None:
        """Add the next record set; ``raw_crc`` is the CRC32C of its uncompressed body."""
        self._sha.update(_LINE.pack(entry_id, slot, raw_crc))

    def hex(self) -> str:
        """Return the digest of what was added so far, in lower-case hex."""
        return self._sha.hexdigest()


def raw_crc_of(
    txids: list[int], payloads: list[bytes], attributes: AttributeBuilder | None = None
) -> int:
    """Return the CRC32C of the uncompressed body that a record set of these records has.

    The body consists of txids, attributes, offsets and payloads. As in the record set itself, the
    txid column is absent when all txids are equal, and so are attributes that no record has.
    """
    count = len(payloads)
    assert count == len(txids) > 0
    crc = crc32c.crc32c(struct.pack(f"<{count}q", *txids)) if txids[0] != txids[-1] else 0
    if attributes is not None:
        crc = crc32c.crc32c(attributes.encode(count)[1], crc)
    offsets = [0]
    for payload in payloads:
        offsets.append(offsets[-1] + len(payload))
    crc = crc32c.crc32c(struct.pack(f"<{count + 1}i", *offsets), crc)
    return crc32c.crc32c(b"".join(payloads), crc)
