"""Part files read in ranges: only the footer, and then the columns of the row groups that are asked
for. Needs only pyarrow.

What is fetched is laid into an anonymous mapping as large as the file, whose other pages are never
touched: so the Parquet reader finds every byte at its place, and no byte is read that is not used.
"""

import asyncio
import mmap
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ..core.protocol.errors import CorruptionError
from ..core.runtime.cold_store import ColdStore
from .schema import SCHEMA

_TAIL_BYTES = 64 * 1024
_END_BYTES = 8
"""Length of the footer and magic, at the very end."""
_GAP_BYTES_MAX = 64 * 1024
"""Two ranges so close to each other are read as one."""


class RowGroup(NamedTuple):
    """What the footer says of a row group."""

    first_entry_id: int
    last_entry_id: int
    first_txid: int
    last_txid: int
    record_count: int


class PartFile:
    """One part, opened. Any number of calls may run side by side."""

    def __init__(self, cold: ColdStore, key: str, size_bytes: int, footer: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self._cold = cold
        self._key = key
        self._size_bytes = size_bytes
        self._footer = footer
        self.bytes_read = 0
        self.row_groups = tuple(_row_group(footer, n, key) for n in range(footer.num_row_groups))

    @classmethod
    async def open(cls, cold: ColdStore, key: str, size_bytes: int) -> "PartFile":
        """Reads the footer. Raises NoSuchObjectError, CorruptionError."""
        begin = max(0, size_bytes - _TAIL_BYTES)
        tail = await cold.get(key, begin, size_bytes - begin)
        fetched = len(tail)
        if len(tail) != size_bytes - begin or not tail.endswith(b"PAR1") or len(tail) < _END_BYTES:
            raise CorruptionError(f"{key}: not {size_bytes} bytes of Parquet")
        footer_bytes = int.from_bytes(tail[-8:-4], "little") + _END_BYTES
        if footer_bytes > size_bytes:
            raise CorruptionError(f"{key}: a footer larger than the file")
        if footer_bytes > len(tail):
            tail = await cold.get(key, size_bytes - footer_bytes, footer_bytes)
            fetched += len(tail)
        try:
            footer: Any = pq.read_metadata(pa.BufferReader(tail))
        except (pa.ArrowException, OSError) as error:
            raise CorruptionError(f"{key}: {error}") from error
        if not footer.schema.to_arrow_schema().equals(SCHEMA):
            raise CorruptionError(f"{key}: a part with other columns")
        part = cls(cold, key, size_bytes, footer)
        part.bytes_read = fetched
        return part

    async def read(self, group: int, columns: Sequence[str] = SCHEMA.names) -> "pa.Table":
        """These columns of a row group. Raises NoSuchObjectError, CorruptionError."""
        ranges = self._ranges(group, columns)
        gets = [self._cold.get(self._key, begin, end - begin) for begin, end in ranges]
        fetched = await asyncio.gather(*gets)
        with mmap.mmap(-1, self._size_bytes) as space:
            for (begin, end), data in zip(ranges, fetched, strict=True):
                if len(data) != end - begin:
                    raise CorruptionError(f"{self._key}: shorter than its manifest says")
                space[begin:end] = data
                self.bytes_read += len(data)
            return self._decode(space, group, columns)

    def _decode(self, space: mmap.mmap, group: int, columns: Sequence[str]) -> "pa.Table":
        with memoryview(space) as view:
            source = pa.BufferReader(pa.py_buffer(view))
            file: Any = pq.ParquetFile(
                source, metadata=self._footer, page_checksum_verification=True, pre_buffer=False
            )
            try:
                table = file.read_row_group(group, columns=list(columns), use_threads=False)
            except (pa.ArrowException, OSError) as error:
                raise CorruptionError(f"{self._key}: {error}") from error
            finally:
                file.close(force=True)
                del file, source
        return table

    def _ranges(self, group: int, columns: Sequence[str]) -> list[tuple[int, int]]:
        found = self._footer.row_group(group)
        chunks = [found.column(SCHEMA.names.index(name)) for name in columns]
        spans = sorted(_span(chunk) for chunk in chunks)
        ranges: list[tuple[int, int]] = []
        for begin, end in spans:
            if not 0 <= begin <= end <= self._size_bytes:
                raise CorruptionError(f"{self._key}: its footer names bytes outside of it")
            if ranges and begin - ranges[-1][1] <= _GAP_BYTES_MAX:
                ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
            else:
                ranges.append((begin, end))
        return ranges


def _span(chunk: Any) -> tuple[int, int]:  # noqa: ANN401 - pyarrow has no types
    begin = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        begin = min(begin, chunk.dictionary_page_offset)
    return begin, begin + chunk.total_compressed_size


def _row_group(footer: Any, number: int, key: str) -> RowGroup:  # noqa: ANN401 - pyarrow has no types
    group = footer.row_group(number)
    limits: list[tuple[int, int]] = []
    for name in ("entry_id", "txid"):
        statistics = group.column(SCHEMA.names.index(name)).statistics
        if statistics is None or not statistics.has_min_max:
            raise CorruptionError(f"{key}: a row group without statistics")
        limits.append((statistics.min, statistics.max))
    return RowGroup(*limits[0], *limits[1], group.num_rows)
