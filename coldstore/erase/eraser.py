"""Erases records from archives: files are written again without them (rules ARC-66 and ARC-67).

An erasure has the same steps as a compaction, and may be killed anywhere. A staged file has what is
left of the segments of one file, and a relocation names it: from then on readers do not find the
erased records. The relocation is also the proof of the erasure. ``ArchiveCompactor.settle`` deletes
the old files when the grace period is over.
"""

from collections.abc import Callable, Sequence

from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, MergedName
from ..archive.catalog import ManifestListing
from ..archive.manifest import Manifest
from ..archive.part_file import PartFile
from ..archive.relocation import Erasure, Relocation
from ..compact.merged_file import SegmentRows, stored_tables, write_file
from ..compact.publish import SegmentMove, publish
from .selection import COLUMNS, RecordSelection, without_selected

ROW_GROUP_BYTES = 16 << 20


class ArchiveEraser:
    """Erases records from the archives of one cold store."""

    def __init__(
        self, cold: ColdStore, selection: RecordSelection, *, wall_ms: Callable[[], int]
    ) -> None:
        self._cold = cold
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

    async def write(self, group: Sequence[Manifest], random: int) -> SegmentMove | None:
        """Write the file with what is left of a group; None if nothing of it is selected.

        Groups may be written concurrently. Raises the errors of ``write_file``.
        """
        if not await self._has_selected(group):
            return None
        contents = [await self._left_of(manifest) for manifest in group]
        name = MergedName(True, group[0].lssn, group[-1].lssn, self._wall_ms(), random)
        segments = await write_file(self._cold, contents, name, ROW_GROUP_BYTES)
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

    async def _left_of(self, manifest: Manifest) -> SegmentRows:
        sets, left = list(manifest.erased), []
        for table in await stored_tables(self._cold, manifest):
            rest, sets = without_selected(table, self._selection, sets, manifest.lssn)
            left.append(rest)
        return SegmentRows(manifest, left, tuple(sets))
