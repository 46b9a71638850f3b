"""The content digest of a segment: what an archive proves, whatever files it is in.

SHA-256 over (entry id, slot of the first record, CRC32C of the raw record set) of every data record
set, in order, as ``<qiI``. The raw checksum is the one that the record set was written with, so the
digest can be made from the log without looking at a record, and again from the archive's rows.
"""

import hashlib
import struct

import crc32c

_LINE = struct.Struct("<qiI")


class ContentDigest:
    """Feed it every data record set in order of position."""

    __slots__ = ("_sha",)

    def __init__(self) -> None:
        self._sha = hashlib.sha256()

    def add(self, entry_id: int, slot: int, raw_crc: int) -> None:
        """The next record set."""
        self._sha.update(_LINE.pack(entry_id, slot, raw_crc))

    def hex(self) -> str:
        """The digest so far, in lower-case hex."""
        return self._sha.hexdigest()


def raw_crc_of(txids: list[int], payloads: list[bytes]) -> int:
    """The CRC32C that a record set of these records has: of its txids, offsets and payloads.

    The txid column is left out when all are equal, as in the record set itself.
    """
    count = len(payloads)
    assert count == len(txids) > 0
    crc = crc32c.crc32c(struct.pack(f"<{count}q", *txids)) if txids[0] != txids[-1] else 0
    offsets = [0]
    for payload in payloads:
        offsets.append(offsets[-1] + len(payload))
    crc = crc32c.crc32c(struct.pack(f"<{count + 1}i", *offsets), crc)
    return crc32c.crc32c(b"".join(payloads), crc)
