"""Compares the archives of a cold store with the streams of the cluster (rule ARC-25).

Manifests and listings are read, and no part. ``verify`` reads the parts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from ...core.log.metadata.stream_description import StreamDescription
from ...core.log.namespace import LIST_LIMIT, Namespace
from ...core.protocol.errors import (
    CorruptionError,
    ForeignDataError,
    NoSuchStreamError,
    UnavailableError,
)
from ...core.protocol.segments import Residence, Segment
from ...core.runtime.cold_store import ColdStore
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import ManifestListing, scan_manifests, stored_merged, stored_parts
from ..archive.manifest import Manifest
from ..index.check_index import IndexCheck
from .repair_tip import repair_tip


@dataclass(slots=True)
class ReconciledArchive:
    """The segments of one stream in the archive, compared with those in the cluster."""

    folder: ArchiveFolder
    is_in_cluster: bool
    """False: the archive is of a stream that was deleted, or of another cluster."""
    archived: int = 0
    """Number of segments with a manifest."""
    waiting: int = 0
    """Number of completed segments that are not archived yet."""
    oldest_waiting_ms: int | None = None
    """When the oldest of them was completed; None if there is none."""
    orphans: int = 0
    """Number of files that no segment uses, those included that compaction has replaced."""
    has_new_tip: bool = False
    """True if the tip of the chain was written again."""
    faults: list[str] = field(default_factory=list)
    """Where archive and cluster contradict each other, and damaged objects."""


async def reconcile(
    cold: ColdStore,
    namespace: Namespace,
    streams: Iterable[str] = (),
    *,
    repairs_tips: bool = False,
) -> list[ReconciledArchive]:
    """Compare the archives of ``streams`` (default: all) with the cluster.

    With ``repairs_tips``, lost and damaged tips of chains are written again where the manifests and
    the metadata of the cluster prove that nothing is missing.

    Return one result for each stream of the cluster, and one for each archive of another stream,
    sorted. Raises the errors of the stores.
    """
    names = tuple(streams)
    described = {one.name: one for one in await _described(namespace, names)}
    prefixes = [f"{namespace.name}/{name}" for name in names] or [namespace.name]
    found: list[ReconciledArchive] = []
    for prefix in prefixes:
        check = IndexCheck(cold, prefix)
        await check.load()
        listing = await scan_manifests(cold, prefix)
        index_faults = await check.faults(listing)
        folders = {_folder(namespace, one) for one in described.values()}
        folders = {one for one in folders if f"{'/'.join(one[:2])}/".startswith(f"{prefix}/")}
        for folder in sorted({*folders, *listing.folders}):
            stream = described.get(folder.stream)
            if stream is not None and _folder(namespace, stream) != folder:
                stream = None
            result = await _compared(cold, folder, listing, stream)
            if repairs_tips and stream is not None and folder.tips in listing.faults:
                await _repair(cold, result, listing, stream)
            if (fault := index_faults.pop(check.key_of(folder), None)) is not None:
                result.faults.append(str(fault))
            found.append(result)
        if found:  # faults of the index as a whole
            found[-1].faults += map(str, index_faults.values())
    return found


async def _described(namespace: Namespace, names: tuple[str, ...]) -> list[StreamDescription]:
    found: list[StreamDescription] = []
    for name in names or await _all_names(namespace):
        try:
            found.append(await namespace.describe(name))
        except NoSuchStreamError:
            continue  # only the archive has it
    return found


async def _all_names(namespace: Namespace) -> list[str]:
    names: list[str] = []
    while True:
        page = await namespace.streams(after=names[-1] if names else None, limit=LIST_LIMIT)
        names += page
        if len(page) < LIST_LIMIT:
            return names


def _folder(namespace: Namespace, stream: StreamDescription) -> ArchiveFolder:
    return ArchiveFolder(namespace.name, stream.name, stream.stream_id)


async def _compared(
    cold: ColdStore,
    folder: ArchiveFolder,
    listing: ManifestListing,
    stream: StreamDescription | None,
) -> ReconciledArchive:
    manifests = {one.lssn: one for one in listing.manifests if one.folder == folder}
    result = ReconciledArchive(folder, stream is not None, archived=len(manifests))
    result.faults += [str(error) for error in listing.faults_of(folder)]
    for segment in () if stream is None else stream.segments:
        key = folder.manifest(segment.lssn)
        if segment.residence is not Residence.HOT and key not in listing.faults:
            result.faults += _differences(folder, segment, manifests.get(segment.lssn))
        elif segment.residence is Residence.HOT and segment.is_completed:
            result.waiting += 1
            oldest_ms = result.oldest_waiting_ms or segment.completed_ms
            result.oldest_waiting_ms = min(oldest_ms, segment.completed_ms)
    named = {part.name for one in manifests.values() for part in one.parts}
    stored = await stored_parts(cold, folder)
    names = [name for found in stored.values() for name in found]
    names += [str(name) for name in await stored_merged(cold, folder)]
    result.orphans = sum(name not in named for name in names)
    return result


async def _repair(
    cold: ColdStore, result: ReconciledArchive, listing: ManifestListing, stream: StreamDescription
) -> None:
    """Write the tip of an archive again, and note that or the reason why it is impossible."""
    manifests = [one for one in listing.manifests if one.folder == result.folder]
    try:
        await repair_tip(cold, result.folder, manifests, stream)
    except (CorruptionError, ForeignDataError, UnavailableError) as error:
        result.faults.append(str(error))
    else:
        result.has_new_tip = True
        result.faults.remove(str(listing.faults[result.folder.tips]))


def _differences(folder: ArchiveFolder, segment: Segment, manifest: Manifest | None) -> list[str]:
    """Return how the archive of a segment contradicts the cluster's metadata."""
    if manifest is None:
        return [
            f"{folder.manifest(segment.lssn)}: segment {segment.lssn} is archived according to the "
            "cluster, and has no usable manifest"
        ]
    if segment.archive_link and segment.archive_link != manifest.link:
        return [
            f"{manifest.key}: the link is {manifest.link}, that in the metadata of the cluster is "
            f"{segment.archive_link}"
        ]
    return []
