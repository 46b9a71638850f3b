"""The entries of a ledger that a bookie has, as BookKeeper's list-of-entries response encodes them.

A header of 64 bytes (version 0, count of groups, zeros) precedes the groups, in rising order, of 24
bytes each: first start, last start, size, period. A group stands for the runs of ``size``
consecutive ids that start at first start, first start + period, and so on up to last start; a
single run has period 0. ``encode`` writes one group per run, as Apache's bookie does; ``decode``
reads all groups.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ..protocol.errors import ProtocolError

_HEADER = struct.Struct(">ii56x")
_GROUP = struct.Struct(">qqii")
_VERSION = 0
_SIZE_MAX = 2**31 - 1


class Group(NamedTuple):
    """Runs of ``size`` ids, starting at ``first_start`` and then every ``period`` ids."""

    first_start: int
    last_start: int
    size: int
    period: int


class Availability:
    """The set of entry ids that a bookie has, stored as runs of consecutive ids."""

    __slots__ = ("_groups", "_starts")

    def __init__(self, groups: list[Group]) -> None:
        self._groups = groups
        self._starts = [group.first_start for group in groups]

    def __contains__(self, entry_id: int) -> bool:
        at = bisect_right(self._starts, entry_id) - 1
        if at < 0:
            return False
        group = self._groups[at]
        if entry_id >= group.last_start + group.size:
            return False
        offset = entry_id - group.first_start
        return (offset % group.period if group.period else offset) < group.size

    def __len__(self) -> int:
        return sum(
            group.size * ((group.last_start - group.first_start) // (group.period or 1) + 1)
            for group in self._groups
        )

    @property
    def last(self) -> int:
        """The highest id; -1 if there is none."""
        return max((group.last_start + group.size - 1 for group in self._groups), default=-1)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Yield (first id, count) of each run, ascending; neighbours may be adjacent."""
        for group in self._groups:
            for start in range(group.first_start, group.last_start + 1, group.period or 1):
                yield start, group.size

    def missing(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield (first id, last id) of each missing run within ``first``..``last``."""
        for start, count in self.runs():
            if start > last:
                break
            if start > first:
                yield first, start - 1
            first = max(first, start + count)
        if first <= last:
            yield first, last


def runs_of(entry_ids: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield (first id, count) of each run of consecutive ids; ``entry_ids`` strictly increase."""
    first, count = 0, 0
    for entry_id in entry_ids:
        if count and entry_id == first + count and count < _SIZE_MAX:
            count += 1
            continue
        if count:
            assert entry_id >= first + count, "entry ids must rise"
            yield first, count
        first, count = entry_id, 1
    if count:
        yield first, count


def encode(runs: Iterable[tuple[int, int]]) -> bytes:
    """Encode runs of (first id, count), which are in ascending order and do not overlap."""
    groups = [_GROUP.pack(first, first, count, 0) for first, count in runs]
    return b"".join((_HEADER.pack(_VERSION, len(groups)), *groups))


def decode(data: bytes) -> Availability:
    """Decode a list of entries. Raises ProtocolError."""
    if len(data) < _HEADER.size:
        raise ProtocolError(f"list of entries has only {len(data)} bytes")
    version, count = _HEADER.unpack_from(data)
    body = data[_HEADER.size :]
    if version != _VERSION or len(body) != count * _GROUP.size:
        raise ProtocolError(
            f"list of entries has version {version} and {count} groups in {len(body)} bytes"
        )
    groups = [Group(*fields) for fields in _GROUP.iter_unpack(body)]
    end = 0  # one above the last id of the previous group
    for group in groups:
        if not _is_group(group) or group.first_start < end:
            raise ProtocolError(f"list of entries has an invalid or overlapping {group}")
        end = group.last_start + group.size
    return Availability(groups)


def _is_group(group: Group) -> bool:
    span = group.last_start - group.first_start
    if group.size < 1 or group.period < 0:
        return False
    if group.period == 0:
        return span == 0
    return span >= 0 and span % group.period == 0 and group.size <= group.period
