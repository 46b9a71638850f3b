"""Reads part files by ranges: the footer, then the requested columns of the requested row groups.

The footer is parsed only after its digest was verified: a damaged one can hide row groups, and can
abort the process inside the Parquet library.

This module needs only pyarrow and no other library. The Parquet reader gets the fetched ranges as
a sparse file: nothing is copied, and a read outside of the fetched ranges is an error.
"""

import asyncio
import hashlib
import os
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...core.protocol.errors import CorruptionError
from ...core.runtime.cold_store import ColdStore
from .manifest import Part
from .schema import SCHEMA

_TAIL_BYTES = 64 * 1024
"""Size of the first read at the end of the file, which usually contains the whole footer."""
_END_BYTES = 8
"""Size of the last bytes of the file: the length of the footer and the magic number."""
_CRC_CHARACTERS = 8
_REQUIRED = frozenset(field.name for field in SCHEMA if not field.nullable)
ANY_TIME = (-(2**63), 2**63 - 1)
_BATCH_BYTES = 4 * 1024 * 1024
"""Bytes that are decoded at a time. A buffer for a whole row group would be enlarged, and therefore
copied, several times; and after each batch, the thread waits for the lock of the interpreter."""
_GAP_BYTES_MAX = 64 * 1024
"""Ranges with at most this gap between them are read together."""


class RowGroup(NamedTuple):
    """The statistics of a row group in the footer; limits include both ends.

    Times are in microseconds. ``event_us`` is None if no record has an event time.
    """

    first_entry_id: int
    last_entry_id: int
    first_txid: int
    last_txid: int
    record_count: int
    created_us: tuple[int, int]
    event_us: tuple[int, int] | None


