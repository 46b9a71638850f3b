"""Erases records from archives: files are written again without them (rules ARC-66 and ARC-67).

An erasure has the same steps as a compaction, and may be killed anywhere. A staged file has what is
left of the segments of one file, and a relocation names it: from then on readers do not find the
erased records. The relocation is also the proof of the erasure. ``ArchiveCompactor.settle`` deletes
the old files when the grace period is over.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

import pyarrow as pa

from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, MergedName
from ..archive.catalog import ManifestListing
from ..archive.manifest import Manifest
from ..archive.part_file import PartFile
from ..archive.relocation import Erasure, Relocation
from ..compact.merged_file import FILE_BYTES_MAX, SegmentRows, stored_tables, write_files
from ..compact.publish import SegmentMove, publish
from .erased_set import ErasedSet
from .selection import COLUMNS, RecordSelection, without_selected

ROW_GROUP_BYTES = 16 << 20


class ArchiveEraser:
    """Erases records from the archives of one cold store."""

    def __init__(
        self,
        cold: ColdStore,
        selection: RecordSelection,
        *,
        wall_ms: Callable[[], int],
        file_bytes: int = FILE_BYTES_MAX,
    ) -> None:
        """A segment that has more than ``file_bytes`` afterwards is written to several files."""
        self._cold = cold
        self._file_bytes = file_bytes
        self._selection = selection
        self._wall_ms = wall_ms

    def groups(self, listing: ManifestListing, folder: ArchiveFolder) -> list[tuple[Manifest, ...]]:
        """Return the segments with records, those that share a file in one group.

        There are none in a damaged archive, which is not changed.
        """
        if listing.faults_of(folder):
            return []
        tip = listing.tips[folder]
        found: dict[str, list[Manifest]] = {}
        for one in listing.manifests:
            if one.folder == folder and one.parts and tip.covers(one.lssn):
                found.setdefault(one.parts[0].name, []).append(one)
        return [tuple(group) for group in found.values()]

    def unreached(self, listing: ManifestListing, folder: ArchiveFolder) -> dict[str, str]:
        """Return why nothing is erased from segments that are stored outside of the chain, by key.

        Damage is not among the reasons, because it is a fault of the listing.
        """
        found: dict[str, str] = {}
        tip = listing.tips.get(folder)
        for one in listing.manifests if tip is not None else ():
            if one.folder == folder and tip is not None and one.lssn > tip.last_lssn:
                found[one.key] = (
                    f"{one.key}: nothing was erased from the segment, because the archiver or copy "
                    "that has stored it was interrupted: repeat this after its next run"
                )
            elif one.folder == folder and tip is not None and one.lssn < tip.first_lssn:
                found[one.key] = (
                    f"{one.key}: nothing was erased from the segment, because retention was "
                    "interrupted while it deleted it: its next run completes that"
                )
        return found

    async def write(self, group: Sequence[Manifest], random: int) -> SegmentMove | None:
        """Write the files with what is left of a group; None if nothing of it is selected.

        Groups may be written concurrently. Raises the errors of ``write_files``.
        """
        if not await self._has_selected(group):
            return None
        contents = [self._left_of(manifest) for manifest in group]
        name = MergedName(True, group[0].lssn, group[-1].lssn, self._wall_ms(), random)
        segments = await write_files(self._cold, contents, name, ROW_GROUP_BYTES, self._file_bytes)
        return SegmentMove(tuple(group), segments)

    async def commit(self, moves: Sequence[SegmentMove], erasure: Erasure) -> list[Relocation]:
        """Publish erasures of one stream. Raises the errors of ``publish``."""
        return await publish(self._cold, moves, self._wall_ms, erasure)

    async def _has_selected(self, group: Sequence[Manifest]) -> bool:
        for manifest in group:
            for part in manifest.parts:
                file = await PartFile.open(self._cold, manifest.part_key(part), part)
                for number, row_group in enumerate(file.row_groups):
                    if self._selection.may_match(row_group):
                        table = await file.read(number, COLUMNS)
                        if any(self._selection.mask(table).to_pylist()):
                            return True
        return False

    def _left_of(self, manifest: Manifest) -> SegmentRows:
        erased = list(manifest.erased)
        return SegmentRows(manifest, self._rest(manifest, erased), erased)

    async def _rest(
        self, manifest: Manifest, erased: list[ErasedSet]
    ) -> AsyncGenerator["pa.Table", None]:
        """Yield what is left of a segment, and note in ``erased`` what is not."""
        async with aclosing(stored_tables(self._cold, manifest)) as tables:
            async for table in tables:
                rest, erased[:] = without_selected(table, self._selection, erased, manifest.lssn)
                yield rest
