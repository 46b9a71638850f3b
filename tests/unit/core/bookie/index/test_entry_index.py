"""The index in memory: the last put of an id wins, and drops are complete."""

from random import Random

from rhumbline.core.bookie.index.entry_index import IndexedEntry, MemoryIndex


def test_memory_index_equals_a_dictionary() -> None:
    random = Random(1)
    index = MemoryIndex()
    model: dict[int, dict[int, tuple[int, int]]] = {}
    for position in range(3_000):
        ledger, entry_id = random.randrange(10), random.randrange(40)
        index.put([IndexedEntry(ledger, entry_id, position, 7)])
        model.setdefault(ledger, {})[entry_id] = (position, 7)
        if random.random() < 0.02:
            index.drop(ledger)
            model.pop(ledger)
    assert list(index.ledgers()) == sorted(model)
    assert index.row_count == sum(map(len, model.values()))
    for ledger in range(12):
        rows = model.get(ledger, {})
        assert index.last(ledger) == max(rows, default=None)
        expected = [IndexedEntry(ledger, e, *rows[e]) for e in sorted(rows) if e >= 5]
        assert index.page(ledger, 5, 3) == expected[:3]
        for entry_id in range(42):
            assert index.find(ledger, entry_id) == rows.get(entry_id)
    assert [row for row in index.rows() if row.ledger_id == 3] == index.page(3, 0, 100)
    copy = MemoryIndex()
    copy.update(index.columns())
    assert list(copy.rows()) == list(index.rows())
