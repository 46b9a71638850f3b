"""The record sets of an entry: decoded from its payload, or those that it was made of.

An archive has the columns of record sets, so its entries are made of record sets that are views of
these columns. Only a read proxy needs the bytes of such an entry.
"""

from collections.abc import Sequence

from ..protocol.record_set import RecordSet, decode_entry
from .ledger_interface import LedgerEntry


class DecodedEntry:
    """An entry that is made of record sets. Its payload is encoded each time it is used."""

    __slots__ = ("entry_id", "record_sets")

    def __init__(self, entry_id: int, record_sets: Sequence[RecordSet]) -> None:
        """``record_sets``: at least one, in the order of their slots."""
        self.entry_id = entry_id
        self.record_sets = record_sets

    @property
    def payload(self) -> bytes:
        """The encoded record sets. Raises RecordTooLargeError."""
        return b"".join([record_set.encode() for record_set in self.record_sets])


def record_sets_of(entry: LedgerEntry) -> Sequence[RecordSet]:
    """Return the record sets of an entry, at least one, in order. Raises CorruptionError."""
    if isinstance(entry, DecodedEntry):
        return entry.record_sets
    return decode_entry(entry.payload)


def size_of(entry: LedgerEntry) -> int:
    """Return the size of an entry's payload in bytes; for a DecodedEntry, without headers."""
    if isinstance(entry, DecodedEntry):
        return sum(record_set.raw_bytes for record_set in entry.record_sets)
    return len(entry.payload)
