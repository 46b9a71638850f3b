"""Splits: the half-open range of positions of one stream that one Spark task reads."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ...coldstore.archive.manifest import Part
from ...coldstore.archive.part_scan import RowSelection
from ...core.protocol.dlsn import Dlsn


@dataclass
class ArchiveSplit(InputPartition):
    """Selected rows of a part file in the archive. ``part`` is its description in the manifest."""

    stream: str
    lssn: int
    key: str
    part: Part
    selection: RowSelection
    records: int
    """Number of records, estimated if only some entries of the part are selected."""

    @property
    def entry_range(self) -> tuple[int, int]:
        """The half-open range of entries that this split may read; at least one entry."""
        selected = self.selection
        first = max(self.part.first_entry_id, selected.first_entry_id)
        end = selected.end_entry_id + bool(selected.end_slot)
        return first, max(first + 1, min(self.part.last_entry_id + 1, end))

    @property
    def bounds(self) -> tuple[Dlsn, Dlsn]:
        """The half-open range of positions that is selected, which can exceed the part."""
        selected = self.selection
        return (
            Dlsn(self.lssn, selected.first_entry_id, selected.first_slot),
            Dlsn(self.lssn, selected.end_entry_id, selected.end_slot),
        )

    @property
    def is_whole(self) -> bool:
        """True if all records of the part are in ``bounds``."""
        first, end = self.bounds
        last = self.part.last_entry_id
        return first <= Dlsn(self.lssn, self.part.first_entry_id, 0) and last < end.entry_id


@dataclass
class HotSplit(InputPartition):
    """Positions [start, end) of one segment of a stream, read through a client."""

    stream: str
    start: Dlsn
    end: Dlsn
    records: int
    """Number of records, estimated from what is known of the segment."""

    @property
    def entry_range(self) -> tuple[int, int]:
        """The half-open range of entries that this split may read; at least one entry."""
        first = self.start.entry_id
        return first, max(first + 1, self.end.entry_id + bool(self.end.slot))


@dataclass
class PackedSplit(InputPartition):
    """Several consecutive splits that one task reads in order."""

    splits: tuple[ArchiveSplit | HotSplit, ...]
