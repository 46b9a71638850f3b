"""Deletes old archived segments, from the head of the chain (rule ARC-65)."""

from collections.abc import Sequence
from dataclasses import dataclass

from ...core.runtime.cold_store import ColdStore
from .archive_folder import ArchiveFolder
from .catalog import ManifestListing
from .cold_archives import ColdArchives
from .manifest import Manifest


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """Limits of the archive of a stream. None: no limit of this kind."""

    completed_after_ms: int | None = None
    """Segments that were completed at this time or earlier are deleted."""
    payload_bytes_max: int | None = None
    """The newest segments are kept whose payloads together have at most this size."""


def first_kept(manifests: Sequence[Manifest], limits: RetentionLimits) -> int:
    """Return the oldest segment that the limits keep; ``manifests`` are in order.

    A segment is judged by the time at which it was completed, wherever its records lie now, and by
    the payloads that were not erased. The newest segment is always kept, so that it is known which
    stream had the archive.
    """
    return max(_first_young(manifests, limits), _first_within_size(manifests, limits))


def _first_young(manifests: Sequence[Manifest], limits: RetentionLimits) -> int:
    """Return the first segment that is not old.

    Older ones may follow it if the clocks of writers differed. They wait for it, because only
    segments before it may be deleted.
    """
    oldest_ms = limits.completed_after_ms
    if oldest_ms is None:
        return manifests[0].lssn
    young = (one.lssn for one in manifests if one.completed_ms > oldest_ms)
    return next(young, manifests[-1].lssn)


def _first_within_size(manifests: Sequence[Manifest], limits: RetentionLimits) -> int:
    kept, size = manifests[-1].lssn, _stored_payload_bytes(manifests[-1])
    for manifest in reversed(manifests[:-1]):
        size += _stored_payload_bytes(manifest)
        if limits.payload_bytes_max is not None and size > limits.payload_bytes_max:
            break
        kept = manifest.lssn
    return kept


def _stored_payload_bytes(manifest: Manifest) -> int:
    return sum(part.payload_bytes for part in manifest.parts)


async def retain(
    cold: ColdStore,
    listing: ManifestListing,
    folder: ArchiveFolder,
    limits: RetentionLimits,
    *,
    below: int | None = None,
) -> list[int]:
    """Delete the segments of an archive that the limits do not keep; return them.

    ``below`` is the oldest segment that the cluster still has of the stream, which is never
    deleted. The tip of the chain records the deletion first, so that no reader takes it for damage.
    Safe to repeat. Nothing is deleted from an archive with a damaged object.
    """
    manifests = [one for one in listing.manifests if one.folder == folder]
    if listing.faults_of(folder) or not manifests:
        return []
    end = first_kept(manifests, limits)
    if below is not None:
        end = min(end, below)
    if end <= manifests[0].lssn:
        return []
    archives = ColdArchives(cold, folder.namespace)
    identity = manifests[0].stream_identity
    deleted: list[int] = []
    while done := await archives.expire(
        folder.stream, identity, below=end, completed_by_ms=2**63 - 1
    ):
        deleted += done
    return deleted
