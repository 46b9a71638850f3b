"""The rows of one ledger stay ordered and parallel, whatever order they are added in."""

from random import Random

import pytest

from rhumbline.core.bookie.index.ledger_entries import LedgerEntries, Location

Row = tuple[int, int, int]


def rows_of(items: list[Row]) -> LedgerEntries:
    rows = LedgerEntries()
    for item in items:
        rows.put(*item)
    return rows


def listed(rows: LedgerEntries) -> list[Row]:
    found = list(zip(rows.ids, rows.positions, rows.lengths, strict=True))
    assert len(rows) == len(found)
    assert rows.last == (found[-1][0] if found else -1)
    return found


def row(entry_id: int, copy: int = 0) -> Row:
    return entry_id, 1_000 * copy + 10 * entry_id, 100 * copy + entry_id


def test_put_adds_in_order_and_replaces() -> None:
    rows = LedgerEntries()
    assert (listed(rows), rows.is_dense, rows.find(0)) == ([], True, None)
    for entry_id in (5, 7, 3, 6, 0):
        rows.put(*row(entry_id))
    assert listed(rows) == [row(0), row(3), row(5), row(6), row(7)]
    for entry_id in (0, 5, 7):
        rows.put(*row(entry_id, 1))
    assert listed(rows) == [row(0, 1), row(3), row(5, 1), row(6), row(7, 1)]
    assert rows.find(5) == Location(*row(5, 1)[1:])
    for missing in (-1, 1, 4, 8):
        assert rows.find(missing) is None


def test_rows_are_dense_if_no_id_between_them_is_missing() -> None:
    assert rows_of([row(5)]).is_dense
    assert rows_of([row(5), row(6), row(7)]).is_dense
    assert not rows_of([row(5), row(7)]).is_dense


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ([], [3, 4]),
        ([3, 4], []),
        ([1, 2], [3, 4]),
        ([5, 6], [3, 4]),
        ([1, 6], [3, 4]),
        ([3, 4], [3, 4]),
        ([2, 3, 5, 9], [3, 5]),
        ([1, 3, 4, 5, 9], [3, 4, 5]),
        ([1, 4, 9], [3, 5]),
        ([3, 4, 5], [3, 5]),
        ([2, 4, 6], [4, 5, 6, 7]),
        ([3, 4], [2, 5]),
        ([3, 9], [3, 5, 9, 11]),
    ],
)
def test_update_equals_the_puts_of_its_rows(older: list[int], newer: list[int]) -> None:
    rows, other = rows_of([row(at) for at in older]), rows_of([row(at, 1) for at in newer])
    rows.update(other)
    expected = {at: row(at) for at in older} | {at: row(at, 1) for at in newer}
    assert listed(rows) == [expected[at] for at in sorted(expected)]
    assert listed(other) == [row(at, 1) for at in newer], "the newer rows are unchanged"


def test_random_updates_equal_a_dictionary() -> None:
    random = Random(3)
    rows, model = LedgerEntries(), dict[int, Row]()
    for copy in range(200):
        ids = random.sample(range(60), random.randrange(6))
        rows.update(rows_of([row(at, copy) for at in ids]))
        model |= {at: row(at, copy) for at in ids}
        assert listed(rows) == [model[at] for at in sorted(model)]


def test_parts_spans_and_pages_are_copies_of_some_rows() -> None:
    rows = rows_of([row(at) for at in (2, 3, 5, 8)])
    assert listed(rows.part(1, 3)) == [row(3), row(5)]
    assert listed(rows.part(2, 2)) == []
    assert listed(rows.part(0, 9)) == listed(rows)
    assert listed(rows.span(3, 5)) == [row(3), row(5)]
    assert listed(rows.span(4, 7)) == [row(5)]
    assert listed(rows.span(0, 2)) == [row(2)]
    assert listed(rows.span(6, 7)) == []
    assert rows.page(3, 2) == [row(3), row(5)]
    assert rows.page(4, 9) == [row(5), row(8)]
    assert rows.page(9, 9) == []
    assert rows.page(0, 0) == []
    part = rows.part(0, 2)
    part.put(*row(2, 1))
    assert rows.find(2) == Location(*row(2)[1:])
