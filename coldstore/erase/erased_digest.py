"""The content digest of a segment from which records were erased."""

from collections.abc import Sequence

from ...core.protocol.errors import CorruptionError
from ..archive.content_digest import ContentDigest
from .erased_set import ErasedSet, find_set


class DigestOfErased:
    """Computes the content digest that a segment had before the erasures.

    ``add`` takes what is left of the record sets, in order of position. A set of which records were
    erased counts with the checksum that the erasure has kept.
    """

    def __init__(self, sets: Sequence[ErasedSet] = ()) -> None:
        self._sets = sorted(sets, key=lambda one: (one.entry_id, one.slot))
        self._next = 0
        self._digest = ContentDigest()

    def add(self, entry_id: int, slot: int, count: int, raw_crc: int) -> None:
        """Add the next run of records. Raises CorruptionError if one of them was erased."""
        self._add_erased_before(entry_id, slot)
        erased = find_set(self._sets, entry_id, slot)
        if erased is None:
            self._digest.add(entry_id, slot, raw_crc)
        elif not erased.keeps(slot, slot + count):
            raise CorruptionError(f"records of entry {entry_id} were erased, and still exist")

    def hex(self) -> str:
        """Return the digest of the whole segment, in lower-case hex."""
        self._add_erased_before(2**63, 0)
        return self._digest.hex()

    def _add_erased_before(self, entry_id: int, slot: int) -> None:
        """Add the sets with erased records that begin before a position, or at it."""
        while self._next < len(self._sets):
            one = self._sets[self._next]
            if (one.entry_id, one.slot) > (entry_id, slot):
                return
            self._digest.add(one.entry_id, one.slot, one.raw_crc)
            self._next += 1
