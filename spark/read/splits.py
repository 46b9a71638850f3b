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


@dataclass
class HotSplit(InputPartition):
    """Positions [start, end) of a stream, read through a client."""

    stream: str
    start: Dlsn
    end: Dlsn
