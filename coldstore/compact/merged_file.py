"""Writes the records of several segments to one Parquet file, in order.

Each segment has row groups of its own, which hold its records unchanged: its content digest
verifies before and after. Small row groups of a segment become larger ones.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ...core.protocol.errors import CorruptionError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import MergedName
from ..archive.manifest import Manifest, Part
from ..archive.part import ROW_GROUP_RECORDS
from ..archive.part_file import chunk_crcs_of, footer_of
from ..archive.relocation import MovedSegment
from ..archive.schema import SCHEMA, PartOrigin, parquet_writer_options
from ..proof.verify import verify_segment
from ..stores.known_outcome import put_object


async def write_merged(
    cold: ColdStore, manifests: Sequence[Manifest], name: MergedName, row_group_bytes: int
) -> tuple[MovedSegment, ...]:
    """Write the records of segments to one file, read it back, and return where each one lies.

    No reader uses the file before a relocation names it. Raises NoSuchObjectError, CorruptionError
    if a part is damaged, and the errors of the cold store.
    """
    first = manifests[0]
    sink = pa.BufferOutputStream()
    writer: Any = pq.ParquetWriter(sink, SCHEMA, **parquet_writer_options())
    origin = PartOrigin(first.namespace, first.stream, first.stream_identity, first.lssn)
    writer.add_key_value_metadata(origin.file_metadata())
    counts: list[int] = []
    for manifest in manifests:
        counts.append(0)
        tables = [table for part in manifest.parts for table in await _tables(cold, manifest, part)]
        for group in _joined(tables, row_group_bytes):
            writer.write_table(group, row_group_size=group.num_rows)
            counts[-1] += 1
    writer.close()
    data: bytes = sink.getvalue().to_pybytes()
    moved = _described(manifests, str(name), data, counts)
    await put_object(cold, first.folder.part(str(name)), data)
    for manifest, segment in zip(manifests, moved, strict=True):
        await verify_segment(cold, replace(manifest, parts=segment.parts))
    return moved


async def _tables(cold: ColdStore, manifest: Manifest, part: Part) -> list["pa.Table"]:
    """Return the row groups of a part that is a whole file."""
    key = manifest.part_key(part)
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
        added = pc.sum(pc.binary_length(table.column("payload"))).as_py() or 0
        is_full = size + added > row_group_bytes or records + table.num_rows > ROW_GROUP_RECORDS
        if group and is_full:
            yield pa.concat_tables(group)
            group, size, records = [], 0, 0
        group.append(table)
        size, records = size + added, records + table.num_rows
    if group:
        yield pa.concat_tables(group)


def _described(
    manifests: Sequence[Manifest], name: str, data: bytes, counts: list[int]
) -> tuple[MovedSegment, ...]:
    crcs = chunk_crcs_of(data)
    width = len(crcs) // sum(counts)
    digests = hashlib.sha256(data).hexdigest(), hashlib.sha256(footer_of(data)).hexdigest()
    moved: list[MovedSegment] = []
    group = 0
    for manifest, count in zip(manifests, counts, strict=True):
        part = Part(
            name,
            manifest.parts[0].first_entry_id,
            manifest.parts[-1].last_entry_id,
            manifest.first_txid,
            manifest.last_txid,
            manifest.record_count,
            manifest.payload_bytes,
            len(data),
            *digests,
            crcs[group * width : (group + count) * width],
            group,
            count,
        )
        moved.append(MovedSegment(manifest.lssn, manifest.link, (part,)))
        group += count
    return tuple(moved)
