"""Blocks hold rows of any shape, and find each of them."""

import struct
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
    data = index_blocks.column_bytes(swapped)
    assert data == b"\x01\x00\x00\x00\x02\x00\x00\x00"
    assert index_blocks.read_column("I", data, 0, 2) == swapped
    monkeypatch.undo()
    assert all_rows([block]) == {1: rows.page(0, 9)}


def test_bytes_of_a_block_are_those_of_the_specification() -> None:
    dense = [(4, rows_of([(5, 1_000, 70), (6, 1_200, 70)])), (9, rows_of([(0, 900, 70)]))]
    (block,) = blocks_of(dense)
    expected = struct.pack("<HHBQ", 3, 2, 1, 900) + struct.pack("<QQqqHH", 4, 9, 5, 0, 0, 2)
    assert block.data == expected + struct.pack("<IIII", 100, 300, 0, 70)
    assert block[:5] == (4, 5, 9, 0, 3)
    sparse = [(4, rows_of([(5, 1_000, 70), (8, 1_200, 71)])), (9, rows_of([(7, 900, 70)]))]
    (block,) = blocks_of(sparse)
    expected = struct.pack("<HHBQ", 3, 2, 2, 900) + struct.pack("<QQqqHH", 4, 9, 5, 7, 0, 2)
    assert block.data == expected + struct.pack("<9I", 100, 300, 0, 70, 71, 70, 0, 3, 0)
    assert block[:5] == (4, 5, 9, 7, 3)
    (block,) = blocks_of([(4, rows_of([(5, 1_000, 70), (8, 1_200, 70)]))])
    assert block.data[4] == 3, "one length, and ids"


def test_block_finds_exactly_its_rows_and_tells_its_size() -> None:
    for ids in ((5, 6, 7), (5, 8, 9)):
        columns = [
            (4, rows_of([(at, 10 * at, at) for at in ids])),
            (9, rows_of([(at, 20 * at, at) for at in ids])),
        ]
        (encoded,) = blocks_of(columns)
        block = IndexBlock(encoded.data)
        assert block.size == len(encoded.data) + 600
        for ledger_id in range(11):
            found = {at: block.find(ledger_id, at) for at in range(-1, 12)}
            rows = dict(columns).get(ledger_id, LedgerEntries())
            assert found == {at: rows.find(at) for at in found}
            copy = block.rows_of(ledger_id)
            assert copy.page(0, 99) == rows.page(0, 99)
            assert copy.last == rows.last


def test_blocks_are_cut_at_their_row_count_and_at_the_start_of_long_ledgers() -> None:
    def rows(first: int, count: int) -> LedgerEntries:
        return rows_of([(first + at, 1_000 + at, 10) for at in range(count)])

    def shape(*counts: int) -> list[tuple[int, int, int, int, int]]:
        columns = [(number, rows(3, count)) for number, count in enumerate(counts, 1)]
        return [block[:5] for block in blocks_of(columns)]

    assert shape() == []
    assert shape(ROWS_MAX) == [(1, 3, 1, 514, 512)]
    assert shape(ROWS_MAX + 1) == [(1, 3, 1, 514, 512), (1, 515, 1, 515, 1)]
    assert shape(63, 63) == [(1, 3, 2, 65, 126)]
    assert shape(63, 64, 63) == [(1, 3, 1, 65, 63), (2, 3, 3, 65, 127)]
    small = shape(*[50] * 11)
    assert small == [(1, 3, 11, 14, 512), (11, 15, 11, 52, 38)]
    assert shape(ROWS_MAX, 1) == [(1, 3, 1, 514, 512), (2, 3, 2, 3, 1)]


def test_rows_that_are_too_far_apart_are_in_different_blocks() -> None:
    far = 1 << 32
    for first, second, together in (
        ((0, 1_000, 7), (1, 1_000 + far - 1, 7), True),
        ((0, 1_000, 7), (1, 1_000 + far, 7), False),
        ((0, 1_000 + far, 7), (1, 1_000, 7), False),
        ((0, 1_000, 7), (far - 1, 1_010, 7), True),
        ((0, 1_000, 7), (far, 1_010, 7), False),
    ):
        blocks = list(blocks_of([(1, rows_of([first, second]))]))
        assert len(blocks) == (1 if together else 2)
        assert all_rows(blocks) == {1: [first, second]}
        if first[0] == 0 and second[0] == 1:
            blocks = list(blocks_of([(1, rows_of([first])), (2, rows_of([second]))]))
            assert len(blocks) == (1 if together else 2)
    rows = rows_of([(at, 1_000 + at * 10, 7) for at in range(40)] + [(40, 1_000 + 2 * far, 7)])
    blocks = list(blocks_of([(1, rows), (2, rows_of([(0, 5, 7)]))]))
    assert [block.row_count for block in blocks] == [20, 10, 5, 3, 1, 1, 1, 1], "halved"
    assert all_rows(blocks)[1] == rows.page(0, 99)