class PartFile:
    """An open part: a file, or some row groups of one. Calls may run concurrently."""

    def __init__(self, cold: ColdStore, key: str, part: Part, footer: Any) -> None:  # noqa: ANN401 - pyarrow has no types
        self._cold = cold
        self._key = key
        self._size_bytes = part.size_bytes
        self.footer = footer
        """The verified metadata of the file, as pyarrow has them."""
        self._chunk_crcs = part.chunk_crcs
        self.bytes_read = 0
        count = part.group_count or footer.num_row_groups
        self._groups = range(part.first_group, part.first_group + count)
        """The row groups of the part among those of the file."""
        self.row_groups = tuple(_row_group(footer, n, key) for n in self._groups)

    @classmethod
    async def open(cls, cold: ColdStore, key: str, part: Part) -> "PartFile":
        """Read and verify the footer of a part, as its manifest describes it.

        Raises NoSuchObjectError and CorruptionError.
        """
        tail, fetched = await _verified_tail(cold, key, part)
        try:
            footer: Any = pq.read_metadata(pa.BufferReader(tail))
        except (pa.ArrowException, OSError) as error:
            raise CorruptionError(f"{key}: {error}") from error
        if not footer.schema.to_arrow_schema().equals(SCHEMA):
            raise CorruptionError(
                f"{key}: the columns are {footer.schema.names}, not {SCHEMA.names} with their types"
            )
        file = cls.in_file(cold, key, part, footer)
        file.bytes_read = fetched
        return file

    @classmethod
    def in_file(cls, cold: ColdStore, key: str, part: Part, footer: Any) -> "PartFile":  # noqa: ANN401 - pyarrow has no types
        """Return a part of a file whose footer is verified. Raises CorruptionError."""
        if part.first_group + part.group_count > footer.num_row_groups:
            raise CorruptionError(f"{key}: has only {footer.num_row_groups} row groups")
        file = cls(cold, key, part, footer)
        crcs = len(file.row_groups) * footer.num_columns
        if len(part.chunk_crcs) != crcs * _CRC_CHARACTERS:
            raise CorruptionError(f"{key}: the manifest does not have the CRC of {crcs} chunks")
        rows = sum(group.record_count for group in file.row_groups)
        if rows != part.record_count:
            raise CorruptionError(
                f"{key}: the part holds {rows} records, the manifest lists {part.record_count}"
            )
        return file

    async def read(self, group: int, columns: Sequence[str] | None = None) -> "pa.Table":
        """Read columns of a row group, by default all, as a table of several chunks.

        A thread verifies and decodes them. Raises NoSuchObjectError and CorruptionError.
        """
        columns = SCHEMA.names if columns is None else columns
        chunks = self._chunks(group, columns)
        pieces = await self._fetch(chunks)

        def verify_and_decode() -> "pa.Table":
            self._check(pieces, chunks)
            return self._decode(pieces, group, columns)

        return await asyncio.to_thread(verify_and_decode)

    async def verify(self, group: int, columns: Sequence[str]) -> None:
        """Verify columns of a row group, for a reader that does not verify what it reads.

        Raises NoSuchObjectError and CorruptionError.
        """
        chunks = self._chunks(group, columns)
        await asyncio.to_thread(self._check, await self._fetch(chunks), chunks)

    async def _fetch(self, chunks: Mapping[tuple[int, int], int]) -> dict[int, bytes]:
        """Return the bytes of chunks by offset, unverified."""
        ranges = _joined(sorted(chunks))
        gets = [self._cold.get(self._key, begin, end - begin) for begin, end in ranges]
        pieces: dict[int, bytes] = {}
        for (begin, end), data in zip(ranges, await asyncio.gather(*gets), strict=True):
            if len(data) != end - begin:
                raise CorruptionError(
                    f"{self._key}: shorter than the {self._size_bytes} bytes of its manifest"
                )
            pieces[begin] = data
            self.bytes_read += len(data)
        return pieces

    def _check(self, pieces: dict[int, bytes], chunks: Mapping[tuple[int, int], int]) -> None:
        """Compare the CRC of each chunk with that in the manifest. Raises CorruptionError."""
        for (begin, end), crc in chunks.items():
            start = max(piece for piece in pieces if piece <= begin)
            chunk = memoryview(pieces[start])[begin - start : end - start]
            if zlib.crc32(chunk) != crc:
                raise CorruptionError(
                    f"{self._key}: bytes {begin} to {end} differ from their CRC in the manifest"
                )

    def _decode(self, pieces: dict[int, bytes], group: int, columns: Sequence[str]) -> "pa.Table":
        """Decode columns from bytes that ``_check`` has verified. Raises CorruptionError."""
        source = pa.PythonFile(_SparseFile(self._key, self._size_bytes, pieces), mode="r")
        try:
            # The CRCs of pages would only repeat the CRCs of the chunks, which are verified.
            # With ``pre_buffer`` it reads all columns at once: each read waits for the lock of the
            # interpreter, up to 5 ms if another thread runs Python code.
            file: Any = pq.ParquetFile(source, metadata=self.footer, pre_buffer=True)
            decoded = file.iter_batches(
                self._batch_rows(group, columns),
                row_groups=[self._groups[group]],
                columns=list(columns),
                use_threads=False,
            )
            batches = list(decoded)
        except (pa.ArrowException, OSError) as error:
            raise CorruptionError(f"{self._key}: {error}") from error
        count, expected = sum(map(len, batches)), self.row_groups[group].record_count
        if not batches or count != expected:
            raise CorruptionError(
                f"{self._key}: row group {group} holds {count} records, the footer lists {expected}"
            )
        return pa.Table.from_batches(batches)

    def _batch_rows(self, group: int, columns: Sequence[str]) -> int:
        """Return the number of rows that have about ``_BATCH_BYTES`` in these columns."""
        leaves = self._leaves(group, columns)
        size = sum(leaf.total_uncompressed_size for _, leaf in leaves)
        rows = self.row_groups[group].record_count
        return max(1, int(rows * _BATCH_BYTES // max(size, _BATCH_BYTES)))

    def _chunks(self, group: int, columns: Sequence[str]) -> dict[tuple[int, int], int]:
        """Return the CRC of each chunk of ``columns``, by the range of its bytes."""
        chunks: dict[tuple[int, int], int] = {}
        for number, leaf in self._leaves(group, columns):
            begin, end = _byte_range(leaf)
            if not 0 <= begin <= end <= self._size_bytes:
                raise CorruptionError(
                    f"{self._key}: the footer names bytes {begin} to {end} of {self._size_bytes}"
                )
            at = (group * self.footer.num_columns + number) * _CRC_CHARACTERS
            chunks[begin, end] = int(self._chunk_crcs[at : at + _CRC_CHARACTERS], 16)
        return chunks

    def _leaves(self, group: int, columns: Sequence[str]) -> Iterator[tuple[int, Any]]:
        """Yield what the footer says of each chunk of ``columns``, and its number in the group."""
        found = self.footer.row_group(self._groups[group])
        for number in range(found.num_columns):
            leaf = found.column(number)
            if leaf.path_in_schema.split(".")[0] in columns:
                yield number, leaf


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return sorted ranges with those joined that have only a small gap between them."""
    ranges: list[tuple[int, int]] = []
    for begin, end in spans:
        if ranges and begin - ranges[-1][1] <= _GAP_BYTES_MAX:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((begin, end))
    return ranges


def chunk_crcs_of(data: bytes) -> str:
    """Return the CRC-32 of each column chunk of a Parquet file, as manifests hold them."""
    footer: Any = pq.read_metadata(pa.BufferReader(data))
    view, crcs = memoryview(data), []
    for group in range(footer.num_row_groups):
        for number in range(footer.num_columns):
            begin, end = _byte_range(footer.row_group(group).column(number))
            crcs.append(f"{zlib.crc32(view[begin:end]):08x}")
    return "".join(crcs)


def footer_of(data: bytes) -> bytes:
    """Return the footer at the end of ``data``, with its length and the magic number.

    If ``data`` is only the end of a file and the footer is longer, return all of ``data``.
    """
    footer_bytes = int.from_bytes(data[-8:-4], "little") + _END_BYTES
    return data[-footer_bytes:]


async def _verified_tail(cold: ColdStore, key: str, part: Part) -> tuple[bytes, int]:
    """Return the end of a part, with the verified footer, and the number of bytes read."""
    size_bytes = part.size_bytes
    begin = max(0, size_bytes - _TAIL_BYTES)
    tail = await cold.get(key, begin, size_bytes - begin)
    fetched = len(tail)
    if len(tail) != size_bytes - begin or not tail.endswith(b"PAR1") or len(tail) < _END_BYTES:
        raise CorruptionError(f"{key}: not a Parquet file of {size_bytes} bytes")
    footer_bytes = int.from_bytes(tail[-8:-4], "little") + _END_BYTES
    if footer_bytes > size_bytes:
        raise CorruptionError(
            f"{key}: a footer of {footer_bytes} bytes in a file of {size_bytes} bytes"
        )
    if footer_bytes > len(tail):
        tail = await cold.get(key, size_bytes - footer_bytes, footer_bytes)
        fetched += len(tail)
    if hashlib.sha256(footer_of(tail)).hexdigest() != part.footer_sha256:
        raise CorruptionError(f"{key}: the SHA-256 of the footer differs from that in the manifest")
    return tail, fetched


class _SparseFile:
    """A sparse file for the Parquet reader: it holds only the ranges that were fetched."""

    closed = False

    def __init__(self, key: str, size_bytes: int, pieces: dict[int, bytes]) -> None:
        self._key = key
        self._size_bytes = size_bytes
        self._pieces = pieces
        self._begins = sorted(pieces)
        self._offset = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """See io.RawIOBase."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._offset, os.SEEK_END: self._size_bytes}[whence]
        self._offset = base + offset
        return self._offset

    def tell(self) -> int:
        """See io.RawIOBase."""
        return self._offset

    def read(self, size: int) -> memoryview:
        """See io.RawIOBase. Raises CorruptionError for bytes that were not fetched."""
        number = bisect_right(self._begins, self._offset) - 1
        begin = self._begins[number] if number >= 0 else self._size_bytes
        found = memoryview(self._pieces.get(begin, b""))[self._offset - begin :][:size]
        if len(found) != size:
            raise CorruptionError(
                f"{self._key}: {size} bytes at offset {self._offset} are not in the columns "
                "that the footer names"
            )
        self._offset += size
        return found

    def readable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def seekable(self) -> bool:
        """See io.RawIOBase."""
        return True

    def writable(self) -> bool:
        """See io.RawIOBase."""
        return False

    def close(self) -> None:
        """Do nothing: the ranges are in memory."""


def _byte_range(chunk: Any) -> tuple[int, int]:  # noqa: ANN401 - pyarrow has no types
    begin = chunk.data_page_offset
    if chunk.dictionary_page_offset is not None:
        begin = min(begin, chunk.dictionary_page_offset)
    return begin, begin + chunk.total_compressed_size


def _row_group(footer: Any, number: int, key: str) -> RowGroup:  # noqa: ANN401 - pyarrow has no types
    group = footer.row_group(number)
    limits = [_limits(group, name) for name in ("entry_id", "txid", "created")]
    if None in limits:
        raise CorruptionError(f"{key}: row group {number} has columns without statistics")
    entries, txids, created = (limit for limit in limits if limit is not None)
    return RowGroup(*entries, *txids, group.num_rows, created, _limits(group, "event_time"))


def _limits(group: Any, name: str) -> tuple[int, int] | None:  # noqa: ANN401 - pyarrow has no types
    """Return the lowest and the highest value of a column; None if all values are null."""
    found = group.column(SCHEMA.names.index(name)).statistics
    if found is not None and found.has_min_max:
        return found.min_raw, found.max_raw
    is_null = found is not None and found.has_null_count and found.null_count == group.num_rows
    return None if is_null or name in _REQUIRED else ANY_TIME
