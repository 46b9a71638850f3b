"""Moves the records of small segments to large files, in steps that may be interrupted anywhere.

1. A group of segments is written to a *staged* file, which tools that open a folder do not see.
2. A relocation moves the segments to it: our readers use it, the folder still has the old parts.
3. A grace period later the file is copied to the folder as a *merged* file, a second relocation
   names it, and the old parts are deleted.
4. Another grace period later the staged file is deleted.

A relocation is one object, which is created once: a crash leaves the archive before or after each
step, and the next run continues. Two compactors of one stream cannot both publish the relocation
with the next number.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ...core.protocol.errors import CorruptionError, InvalidArgumentError
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder, MergedName
from ..archive.catalog import ManifestListing, stored_merged, stored_parts
from ..archive.manifest import Manifest, Part
from ..archive.relocation import MovedSegment, Relocation, Relocations
from ..proof.erasure_chain import cover_erasures, stored_relocations
from ..stores.known_outcome import put_object
from .grouping import plan_groups
from .merged_file import FILE_BYTES_MAX, write_merged
from .publish import SegmentMove, note_moves, publish
from .unused_files import ArchiveFiles, superseded, unused_files

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class CompactionConfig:
    """Settings of a compaction; pickled for executors."""

    file_bytes: int = 128 * MIB
    """Largest sum of the parts that one file replaces. Raises InvalidArgumentError above 192 MiB,
    since a cold store refuses objects of more than 256 MiB."""
    row_group_bytes: int = 16 * MIB
    grace_ms: int = 3_600_000
    """Time for which replaced files are kept, because running readers may use them."""

    def __post_init__(self) -> None:
        if not 0 < self.file_bytes <= FILE_BYTES_MAX:
            raise InvalidArgumentError(
                f"files of {self.file_bytes / MIB:g} MiB are not of 1 to {FILE_BYTES_MAX // MIB} "
                "MiB"
            )


@dataclass(slots=True)
class SettledFiles:
    """The result of settling earlier compactions of a stream."""

    merged: int = 0
    """Number of files that were copied to the folder which tools open."""
    deleted: int = 0
    """Number of files that no longer were needed."""


class ArchiveCompactor:
    """Compacts the archives of one cold store."""

    def __init__(
        self, cold: ColdStore, config: CompactionConfig, *, wall_ms: Callable[[], int]
    ) -> None:
        self._cold = cold
        self._config = config
        self._wall_ms = wall_ms

    def groups(self, listing: ManifestListing, folder: ArchiveFolder) -> list[tuple[Manifest, ...]]:
        """Return the groups of segments that ``write`` may move; none of a damaged archive."""
        if listing.faults_of(folder):
            return []
        tip = listing.tips[folder]
        manifests = [one for one in listing.manifests if one.folder == folder]
        return plan_groups(
            [one for one in manifests if tip.covers(one.lssn)], self._config.file_bytes
        )

    async def write(self, group: Sequence[Manifest], random: int) -> tuple[MovedSegment, ...]:
        """Write the staged file of a group. Groups may be written concurrently.

        Raises the errors of ``write_merged``.
        """
        lssns = group[0].lssn, group[-1].lssn
        name = MergedName(True, *lssns, self._wall_ms(), random)
        return await write_merged(self._cold, group, name, self._config.row_group_bytes)

    async def commit(self, moves: Sequence[SegmentMove]) -> list[Relocation]:
        """Publish that segments of one stream have moved. Raises the errors of ``publish``."""
        return await publish(self._cold, moves, self._wall_ms)

    # --- earlier compactions --------------------------------------------------------------------

    async def settle(
        self, listing: ManifestListing, folder: ArchiveFolder, *, merges: bool = True
    ) -> SettledFiles:
        """Finish the earlier compactions of a stream whose grace period is over. Safe to repeat.

        Without ``merges`` only the files are deleted that nobody needs: a copy of an archive gets
        merged files and relocations from the original.

        Nothing is deleted from an archive with a damaged or missing object. Raises CorruptionError
        if a staged file is damaged, UnavailableError as ``commit``, and the errors of the store.
        """
        result = SettledFiles()
        manifests = {one.lssn: one for one in listing.manifests if one.folder == folder}
        if listing.faults_of(folder) or not manifests:
            return result
        stored = await stored_relocations(self._cold, folder)
        await cover_erasures(self._cold, folder, stored)  # a crash may have prevented it
        relocations = stored.known
        moved = []
        if merges:
            moved = await self._merge_staged(list(manifests.values()), relocations)
        result.merged = len(moved)
        if moved:
            relocations += tuple(await self.commit(moved))
        known = Relocations(relocations)
        manifests = {lssn: known.apply(one) for lssn, one in manifests.items()}
        files = ArchiveFiles(
            manifests,
            relocations,
            listing.tips[folder].covered,
            await stored_parts(self._cold, folder),
            await stored_merged(self._cold, folder),
        )
        times = self._wall_ms(), self._config.grace_ms
        unused = unused_files(files, *times)
        left = {str(name) for name in files.merged}.difference(unused)
        replaced = superseded(relocations, left, *times)
        if unused or replaced:
            await note_moves(
                self._cold, folder
            )  # a crash after the relocation may have prevented it
        for name in unused:
            await self._cold.delete(folder.part(name))
            result.deleted += 1
        for one in replaced:
            await self._cold.delete(one.key)
        return result

    async def _merge_staged(
        self, manifests: Sequence[Manifest], relocations: Sequence[Relocation]
    ) -> list[SegmentMove]:
        """Copy staged files whose grace period is over; return where their segments lie then."""
        newest = {one.lssn: relocation for relocation in relocations for one in relocation.segments}
        moved: dict[str, SegmentMove] = {}
        for manifest in manifests:
            staged = [MergedName.parse(part.name) for part in manifest.parts]
            name = staged[0] if staged else None
            if name is None or not name.is_staged:
                continue
            relocation = newest.get(manifest.lssn)
            since_ms = name.created_ms if relocation is None else relocation.created_ms
            if since_ms > self._wall_ms() - self._config.grace_ms:
                continue
            merged = [str(one._replace(is_staged=False)) for one in staged if one is not None]
            if merged[0] not in moved:
                for part, new in zip(manifest.parts, merged, strict=True):
                    await self._copy(manifest, part, new)
            parts = tuple(map(_renamed, manifest.parts, merged))
            segment = MovedSegment(manifest.lssn, manifest.link, parts, manifest.erased)
            before, after = moved.get(merged[0], SegmentMove((), ()))
            moved[merged[0]] = SegmentMove((*before, manifest), (*after, segment))
        return list(moved.values())

    async def _copy(self, manifest: Manifest, part: Part, name: str) -> None:
        source, target = manifest.part_key(part), manifest.folder.part(name)
        data = await self._cold.get(source)
        if hashlib.sha256(data).hexdigest() != part.sha256:
            raise CorruptionError(f"{source}: the SHA-256 differs from that in the manifest")
        if not await put_object(self._cold, target, data) and await self._cold.get(target) != data:
            raise CorruptionError(f"{target}: exists with other content")


def _renamed(part: Part, name: str) -> Part:
    return replace(part, name=name)
