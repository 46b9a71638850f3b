"""The entries of a durable group become readable, and polls whose LAC rose are found."""

from typing import cast

from rhumbline.core.bookie.index.entry_index import MemoryIndex
from rhumbline.core.bookie.ledger_records import LedgerRecord
from rhumbline.core.bookie.log.group_rows import index_group_entries
from rhumbline.core.bookie.server.long_poll import ParkedPoll


def test_entries_get_their_positions_in_any_order_and_the_last_copy_counts() -> None:
    rows = MemoryIndex()
    one, two = LedgerRecord(1, bytes(20)), LedgerRecord(2, bytes(20))
    adds = [
        (one, 5, -1, 8, 50),
        (one, 6, -1, 66, 51),
        (two, 0, -1, 130, 52),
        (one, 5, -1, 190, 53),
        (one, 3, -1, 260, 54),
        (one, 6, -1, 330, 55),
    ]
    assert index_group_entries(adds, 1_000, rows.entries_of, 99) == []
    assert [tuple(row) for row in rows.rows()] == [
        (1, 3, 1_260, 54),
        (1, 5, 1_190, 53),
        (1, 6, 1_330, 55),
        (2, 0, 1_130, 52),
    ]
    assert (rows.last(1), rows.last(2)) == (6, 0)
    assert (one.lac, one.lac_changed_ms) == (-1, 0), "the LAC has not risen"


def test_ledgers_with_polls_are_returned_once_if_their_lac_rose() -> None:
    ledgers = [LedgerRecord(number, bytes(20)) for number in range(4)]
    poll = cast(ParkedPoll, object())
    for ledger in ledgers[1:]:
        ledger.polls = {poll: None}
    ledgers[2].polls = {}
    ledgers[3].lac = 7
    adds = [(ledger, entry, entry - 1, 8, 5) for entry in (5, 6) for ledger in ledgers]
    adds.append((ledgers[3], 7, 7, 8, 5))
    advanced = index_group_entries(adds, 0, MemoryIndex().entries_of, 99)
    assert advanced == [ledgers[1]]
    assert [ledger.lac for ledger in ledgers] == [5, 5, 5, 7]
    assert [ledger.lac_changed_ms for ledger in ledgers] == [99, 99, 99, 0]
