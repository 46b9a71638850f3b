"""Compares the contents of an Iceberg table with what its archive requires (rule ARC-50).

Iceberg's own metadata has no digests. A changed byte of it can hide files from a reader, or
exchange their bounds, so everything that readers use is compared with what registration would
write.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestContent, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.table.sorting import SortOrder

_COMPARED = (
    "content", "file_format", "file_size_in_bytes", "record_count", "column_sizes", "value_counts",
    "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds", "split_offsets",
    "equality_ids", "sort_order_id",
)  # fmt: skip
_EXISTING, _ADDED, _DELETED = ManifestEntryStatus


@dataclass(frozen=True, slots=True)
class ExpectedTable:
    """The content of a table that equals its archive."""

    location: str
    schema: Schema
    sort_order: SortOrder
    properties: Mapping[str, str]
    """Those that must have these values; there may be others."""
    files: Sequence[DataFile]
    may_have: Callable[[str], bool]
    """True for the path of a file whose segments the archive has deleted."""


def table_differences(table: Table, expected: ExpectedTable) -> Iterator[str]:
    """Yield what differs in the table and its current snapshot. Raises pyiceberg's errors."""
    for name, found, wanted in (
        ("location", table.location(), expected.location),
        ("schema", table.schema(), expected.schema),
        ("sort order", table.sort_order().fields, expected.sort_order.fields),
        ("partition spec", table.spec(), UNPARTITIONED_PARTITION_SPEC),
    ):
        if found != wanted:
            yield f"the {name} is {found}, not {wanted}"
    for name, value in expected.properties.items():
        if table.properties.get(name) != value:
            yield f"the property {name} is {table.properties.get(name)!r}, not {value!r}"
    files = yield from _read_files(table)
    yield from _different_files(files, expected)


def _different_files(found: Mapping[str, DataFile], expected: ExpectedTable) -> Iterator[str]:
    wanted_files = {one.file_path: one for one in expected.files}
    for path in sorted(found.keys() - wanted_files.keys()):
        if not expected.may_have(path):
            yield f"it has the file {path}, which the archive does not have"
    for path in sorted(wanted_files.keys() - found.keys()):
        yield f"it lacks the file {path}"
    for path in sorted(wanted_files.keys() & found.keys()):
        for name in _COMPARED:
            have, want = getattr(found[path], name), getattr(wanted_files[path], name)
            if have != want:
                yield f"{name} of {path} is {have}, not {want}"


def _read_files(table: Table) -> Generator[str, None, dict[str, DataFile]]:
    """Yield the faults of the current snapshot and its manifests, and return its files by path."""
    snapshot = table.current_snapshot()
    found: dict[str, DataFile] = {}
    if snapshot is None:
        return found
    for manifest in snapshot.manifests(table.io):
        for file in (yield from _files_of(table, manifest)):
            if file.file_path in found:
                yield f"it has the file {file.file_path} twice"
            found[file.file_path] = file
    yield from _wrong_totals(snapshot, list(found.values()))
    return found


def _files_of(table: Table, manifest: ManifestFile) -> Generator[str, None, list[DataFile]]:
    """Yield the faults of a manifest, and return its files."""
    where = manifest.manifest_path
    if manifest.content != ManifestContent.DATA:
        yield f"{where} removes records"
    if manifest.manifest_length != len(table.io.new_input(where)):
        yield f"the size of {where} is not {manifest.manifest_length}"
    entries = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
    for status, files, rows in (
        (_ADDED, manifest.added_files_count, manifest.added_rows_count),
        (_EXISTING, manifest.existing_files_count, manifest.existing_rows_count),
        (_DELETED, manifest.deleted_files_count, manifest.deleted_rows_count),
    ):
        held = [one.data_file.record_count for one in entries if one.status == status]
        if (files, rows) != (len(held), sum(held)):
            yield f"{where} has other numbers of files or records than the manifest list says"
    for entry in entries:
        if (entry.sequence_number or 0) > manifest.sequence_number:
            yield f"{where} has a file that is newer than the manifest"
    return [one.data_file for one in entries if one.status != _DELETED]


def _wrong_totals(snapshot: Snapshot, files: Sequence[DataFile]) -> Iterator[str]:
    totals = {
        "total-data-files": len(files),
        "total-records": sum(one.record_count for one in files),
        "total-delete-files": 0,
    }
    for name, wanted in totals.items():
        found = None if snapshot.summary is None else snapshot.summary.get(name)
        if found != str(wanted):
            yield f"{name} of the snapshot is {found}, not {wanted}"
