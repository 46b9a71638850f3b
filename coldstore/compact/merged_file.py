"""Writes the records of several segments to one Parquet file, in order.

Each segment has row groups of its own, which hold its records unchanged: its content digest
verifies before and after. Small row groups of a segment become larger ones.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.protocol.errors import CorruptionError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import MergedName
from ..archive.manifest import Manifest, Part
from ..archive.part import ROW_GROUP_RECORDS
from ..archive.part_file import PartFile, chunk_crcs_of, footer_of
from ..archive.relocation import MovedSegment
from ..archive.schema import SCHEMA, PartOrigin, parquet_writer_options
from ..erase.erased_set import ErasedSet
from ..proof.verify import verify_segment
from ..stores.known_outcome import put_object


class SegmentRows(NamedTuple):
    """The rows of a segment that one file will hold."""

    manifest: Manifest
    """The segment before it moves."""
    tables: list["pa.Table"]
    erased: tuple[ErasedSet, ...]
    """All sets of which records were erased, those included that ``tables`` lack for the first
    time."""


async def write_merged(
    cold: ColdStore, manifests: Sequence[Manifest], name: MergedName, row_group_bytes: int
) -> tuple[MovedSegment, ...]:
    """Write the records of segments to one file, as ``write_file``."""
    contents = [SegmentRows(one, await stored_tables(cold, one), one.erased) for one in manifests]
    return await write_file(cold, contents, name, row_group_bytes)


async def write_file(
    cold: ColdStore, contents: Sequence[SegmentRows], name: MergedName, row_group_bytes: int
) -> tuple[MovedSegment, ...]:
    """Write rows of segments to one file, read it back, and return where each segment lies.

    No reader uses the file before a relocation names it. No file is written if there are no rows.
    Raises NoSuchObjectError, CorruptionError if a part is damaged, and the errors of the cold
    store.
    """
    first = contents[0].manifest
    sink = pa.BufferOutputStream()
    writer: Any = pq.ParquetWriter(sink, SCHEMA, **parquet_writer_options())
    origin = PartOrigin(first.namespace, first.stream, first.stream_identity, first.lssn)
    writer.add_key_value_metadata(origin.file_metadata())
    counts: list[int] = []
    for content in contents:
        counts.append(0)
        for group in _joined(content.tables, row_group_bytes):
            writer.write_table(group, row_group_size=group.num_rows)
            counts[-1] += 1
    writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    moved = _described(contents, str(name), data, counts)
    if sum(counts):
        await put_object(cold, first.folder.part(str(name)), data)
    for content, segment in zip(contents, moved, strict=True):
        moved_to = replace(content.manifest, parts=segment.parts, erased=segment.erased)
        await verify_segment(cold, moved_to)
    return moved


async def stored_tables(cold: ColdStore, manifest: Manifest) -> list["pa.Table"]:
    """Return the row groups of a segment. Raises NoSuchObjectError and CorruptionError."""
    return [table for part in manifest.parts for table in await _tables(cold, manifest, part)]


async def _tables(cold: ColdStore, manifest: Manifest, part: Part) -> list["pa.Table"]:
    key = manifest.part_key(part)
    if part.group_count:
        groups = await PartFile.open(cold, key, part)
        return [await groups.read(number) for number in range(part.group_count)]
    data = await cold.get(key)
    if hashlib.sha256(data).hexdigest() != part.sha256:
        raise CorruptionError(f"{key}: the SHA-256 differs from that in the manifest")
    file: Any = pq.ParquetFile(pa.BufferReader(data))
    return [file.read_row_group(number) for number in range(file.num_row_groups)]


def _joined(tables: list["pa.Table"], row_group_bytes: int) -> Iterator["pa.Table"]:
    """Join row groups up to the size at which the archiver ends one."""
    group: list[pa.Table] = []
    size = records = 0
    for table in tables:
        if not table.num_rows:
            continue
        added = _payload_bytes(table)
        is_full = size + added > row_group_bytes or records + table.num_rows > ROW_GROUP_RECORDS
        if group and is_full:
            yield pa.concat_tables(group)
            group, size, records = [], 0, 0
        group.append(table)
        size, records = size + added, records + table.num_rows
    if group:
        yield pa.concat_tables(group)


def _payload_bytes(table: "pa.Table") -> int:
    return pc.sum(pc.binary_length(table.column("payload"))).as_py() or 0


def _described(
    contents: Sequence[SegmentRows], name: str, data: bytes, counts: list[int]
) -> tuple[MovedSegment, ...]:
    crcs = chunk_crcs_of(data)
    width = len(crcs) // max(1, sum(counts))
    digests = hashlib.sha256(data).hexdigest(), hashlib.sha256(footer_of(data)).hexdigest()
    moved: list[MovedSegment] = []
    group = 0
    for (manifest, tables, erased), count in zip(contents, counts, strict=True):
        if not count:
            moved.append(MovedSegment(manifest.lssn, manifest.link, (), erased))
            continue
        rows = [table for table in tables if table.num_rows]
        part = Part(
            name,
            manifest.parts[0].first_entry_id,
            manifest.parts[-1].last_entry_id,
            rows[0].column("txid")[0].as_py(),
            rows[-1].column("txid")[-1].as_py(),
            sum(table.num_rows for table in rows),
            sum(map(_payload_bytes, rows)),
            len(data),
            *digests,
            crcs[group * width : (group + count) * width],
            group,
            count,
        )
        moved.append(MovedSegment(manifest.lssn, manifest.link, (part,), erased))
        group += count
    return tuple(moved)
