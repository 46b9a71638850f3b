"""Selects the archived segments from which a stream is restored."""

from collections.abc import Sequence

from ...core.protocol.errors import InvalidArgumentError
from ..archive.archive_folder import ArchiveFolder
from ..archive.catalog import ManifestListing
from ..archive.manifest import Manifest


def select_manifests(
    listing: ManifestListing, stream: str, *, stream_id: str = "", segments: range | None = None
) -> list[Manifest]:
    """Return the manifests of the stream with ``stream_id``, in order.

    Without an id it is the newest stream that had the name. Without ``segments`` all segments of
    its chain are selected, and a fault of the archive is raised; faults of segments outside of
    ``segments`` do not matter. Raises InvalidArgumentError if there is no such archive or segment.
    """
    folder = _folder(listing, stream, stream_id)
    manifests = [one for one in listing.manifests if one.folder == folder]
    for key in (folder.tips, folder.relocations):  # what was erased would come back
        if key in listing.faults:
            raise listing.faults[key]
    if segments is None:
        for error in listing.faults_of(folder):
            raise error
        covered = listing.tips[folder].covered
        return [one for one in manifests if one.lssn >= covered.start]
    chosen = [one for one in manifests if one.lssn in segments]
    if len(chosen) < len(segments) or not chosen:
        for lssn in segments:
            if folder.manifest(lssn) in listing.faults:
                raise listing.faults[folder.manifest(lssn)]
        have = ", ".join(str(one.lssn) for one in manifests)
        wanted = f"{segments.start}-{segments.stop - 1}"
        raise InvalidArgumentError(f"--segments {wanted}: the archive of {stream} has {have}")
    return chosen


def _folder(listing: ManifestListing, stream: str, stream_id: str) -> ArchiveFolder:
    named = [one for one in listing.folders if one.stream == stream]
    if stream_id:
        named = [one for one in named if one.stream_id == stream_id]
    if not named:
        what = f"{stream} with the stream id {stream_id}" if stream_id else stream
        raise InvalidArgumentError(f"no archive of {what}")
    return max(named, key=lambda folder: _created_ms(listing, folder))


def _created_ms(listing: ManifestListing, folder: ArchiveFolder) -> int:
    tip = listing.tips.get(folder)
    created = [one.created_ms for one in listing.manifests if one.folder == folder]
    return tip.created_ms if tip is not None else min(created, default=0)


def archived_names(listing: ManifestListing) -> Sequence[str]:
    """Return the names of the streams that have an archive, sorted."""
    return sorted({folder.stream for folder in listing.folders})
