"""Entries that a bookie lacks: the form in which a writer reports them to repair."""

from typing import NamedTuple

from ..protocol.bookie_id import BookieId


class MissingRange(NamedTuple):
    """Entries that ``bookie`` should hold as a member of the fragment and may not have stored.

    ``ranges`` are (first, last) entry ids, both inclusive, in ascending order.
    """

    ledger_id: int
    fragment_first_entry_id: int
    bookie: BookieId
    ranges: tuple[tuple[int, int], ...]
