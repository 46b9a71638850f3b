"""Splits: what one Spark task reads. Half-open ranges of positions of one stream."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ..core.protocol.dlsn import Dlsn


@dataclass
class ArchiveSplit(InputPartition):
    """Entries [first_entry_id, end_entry_id) of a part file, which it may exceed at both ends."""

    stream: str
    lssn: int
    key: str
    size_bytes: int
    first_entry_id: int
    end_entry_id: int
    first_slot: int = 0
    """Of the first entry."""
    ranges: "tuple[tuple[int, int], tuple[int, int]]" = ((0, 2**63 - 1), (0, 2**63 - 1))
    """Lowest and highest entry id, lowest and highest txid that can be wanted."""


@dataclass
class HotSplit(InputPartition):
    """Positions [start, end) of a stream, read by the core client; ``end`` is an entry border."""

    stream: str
    start: Dlsn
    end: Dlsn
