"""The contract of every index: the last put wins, order does not matter, drops are complete."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rhumbline.core.bookie.index.entry_index import EntryIndex, IndexedEntry, MemoryIndex
from rhumbline.core.bookie.index.lmdb_index import LmdbIndex, open_lmdb_index
from rhumbline.core.bookie.index.tiered_index import IndexStore, MemoryIndexStore, TieredIndex
from rhumbline.core.protocol.bookie_id import BookieId

ME = BookieId("b1@00000001")


async def run_inline(work: Callable[[], Any]) -> Any:  # noqa: ANN401
    await asyncio.sleep(0)
    return work()


async def memory(_: Path) -> MemoryIndexStore:
    return MemoryIndexStore()


async def on_disk(directory: Path) -> LmdbIndex:
    return await open_lmdb_index(directory / "index", ME, run_inline)


STORES = pytest.mark.parametrize("make", [memory, on_disk], ids=["memory", "lmdb"])


def same(index: EntryIndex, model: dict[int, dict[int, tuple[int, int]]]) -> None:
    """The index returns the same results as the model."""
    kept = {ledger: rows for ledger, rows in model.items() if rows}
    assert list(index.ledgers()) == sorted(kept)
    for ledger in range(12):
        rows = model.get(ledger, {})
        assert index.last(ledger) == max(rows, default=None)
        for entry_id in range(0, 40, 3):
            assert index.find(ledger, entry_id) == rows.get(entry_id)
        expected = [IndexedEntry(ledger, e, *rows[e]) for e in sorted(rows) if e >= 5]
        assert index.page(ledger, 5, 1000) == expected
        assert index.page(ledger, 5, 3) == expected[:3]
        span = index.span(ledger, 5, 25)
        assert span.page(0, 1000) == [row[1:] for row in expected if row.entry_id <= 25]


@STORES
@pytest.mark.parametrize("number", range(5))
def test_tiered_index_equals_a_dictionary(make: Any, number: int) -> None:  # noqa: ANN401
    async def main(directory: Path) -> None:
        random = Random(number)
        index = TieredIndex(await make(directory))
        model: dict[int, dict[int, tuple[int, int]]] = {}
        position = 0
        for step in range(60):
            for _ in range(random.randrange(12)):
                ledger, entry_id = random.randrange(10), random.randrange(40)
                position += 1
                index.put([IndexedEntry(ledger, entry_id, position, 7)])
                model.setdefault(ledger, {})[entry_id] = (position, 7)
            if random.random() < 0.2:
                ledger = random.randrange(10)
                index.drop(ledger)
                model.pop(ledger, None)
            if random.random() < 0.3:
                await index.checkpoint(step, step + 1)
                assert index.store.covered_log == step
            if step % 6 == 0:
                same(index, model)
        await index.checkpoint(99, 99)
        assert index.recent.last(0) is None
        same(index, model)
        same(index.store, model)
        await index.store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


@STORES
def test_changes_during_a_checkpoint_are_kept_and_newer_rows_win(make: Any) -> None:  # noqa: ANN401
    async def main(directory: Path) -> None:
        index = TieredIndex(await make(directory))
        index.put([IndexedEntry(1, 0, 10, 1), IndexedEntry(2, 0, 11, 1)])
        running = asyncio.ensure_future(index.checkpoint(1, 1))
        await asyncio.sleep(0)
        index.put([IndexedEntry(1, 0, 20, 1), IndexedEntry(3, 5, 21, 1)])
        index.drop(2)
        same(index, {1: {0: (20, 1)}, 3: {5: (21, 1)}})
        await running
        same(index, {1: {0: (20, 1)}, 3: {5: (21, 1)}})
        await index.checkpoint(2, 2)
        same(index.store, {1: {0: (20, 1)}, 3: {5: (21, 1)}})
        await index.store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


@STORES
@pytest.mark.parametrize("number", range(3))
def test_long_ledgers_in_many_files_equal_a_dictionary(make: Any, number: int) -> None:  # noqa: ANN401
    """Runs of rows: appended, moved, with gaps, of several lengths, in several files."""

    async def main(directory: Path) -> None:
        random = Random(number)
        index = TieredIndex(await make(directory))
        model: dict[int, dict[int, tuple[int, int]]] = {1: {}, 2: {}}
        for step in range(40):
            ledger = random.choice((1, 1, 2))
            rows = model[ledger]
            start = random.choice((max(rows, default=-1) + 1, random.randrange(5_000)))
            stride, same = random.choice((1, 1, 2)), random.choice((True, False))
            position = random.randrange(1, 9) << 40 | random.randrange(1 << 34)
            for at in range(random.randrange(900)):
                length = 100 if same else random.randrange(50, 3_000)
                if random.random() < 0.002:
                    position += random.choice((1 << 33, 1 << 40))
                rows[start + at * stride] = (position, length)
                index.put([IndexedEntry(ledger, start + at * stride, position, length)])
                position += length + 8
            await index.checkpoint(step, step + 1)
        for ledger, rows in model.items():
            ids = sorted(rows)
            expected = [IndexedEntry(ledger, e, *rows[e]) for e in ids]
            assert index.page(ledger, 0, 100_000) == expected
            assert index.last(ledger) == ids[-1]
            for entry_id in range(0, ids[-1] + 5, 7):
                assert index.find(ledger, entry_id) == rows.get(entry_id)
            first, last = ids[len(ids) // 3], ids[len(ids) // 2] + 1
            span = [row[1:] for row in expected if first <= row.entry_id <= last]
            assert index.span(ledger, first, last).page(0, 100_000) == span
        await index.store.close()

    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(Path(directory)))


class FailingStore(MemoryIndexStore):
    """Refuses its first checkpoint."""

    is_refusing = True

    async def apply(self, *args: Any) -> None:  # noqa: ANN401
        await asyncio.sleep(0)
        if self.is_refusing:
            raise OSError("no")
        await super().apply(*args)


def test_failed_checkpoint_loses_no_rows() -> None:
    async def main() -> None:
        store = FailingStore()
        index = TieredIndex(store)
        index.put([IndexedEntry(1, 0, 10, 1), IndexedEntry(2, 0, 11, 1)])
        index.drop(2)
        running = asyncio.ensure_future(index.checkpoint(1, 1))
        await asyncio.sleep(0)
        index.put([IndexedEntry(1, 0, 12, 1)])
        with pytest.raises(OSError, match="no"):
            await running
        same(index, {1: {0: (12, 1)}})
        store.is_refusing = False
        await index.checkpoint(1, 2)
        same(store, {1: {0: (12, 1)}})

    asyncio.run(main())


def test_checkpoint_waits_for_a_cancelled_one(tmp_path: Path) -> None:
    """A bookie that is stopped during a checkpoint makes a last checkpoint."""

    async def main() -> None:
        gate, waits = asyncio.Event(), 0

        async def when_open(work: Callable[[], Any]) -> Any:  # noqa: ANN401
            nonlocal waits
            waits += 1
            await gate.wait()
            return work()

        gate.set()
        store = await open_lmdb_index(tmp_path, ME, when_open)
        gate.clear()
        index = TieredIndex(store)
        index.put([IndexedEntry(1, 0, 10, 1)])
        first = asyncio.ensure_future(index.checkpoint(1, 1))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        index.put([IndexedEntry(1, 1, 20, 1)])
        second = asyncio.ensure_future(index.checkpoint(2, 2))
        for _ in range(5):
            await asyncio.sleep(0)
        assert waits == 2
        gate.set()
        await second
        assert first.cancelled()
        assert (store.covered_log, store.sequence) == (2, 2)
        assert store.page(1, 0, 9) == [IndexedEntry(1, 0, 10, 1), IndexedEntry(1, 1, 20, 1)]
        await store.close()

    asyncio.run(main())


def test_damaged_index_or_index_of_another_bookie_is_emptied(tmp_path: Path) -> None:
    async def main() -> None:
        rows = MemoryIndex()
        rows.put([IndexedEntry(1, 0, 10, 1)])
        store: IndexStore = await open_lmdb_index(tmp_path, ME, run_inline)
        await store.apply(rows.columns(), [], 7, 3)
        await store.close()
        store = await open_lmdb_index(tmp_path, ME, run_inline)
        assert (store.covered_log, store.sequence, store.last(1)) == (7, 3, 0)
        await store.close()
        store = await open_lmdb_index(tmp_path, BookieId("b1@00000002"), run_inline)
        assert (store.covered_log, store.last(1)) == (0, None)
        await store.apply(rows.columns(), [], 7, 3)
        await store.close()
        (tmp_path / "data.mdb").write_bytes(b"rot" * 10_000)
        store = await open_lmdb_index(tmp_path, ME, run_inline)
        assert (store.covered_log, store.last(1)) == (0, None)
        await store.close()

    asyncio.run(main())
