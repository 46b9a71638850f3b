"""Splits are cut and joined without losing an entry or changing the order."""

from itertools import chain

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import InputPartition

from rhumbline.coldstore.archive.manifest import Part
from rhumbline.coldstore.archive.part_scan import RowSelection
from rhumbline.core.protocol.dlsn import Dlsn
from rhumbline.spark.read.division import PACKED_BYTES, Split, divide
from rhumbline.spark.read.splits import ArchiveSplit, HotSplit, PackedSplit


def archived(lssn: int, first: int, entries: int, records: int, size_bytes: int) -> ArchiveSplit:
    part = Part("part", first, first + entries - 1, 0, 0, records, 0, size_bytes, "", "")
    selection = RowSelection(first, first + entries)
    return ArchiveSplit("s", lssn, "key", part, selection, records)


def hot(lssn: int, first: int, entries: int, records: int) -> HotSplit:
    return HotSplit("s", Dlsn(lssn, first, 0), Dlsn(lssn, first + entries, 0), records)


@st.composite
def splits(draw: st.DrawFn) -> list[Split]:
    found: list[Split] = []
    for lssn in range(1, draw(st.integers(2, 12))):
        first, entries = draw(st.integers(0, 5)), draw(st.integers(1, 40))
        records = entries * draw(st.integers(1, 30))
        if draw(st.booleans()):
            found.append(hot(lssn, first, entries, records))
        else:
            size_bytes = draw(st.sampled_from((1000, 1 << 20, PACKED_BYTES, 5 * PACKED_BYTES)))
            found.append(archived(lssn, first, entries, records, size_bytes))
    return found


def flat(tasks: list[InputPartition]) -> list[Split]:
    found: list[Split] = []
    for task in tasks:
        if isinstance(task, PackedSplit):
            found.extend(task.splits)
        else:
            assert isinstance(task, ArchiveSplit | HotSplit)
            found.append(task)
    return found


def entries_of(found: list[Split]) -> list[tuple[int, int]]:
    """Return segment and entry id of every entry that the splits read, in order."""
    return [
        (split.lssn if isinstance(split, ArchiveSplit) else split.start.lssn, entry)
        for split in found
        for entry in range(*split.entry_range)
    ]


@settings(max_examples=60)
@given(splits(), st.none() | st.integers(1, 60), st.none() | st.integers(1, 500))
def test_every_entry_is_read_once_and_in_order(
    found: list[Split], least: int | None, most: int | None
) -> None:
    tasks = divide(found, min_partitions=least, max_records=most)
    entries = entries_of(found)
    assert entries_of(flat(tasks)) == entries
    assert len(tasks) >= min(least or 1, len(entries))
    if most is not None:
        for task in tasks:
            parts = flat([task])
            total = sum(split.records for split in parts)
            assert total <= most + 60 or len(entries_of(parts)) == 1


def test_small_parts_share_a_task_and_large_ones_do_not() -> None:
    small: list[Split] = [archived(lssn, 0, 3, 30, 10_000) for lssn in range(1, 101)]
    large: list[Split] = [archived(200, 0, 3, 30, PACKED_BYTES)]
    tasks = divide(small + large, min_partitions=None, max_records=None)
    assert 10 < len(tasks) < 20
    assert tasks[-1] == large[0]
    assert len(divide(small, min_partitions=40, max_records=None)) >= 40
    assert divide([], min_partitions=3, max_records=3) == []


@pytest.mark.parametrize("entries", [1, 5_000, 100_000])
def test_a_large_segment_in_ledgers_is_read_by_several_tasks(entries: int) -> None:
    tasks = divide([hot(1, 0, entries, entries)], min_partitions=None, max_records=None)
    assert len(tasks) == -(-entries // 4096)
    assert list(chain.from_iterable(entries_of(flat([task])) for task in tasks)) == [
        (1, entry) for entry in range(entries)
    ]
