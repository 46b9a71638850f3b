"""Writes the records of several segments to one Parquet file, or of a large segment to several.

Each segment has row groups of its own, which hold its records unchanged: its content digest
verifies before and after. Small row groups of a segment become larger ones. A file holds either
several whole segments or records of a single one (rule ARC-71).
"""

import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...core.protocol.errors import CorruptionError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import MergedName
from ..archive.manifest import Manifest, Part
from ..archive.part import ROW_GROUP_RECORDS
from ..archive.part_file import PartFile
from ..archive.relocation import MovedSegment
from ..archive.schema import PartOrigin
from ..erase.erased_set import ErasedSet
from ..proof.verify import verify_segment
from ..stores.known_outcome import put_object
from .parquet_output import ParquetOutput

FILE_BYTES_MAX = 192 << 20
"""Size at which a file ends, unless its last row group is larger than the rest of this size."""
_RANDOM_END = 1 << 20


class SegmentRows(NamedTuple):
    """The rows of a segment that files will hold."""

    manifest: Manifest
    """The segment before it moves."""
    tables: AsyncGenerator["pa.Table", None]
    """Row groups, in order."""
    erased: list[ErasedSet]
    """All sets of which records were erased, complete after the last of ``tables``."""


async def write_merged(
    cold: ColdStore, manifests: Sequence[Manifest], name: MergedName, row_group_bytes: int
) -> tuple[MovedSegment, ...]:
    """Write the records of segments to files, as ``write_files``."""
    contents = [SegmentRows(one, stored_tables(cold, one), [*one.erased]) for one in manifests]
    return await write_files(cold, contents, name, row_group_bytes)


async def write_files(
    cold: ColdStore,
    contents: Sequence[SegmentRows],
    name: MergedName,
    row_group_bytes: int,
    file_bytes: int = FILE_BYTES_MAX,
) -> tuple[MovedSegment, ...]:
    """Write rows of segments, read them back, and return where each segment lies.

    A single segment is divided if it has more than ``file_bytes``; several segments share one file,
    which the caller limits. The files after the first one have names that follow ``name``. No
    reader uses a file before a relocation names it, and none is written without rows. Raises
    NoSuchObjectError, CorruptionError if a part is damaged, and the errors of the cold store.
    """
    group_bytes = min(row_group_bytes, file_bytes // 4)
    files = _FileSequence(cold, contents[0].manifest, name)
    for content in contents:
        async with (
            aclosing(content.tables) as tables,
            aclosing(_joined(tables, group_bytes)) as groups,
        ):
            async for group in groups:
                if len(contents) == 1 and files.size_bytes + group.nbytes > file_bytes:
                    await files.finish_file()
                files.add(content.manifest.lssn, group)
    await files.finish_file()
    moved: list[MovedSegment] = []
    for manifest, _, erased in contents:
        parts = _covering(manifest, files.parts.get(manifest.lssn, []))
        moved.append(MovedSegment(manifest.lssn, manifest.link, parts, tuple(erased)))
        await verify_segment(cold, replace(manifest, parts=parts, erased=tuple(erased)))
    return tuple(moved)


class _FileSequence:
    """Files that are written one after the other; one is in memory."""

    def __init__(self, cold: ColdStore, first: Manifest, name: MergedName) -> None:
        self._cold = cold
        self._folder = first.folder
        self._origin = PartOrigin(first.namespace, first.stream, first.stream_identity, first.lssn)
        self._name = name
        self._file: ParquetOutput | None = None
        self.parts: dict[int, list[Part]] = {}
        """The parts of each segment, in order."""

    @property
    def size_bytes(self) -> int:
        """The size of the current file so far; 0 if it has no rows."""
        return 0 if self._file is None else self._file.size_bytes

    def add(self, lssn: int, group: "pa.Table") -> None:
        """Add a row group of a segment."""
        self._file = self._file or ParquetOutput(self._origin)
        self._file.add(lssn, group)

    async def finish_file(self) -> None:
        """Write the current file, if it has rows."""
        if self._file is None:
            return
        data, found = self._file.finish(str(self._name))
        self._file = None
        await put_object(self._cold, self._folder.part(str(self._name)), data)
        for lssn, part in found.items():
            self.parts.setdefault(lssn, []).append(part)
        self._name = self._name._replace(random=(self._name.random + 1) % _RANDOM_END)


def _covering(manifest: Manifest, parts: Sequence[Part]) -> tuple[Part, ...]:
    """Return parts that together cover the same entries as those of the segment before."""
    if not parts:
        return ()
    firsts = [manifest.parts[0].first_entry_id, *(part.first_entry_id for part in parts[1:])]
    lasts = [*(first - 1 for first in firsts[1:]), manifest.parts[-1].last_entry_id]
    return tuple(
        replace(part, first_entry_id=first, last_entry_id=last)
        for part, first, last in zip(parts, firsts, lasts, strict=True)
    )


async def stored_tables(cold: ColdStore, manifest: Manifest) -> AsyncGenerator["pa.Table", None]:
    """Yield the row groups of a segment. Raises NoSuchObjectError and CorruptionError."""
    for part in manifest.parts:
        async with aclosing(_tables(cold, manifest, part)) as tables:
            async for table in tables:
                yield table


async def _tables(
    cold: ColdStore, manifest: Manifest, part: Part
) -> AsyncGenerator["pa.Table", None]:
    key = manifest.part_key(part)
    if part.group_count:
        groups = await PartFile.open(cold, key, part)
        for number in range(part.group_count):
            yield await groups.read(number)
        return
    data = await cold.get(key)
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptionError(f"{key}: the SHA-256 differs from that in the manifest")
    file: Any = pq.ParquetFile(pa.BufferReader(data))
    for number in range(file.num_row_groups):
        yield file.read_row_group(number)


async def _joined(
    tables: AsyncGenerator["pa.Table", None], row_group_bytes: int
) -> AsyncGenerator["pa.Table", None]:
    """Join row groups up to the size at which the archiver ends one."""
    group: list[pa.Table] = []
    size = records = 0
    async for table in tables:
        if not table.num_rows:
            continue
        added = _record_bytes(table)
        is_full = size + added > row_group_bytes or records + table.num_rows > ROW_GROUP_RECORDS
        if group and is_full:
            yield pa.concat_tables(group)
            group, size, records = [], 0, 0
        group.append(table)
        size, records = size + added, records + table.num_rows
    if group:
        yield pa.concat_tables(group)


def _record_bytes(table: "pa.Table") -> int:
    """Return the size of what applications have written."""
    return sum(int(table.column(name).nbytes) for name in ("payload", "key", "headers"))
