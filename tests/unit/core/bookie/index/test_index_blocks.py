"""Blocks hold rows of any shape, and find each of them."""

from array import array
from random import Random

import pytest

from rhumbline.core.bookie.index import index_blocks
from rhumbline.core.bookie.index.index_blocks import (
    OWN_BLOCK_ROWS,
    ROWS_MAX,
    EncodedBlock,
    IndexBlock,
    blocks_of,
)
from rhumbline.core.bookie.index.ledger_entries import LedgerEntries, Location

Columns = list[tuple[int, LedgerEntries]]


def rows_of(items: list[tuple[int, int, int]]) -> LedgerEntries:
    rows = LedgerEntries()
    for item in items:
        rows.put(*item)
    return rows


def random_columns(number: int) -> Columns:
    """Return ledgers of all sizes, with missing ids, several lengths and distant positions."""
    random = Random(number)
    columns: Columns = []
    for ledger_id in sorted(random.sample(range(1 << 62), 60)):
        stride, same = random.choice((1, 1, 3)), random.choice((True, False))
        entry_id = random.choice((0, 5, 1 << 40))
        position = random.randrange(1, 9) << 40 | random.randrange(1 << 34)
        items = []
        for _ in range(random.choice((1, 3, OWN_BLOCK_ROWS, 700))):
            if random.random() < 0.003:
                position += 1 << 33
                entry_id += random.choice((0, 1 << 33))
            items.append((entry_id, position, 100 if same else random.randrange(1, 4_000)))
            entry_id += stride
            position += 4_000
        columns.append((ledger_id, rows_of(items)))
    return columns


def all_rows(blocks: list[EncodedBlock]) -> dict[int, list[tuple[int, int, int]]]:
    found: dict[int, list[tuple[int, int, int]]] = {}
    for encoded in blocks:
        for ledger_id, rows in IndexBlock(encoded.data).runs():
            found.setdefault(ledger_id, []).extend(rows.page(0, len(rows)))
    return found


@pytest.mark.parametrize("number", range(4))
def test_blocks_return_the_rows_that_were_put_in(number: int) -> None:
    columns = random_columns(number)
    blocks = list(blocks_of(columns))
    expected = {ledger_id: rows.page(0, len(rows)) for ledger_id, rows in columns}
    assert all_rows(blocks) == expected
    keys = [((b.first_ledger, b.first_id), (b.last_ledger, b.last_id)) for b in blocks]
    assert all(first <= last for first, last in keys)
    assert all(keys[at][1] < keys[at + 1][0] for at in range(len(keys) - 1)), "no overlap"
    assert max(block.row_count for block in blocks) <= ROWS_MAX
    for encoded in blocks:
        block = IndexBlock(encoded.data)
        for ledger_id, rows in block.runs():
            for entry_id, position, length in rows.page(0, len(rows)):
                assert block.find(ledger_id, entry_id) == Location(position, length)
            ids = set(rows.ids)
            for missing in (rows.ids[0] - 1, rows.last + 1, rows.ids[0] + 1):
                if missing not in ids:
                    assert block.find(ledger_id, missing) is None
        assert block.find(encoded.first_ledger + 1, encoded.first_id) is None


def test_ledger_with_many_rows_begins_a_block() -> None:
    small = rows_of([(0, 1_000, 10)])
    large = rows_of([(at, 2_000 + 20 * at, 10) for at in range(OWN_BLOCK_ROWS)])
    blocks = list(blocks_of([(1, small), (2, small), (3, large), (4, small)]))
    assert [(block.first_ledger, block.last_ledger) for block in blocks] == [(1, 2), (3, 4)]


def test_row_takes_four_bytes_in_a_ledger_without_gaps_and_twelve_at_most() -> None:
    dense = rows_of([(at, 2_000 + 20 * at, 10) for at in range(ROWS_MAX)])
    (block,) = blocks_of([(1, dense)])
    assert len(block.data) < 4 * ROWS_MAX + 50
    sparse = rows_of([(2 * at, 2_000 + 20 * at, 10 + at % 2) for at in range(ROWS_MAX)])
    (block,) = blocks_of([(1, sparse)])
    assert len(block.data) < 12 * ROWS_MAX + 50


def test_format_does_not_depend_on_the_byte_order_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = rows_of([(at, 2_000 + 20 * at, 10 + at) for at in range(5)])
    (block,) = blocks_of([(1, rows)])
    assert index_blocks.column_bytes(array("I", [1])) == b"\x01\x00\x00\x00"
    swapped = array("I", [1, 2])
    swapped.byteswap()
    monkeypatch.setattr(index_blocks, "_IS_BIG_ENDIAN", True)
    assert index_blocks.column_bytes(swapped) == b"\x01\x00\x00\x00\x02\x00\x00\x00"
    monkeypatch.undo()
    assert all_rows([block]) == {1: rows.page(0, 9)}
