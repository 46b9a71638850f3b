"""Splits: what one Spark task reads. Half-open ranges of positions of one stream."""

from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ...coldstore.archive.part_scan import RowSelection
from ...core.protocol.dlsn import Dlsn


@dataclass
class ArchiveSplit(InputPartition):
    """What is wanted of a part file."""

    stream: str
    lssn: int
    key: str
    size_bytes: int
    wanted: RowSelection


@dataclass
class HotSplit(InputPartition):
    """Positions [start, end) of a stream, read by the core client; ``end`` is an entry border."""

    stream: str
    start: Dlsn
    end: Dlsn
