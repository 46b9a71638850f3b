"""Copies archives from one cold store to another one (rules ARC-69 and ARC-72).

The steps are: plan what the target lacks, copy the files of segments (which several processes may
do), and publish manifests and relocations. A change of the source between the steps is detected.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from ...core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    NoSuchObjectError,
    RhumblineError,
    UnavailableError,
)
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import ManifestListing, scan_manifests
from ..archive.manifest import Manifest
from ..archive.relocation import Relocations, listed_relocations, read_relocation
from ..index.indexer import Indexer
from ..proof.chain_writer import ChainWriter
from ..proof.erasure_chain import stored_relocations
from .copy_plan import CopyPlan, StoredArchive, plan_copy
from .copy_relocations import copy_relocations


class PlannedCopies(NamedTuple):
    """The plan of each archive, and faults by key."""

    plans: dict[ArchiveFolder, CopyPlan]
    faults: dict[str, str]


class PublishedCopy(NamedTuple):
    """The segments and relocations that a copy has added to one archive, and its faults by key."""

    segments: list[Manifest]
    relocations: int
    faults: dict[str, str]


class ArchiveCopier:
    """Plans and publishes copies of archives. ``copy_parts`` copies their files in between."""

    def __init__(self, source: ColdStore, target: ColdStore, *, wall_ms: Callable[[], int]) -> None:
        self._source = source
        self._target = target
        self._wall_ms = wall_ms
        self._chains = ChainWriter(target)

    async def plan(self, prefix: str = "") -> PlannedCopies:
        """Return what the target lacks below ``prefix`` (NAMESPACE or NAMESPACE/STREAM).

        An archive that is damaged in one of the stores is a fault, and stops no other. Raises the
        errors of the stores.
        """
        found = await scan_manifests(self._source, prefix)
        held = await scan_manifests(self._target, prefix)
        planned = PlannedCopies({}, {key: str(error) for key, error in found.faults.items()})
        for folder in sorted(found.folders):
            if folder.tips in found.faults or folder.relocations in found.faults:
                continue  # what was erased cannot be proved
            if damage := held.faults_of(folder):
                texts = (f"{self._target.uri}: {error}" for error in damage)
                planned.faults[f"{self._target.uri}/{folder.chain}"] = "; ".join(texts)
                continue
            try:
                ours = await _stored(self._source, found, folder)
                plan = plan_copy(ours, await _stored(self._target, held, folder))
            except (CorruptionError, ForeignDataError) as error:  # changed after the listing
                planned.faults[folder.chain] = str(error)
                continue
            planned.faults.update(plan.faults)
            planned.plans[folder] = plan
        return planned

    async def publish(
        self, folder: ArchiveFolder, plan: CopyPlan, failed: Mapping[str, str]
    ) -> PublishedCopy:
        """Publish the segments and relocations of a plan whose files were copied.

        ``failed`` are faults by the keys of manifests whose files could not be copied: the chain
        ends before the first of them. If records were erased in the source since the plan was made,
        that is a fault, and the copy has to be repeated. Safe to repeat.
        """
        files = [*plan.segments, *plan.moved]
        done = PublishedCopy(
            [], 0, {one.key: failed[one.key] for one in files if one.key in failed}
        )
        is_idle = not files and not plan.relocations
        try:
            if not is_idle:
                await self._check_source(folder, plan)
            for manifest in plan.segments:
                if manifest.key in failed:
                    break
                await self._chains.publish(manifest, manifest.previous_link)
                await self._chains.cover(manifest)
                done.segments.append(manifest)
            if not done.faults:
                count = await copy_relocations(self._target, folder, plan, self._wall_ms)
                done = done._replace(relocations=count)
            if not is_idle:
                await self._check_source(folder, plan)
        except RhumblineError as error:
            done.faults[folder.chain] = str(error)
        return done

    async def index_target(self, namespaces: Iterable[str]) -> None:
        """Bring the index of the target up to date. Raises the errors of the target."""
        for namespace in sorted(namespaces):
            await Indexer(self._target, namespace).run_once()

    async def _check_source(self, folder: ArchiveFolder, plan: CopyPlan) -> None:
        """Raise UnavailableError if records were erased in the source after the plan was made."""
        if await _erased_since(self._source, folder, plan.known.last_number):
            raise UnavailableError(
                f"{folder.chain}: records were erased in {self._source.uri} during the copy: "
                "repeat it, so that they are erased from the copy, too"
            )


async def _stored(
    cold: ColdStore, listing: ManifestListing, folder: ArchiveFolder
) -> StoredArchive:
    """Return the archive of a stream. Raises the errors of ``stored_relocations``."""
    if folder not in listing.folders:
        return StoredArchive({}, Relocations())
    manifests = {one.lssn: one for one in listing.manifests if one.folder == folder}
    first_lssn = listing.tips[folder].first_lssn
    return StoredArchive(manifests, await stored_relocations(cold, folder), first_lssn)


async def _erased_since(cold: ColdStore, folder: ArchiveFolder, number: int) -> bool:
    """True if a relocation after ``number`` erases records.

    The next one is looked up by its key, because a listing may be stale.
    """
    later = [one for one in await listed_relocations(cold, folder) if one > number]
    for one in sorted({number + 1, *later}):
        try:
            if (await read_relocation(cold, folder, one)).erasure is not None:
                return True
        except NoSuchObjectError:
            continue
    return False
