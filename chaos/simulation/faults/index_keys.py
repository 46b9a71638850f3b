"""The places of ledger and entry ids in an index file, for faults that damage them.

The format (docs/storage-format.md) is read here once more, so that the simulator does not depend on
the code that it tests.
"""

import struct
import sys
from array import array

_FOOTER_BYTES = 512
_FOOTER = struct.Struct(">8sHHQQQQIIQ")
_MAGIC = b"RHUMIDX\x00"
_LEDGER_BYTES = 16
_OFFSETS_AT = 32
_BLOCK = struct.Struct("<HHBQ")
_RUN_KEY_BYTES = 16
_START_BYTES = 2
_NUMBER_BYTES = 4
_ONE_LENGTH = 1
_WITH_IDS = 2


def key_places(content: bytes) -> list[int]:
    """Return the places of all bytes of ids in the blocks of an index file.

    Ids in the directory and in the footer are left out. Empty if ``content`` is not an index file.
    """
    if len(content) < _FOOTER_BYTES:
        return []
    footer = _FOOTER.unpack_from(content, len(content) - _FOOTER_BYTES)
    magic, *_, ledger_count, block_count, offset = footer
    if magic != _MAGIC:
        return []
    offsets = array("Q")
    start = offset + _LEDGER_BYTES * ledger_count + _OFFSETS_AT * block_count
    offsets.frombytes(content[start : start + offsets.itemsize * block_count])
    if sys.byteorder == "big":
        offsets.byteswap()
    return [place for at in offsets for place in _places_in_block(content, at)]


def _places_in_block(content: bytes, at: int) -> list[int]:
    if at + _BLOCK.size > len(content):
        return []
    count, run_count, flags, _ = _BLOCK.unpack_from(content, at)
    runs = at + _BLOCK.size
    places = list(range(runs, runs + _RUN_KEY_BYTES * run_count))
    if flags & _WITH_IDS:
        lengths = 1 if flags & _ONE_LENGTH else count
        rows = runs + (_RUN_KEY_BYTES + _START_BYTES) * run_count
        ids = rows + _NUMBER_BYTES * (count + lengths)
        places += range(ids, ids + _NUMBER_BYTES * count)
    return [place for place in places if place < len(content)]
