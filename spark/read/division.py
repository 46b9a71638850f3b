"""Divides planned splits among tasks: large ones are cut, small ones share a task.

The order of rows does not change: a task reads consecutive splits one after another, and a split is
cut between entries.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pyspark.sql.datasource import InputPartition

from ...core.protocol.dlsn import Dlsn
from .splits import ArchiveSplit, HotSplit, PackedSplit

PACKED_BYTES = 32 << 20
"""Splits share a task up to this size."""
_OPEN_BYTES = 4 << 20
"""Added to the size of each split, because its file or its stream must be opened."""
_ENTRY_BYTES = 16 << 10
"""Assumed size of an entry in a ledger."""
_HOT_ENTRIES = 4096
"""A task reads at most about this many entries from ledgers."""

Split = ArchiveSplit | HotSplit


def divide(
    splits: Sequence[Split], *, min_partitions: int | None, max_records: int | None
) -> list[InputPartition]:
    """Return the tasks for ``splits``: at least ``min_partitions`` of them, if there are entries.

    A task gets about ``max_records`` records at most. The entries of a split count as equally
    large.
    """
    if not splits:
        return []
    wanted = min_partitions or 1
    counts = _counts(splits, wanted, max_records)
    pieces = [
        piece for split, count in zip(splits, counts, strict=True) for piece in _cut(split, count)
    ]
    limit = min(PACKED_BYTES, sum(map(_cost, pieces)) // wanted)
    return list(_pack(pieces, limit, max_records, max(0, len(pieces) - wanted)))


def _counts(splits: Sequence[Split], wanted: int, max_records: int | None) -> list[int]:
    """Return the number of pieces of each split: in total at least ``wanted``, if possible."""
    total = sum(map(_weight, splits))
    counts = []
    for split in splits:
        count = -(-wanted * _weight(split) // total)
        if max_records is not None:
            count = max(count, -(-split.records // max_records))
        if isinstance(split, HotSplit):
            count = max(count, -(-_entries(split) // _HOT_ENTRIES))
        counts.append(max(1, min(count, _entries(split))))
    missing = wanted - sum(counts)
    for number, split in enumerate(splits):  # large splits can have few entries
        more = max(0, min(missing, _entries(split) - counts[number]))
        counts[number] += more
        missing -= more
    return counts


def _cut(split: Split, count: int) -> Iterator[Split]:
    """Yield ``count`` consecutive pieces of a split, each with an entry at least."""
    first, end = split.entry_range
    if count == 1:
        yield split
        return
    cuts = [first + (end - first) * number // count for number in range(1, count)]
    records = -(-split.records // count)
    for begin, stop in zip([None, *cuts], [*cuts, None], strict=True):
        yield _between(split, begin, stop, records)


def _between(split: Split, begin: int | None, stop: int | None, records: int) -> Split:
    """Return the piece of a split from entry ``begin`` up to entry ``stop``; None: its own end."""
    if isinstance(split, HotSplit):
        lssn = split.start.lssn
        start = split.start if begin is None else Dlsn(lssn, begin, 0)
        end = split.end if stop is None else Dlsn(lssn, stop, 0)
        return replace(split, start=start, end=end, records=records)
    selection = split.selection
    if begin is not None:
        selection = selection._replace(first_entry_id=begin, first_slot=0)
    if stop is not None:
        selection = selection._replace(end_entry_id=stop, end_slot=0)
    return replace(split, selection=selection, records=records)


def _pack(
    pieces: list[Split], limit: int, max_records: int | None, spare: int
) -> Iterator[InputPartition]:
    """Join consecutive pieces up to the limits; ``spare`` is how many joins are allowed."""
    group: list[Split] = []
    size = records = 0
    for piece in pieces:
        fits = spare and size + _cost(piece) <= limit
        if max_records is not None and records + piece.records > max_records:
            fits = False
        if group and not fits:
            yield _joined(group)
            group, size, records = [], 0, 0
        elif group:
            spare -= 1
        group.append(piece)
        size, records = size + _cost(piece), records + piece.records
    yield _joined(group)


def _joined(group: list[Split]) -> InputPartition:
    return group[0] if len(group) == 1 else PackedSplit(tuple(group))


def _weight(split: Split) -> int:
    if isinstance(split, HotSplit):
        return _entries(split) * _ENTRY_BYTES
    held = split.part.last_entry_id + 1 - split.part.first_entry_id
    return max(1, split.part.size_bytes * _entries(split) // held)


def _cost(split: Split) -> int:
    return _weight(split) + _OPEN_BYTES


def _entries(split: Split) -> int:
    first, end = split.entry_range
    return end - first
