"""Adds the entries of a durable commit group to the index, which makes them readable.

This function is a module of its own only because it is compiled with mypyc: it runs for every add,
while its caller, ``Storage``, stays interpreted.
"""

from collections.abc import Callable, Sequence

from ..index.ledger_entries import LedgerEntries
from ..ledger_records import LedgerRecord


def index_group_entries(
    adds: Sequence[tuple[LedgerRecord, int, int, int, int]],
    position: int,
    entries_of: Callable[[int], LedgerEntries],
    now_ms: int,
) -> list[LedgerRecord]:
    """Puts the entries of a group, whose body begins at ``position``, into the index in memory.

    ``adds`` is ``CommitGroup.adds``. Returns the ledgers with parked polls whose LAC rose.
    """
    previous: LedgerRecord | None = None
    rows: LedgerEntries | None = None
    advanced: dict[int, LedgerRecord] = {}
    for ledger, entry_id, lac, offset, size in adds:
        if ledger is not previous or rows is None:
            previous = ledger
            rows = entries_of(ledger.ledger_id)
        if entry_id > rows.last:
            rows.last = entry_id
            rows.ids.append(entry_id)
            rows.positions.append(position + offset)
            rows.lengths.append(size)
        else:
            rows.put(entry_id, position + offset, size)
        if lac > ledger.lac:
            ledger.lac = lac
            ledger.lac_changed_ms = now_ms
            if ledger.polls:
                advanced[ledger.ledger_id] = ledger
    return list(advanced.values())
